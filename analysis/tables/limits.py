"""How near our kernel is to the limit: at each shape, by kind of shape, and by operation.

README, the results page and the report show `headline` and `operations` and no other summary, so
their numbers agree.
"""

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis import points as limit
from analysis.estimate import geometric_mean
from analysis.figures.limits import file_of
from analysis.figures.style import protocol, slug, variant_order
from analysis.format import BEHIND, Cell, Named, Table, keys_of, number_text, table, texts
from analysis.load import Inputs
from analysis.points import ENDS, LARGE_BYTES, MAKERS, POINT, ROOF, SHORT_US, maker
from analysis.published import OPERATION
from analysis.selection import TIMER_NAMES, undisturbed
from experiments.data.cards import datasheet_of
from experiments.data.jobs import OURS
from experiments.data.rows import EXPECTED
from experiments.data.statistics import unconverged

BY_GPU = ["gpu", "rows", "cols", "dtype"]
SPEED = "speed / fastest public"
PYTORCHS = ("torch", "compile")  # makers of kernels that come with PyTorch
RIVALS = {"best": "peers", "torch": "torch", "roof": ROOF}  # by the names of columns
OFTEN = 0.1  # a main rival is the fastest at this share of points or more
REFUSED, NOT_ASKED = "–", "·"  # in place of a time
FEW_ROWS = 64  # so few rows do not fill a card by themselves; they are averaged apart


def limits(inputs: Inputs) -> Named:
    """At every shape each public kernel's time, ours and the roof's, softmax first."""
    for operation, found in inputs.points.items():
        failed = _failures(inputs.frame, found)
        every = inputs.ratios(operation)
        for name, over in RIVALS.items():
            ends = inputs.ratios(operation, over).set_index(POINT)[ENDS]
            every = every.join(ends.add_prefix(f"{name}_"), on=POINT)
        for group, lines in zip(*map(limit.groups, (found, every)), strict=True):
            yield file_of("limits", group), _shapes(inputs.frame, group, lines, failed)


def _failures(frame: pd.DataFrame, found: pd.DataFrame) -> Mapping[Any, dict[str, str]]:
    """For each point the public kernels without a time, with status; `REFUSED` if expected."""
    rows = frame[frame["operation"].eq(found["operation"].iloc[0])]
    rows = rows[rows["status"].ne("ok") & ~rows["kernel"].map(maker).isin(["", OURS])]
    rows = rows.assign(status=rows["status"].where(~rows["status"].isin(EXPECTED), REFUSED))
    rows = rows.merge(found[[*BY_GPU, "set"]].drop_duplicates())
    timed = pd.MultiIndex.from_frame(found[[*BY_GPU, "kernel"]])
    rows = rows[~pd.MultiIndex.from_frame(rows[[*BY_GPU, "kernel"]]).isin(timed)]
    return {
        at: dict(zip(one["kernel"], one["status"], strict=True)) for at, one in rows.groupby(BY_GPU)
    }


def _shapes(
    frame: pd.DataFrame, group: pd.DataFrame, lines: pd.DataFrame, failures: Mapping[Any, Any]
) -> Table:
    """A line per point of one group; ``lines`` have the ratios of each of `RIVALS`."""
    role = group.drop_duplicates("kernel").set_index("kernel")["role"]
    own, first = lines["own"].iloc[0], group.iloc[0]
    failed = [failures.get(at, {}) for at in lines[BY_GPU].itertuples(index=False, name=None)]
    wrong = [{k: how for k, how in one.items() if how != REFUSED} for one in failed]
    peers = {*role.index[role == "peer"], *(name for one in wrong for name in one)}
    roofs = sorted(role.index[role == "roof"], key=variant_order)
    public = [*sorted(peers, key=limit.peer_order), own]
    alone = undisturbed(group, [*POINT, "kernel"]).groupby([*POINT, "kernel"])
    times = alone["us"].agg(geometric_mean).unstack("kernel").reindex(columns=[*roofs, *public])
    at, lines = lines.set_index(POINT), lines.reset_index(drop=True)
    data = at[["tuned"]].assign(moved_bytes=at["bytes"]).join(times.add_suffix("_us"))
    names = [f"{name}_{end}" for name in RIVALS for end in ENDS]
    data = data.assign(best_peer=at["kernel"]).join(at[[*names, "above_roof"]]).reset_index()
    data["failed"] = ["; ".join(f"{name}: {how}" for name, how in one.items()) for one in wrong]
    for name, (column, joined) in BEHIND.items():
        data[name] = lines["labels"].explode().map(frame[column]).groupby(level=0).agg(joined)
    fastest = data[[f"{name}_us" for name in public]].min(axis=1)
    shown = pd.DataFrame({"M×N": data["rows"].astype(str) + "×" + data["cols"].astype(str)})
    shown["dtype"], shown["MB"] = data["dtype"], data["moved_bytes"] / 1e6
    for name in (*roofs, *public):
        lone = data[f"{name}_us"]
        best = lone.eq(fastest) & (name in public)
        known = map(Cell, lone.map(number_text).where(lone.notna(), NOT_ASKED), best)
        cells = [how.get(name, cell) for how, cell in zip(failed, known, strict=True)]
        shown[name] = pd.Series(cells, dtype=object)
    shown["fastest public"] = data["best_peer"]
    shown["× fastest public"] = data["best_ratio"].map("{:.3f}".format)
    shown["× fastest public"] += lines["short"].map("~".__mul__)
    ends = zip(data["best_low"], data["best_high"], strict=True)
    shown["95 %"] = [f"{low:,.3f}–{high:,.3f}" for low, high in ends]
    shown["× torch"] = data["torch_ratio"].map(lambda one: number_text(one, 2))
    shown["of roof"] = data["roof_ratio"].map(_percent) + lines["above_roof"].map("!".__mul__)
    late = int(group["stop_reason"].map(unconverged).ne("").sum())
    notes = texts("limits", late=late, times=len(group), short=SHORT_US)
    widths = "tuned widths" if first["tuned"] else "other widths"
    card = datasheet_of(first["gpu"]).name
    where = first["operation"], card, protocol(first["timer"], first["cache"])
    return table(f"At the limit: {', '.join([*where, widths])}", shown, notes, data)


def headline(inputs: Inputs) -> Named:
    """Softmax: ours against the fastest public kernel and a copy, under the first protocol."""
    if OPERATION not in inputs.points:
        return
    lines, protocol = inputs.ratios(OPERATION), ["gpu", "timer", "cache"]
    lines = lines[(lines[protocol] == lines.iloc[0][protocol]).all(axis=1)]
    found = inputs.points[OPERATION].merge(lines[POINT])
    large, tuned, few = lines["large"], lines["tuned"].astype(bool), lines["rows"] <= FEW_ROWS
    rival = _rival(lines[large] if large.any() else lines, found)
    answered, name = _has(lines, found, rival), MAKERS.get(rival, rival)
    parts = {
        f"large, tuned widths, {name} answers": lines[large & ~few & answered & tuned],
        f"large, other widths, {name} answers": lines[large & ~few & answered & ~tuned],
        f"large, {name} fails": lines[large & ~few & ~answered],
        f"large, {FEW_ROWS} rows or fewer": lines[large & few],
        "small, tuned widths": lines[~large & tuned],
        "small, other widths": lines[~large & ~tuned],
    }
    every = {text: _summary(inputs, OPERATION, part) for text, part in parts.items()}
    data = pd.DataFrame({"shapes": text} | line for text, line in every.items() if line)
    if data.empty:
        return
    shown = data[["shapes", "points"]].assign(
        **{SPEED: _speeds(data), "median": data["median"].map("{:.2f}".format)},
        **{"share of a copy": data["share"].map(_percent)},
    )
    worst = data[["slower", "worst", "worst_at"]].itertuples(index=False)
    shown["ours is slower at"] = [
        f"{n}; worst {x:.3f} at {at}" if n else "none" for n, x, at in worst
    ]
    first, own = found.iloc[0], lines["own"].iloc[0]
    many, timer = data["recordings_used"].max(), TIMER_NAMES.get(first["timer"], first["timer"])
    where = f"{first['gpu']}, recordings: {many}, {timer}, {first['cache']} L2"
    over, size = " or ".join(data["interval_over"].unique()), f"{LARGE_BYTES / 1e6:.0f} MB"
    notes = texts("headline", where=where, own=own, over=over, large=size)
    title = "softmax against the fastest public kernel, and against a copy"
    yield "headline", table(title, shown, notes, data)


def operations(inputs: Inputs) -> Named:
    """A line per operation with a time of PyTorch's: ours against the fastest and the roof.

    Only large points of the first protocol count, or all if an operation has no large ones. The
    table named ``operations`` is of the card with most points; others have the card in their name.
    """
    cards = pd.concat([pd.Series(dtype=str), *(one["gpu"] for one in inputs.points.values())])
    for i, gpu in enumerate(cards.value_counts().index):
        mine = {name: one[one["gpu"] == gpu] for name, one in inputs.points.items()}
        if made := _operations(inputs, mine, f"Every operation: {datasheet_of(gpu).name}"):
            yield f"operations-{slug(gpu)}" if i else "operations", made


def _operations(inputs: Inputs, points: Mapping[str, pd.DataFrame], title: str) -> Table | None:
    lines = []
    for operation, found in ((name, one) for name, one in points.items() if len(one)):
        first, every = limit.groups(found)[0], inputs.ratios(operation)
        if not first["by"].isin(PYTORCHS).any():  # without PyTorch's, other rivals say little
            continue
        every = every[every["gpu"] == first["gpu"].iloc[0]]
        here = limit.groups(every)[0]
        if here["large"].any():
            here = here[here["large"]]
        same = every["timer"].eq(first["timer"].iloc[0]) & every["large"]
        other = limit.geomean(every[same & ~every["tuned"]])
        found = found.merge(here[POINT])
        rival = _rival(here, found)
        alone = found.loc[found["role"] == "peer", "by"].isin(PYTORCHS).all()
        answered = _has(here, found, rival)
        if not (numbers := _summary(inputs, operation, here[answered])):
            continue
        places = found[["operation", *BY_GPU, "set"]].drop_duplicates()
        asked = _has(here, inputs.frame[[*places, "kernel"]].merge(places), rival)
        failed = limit.geomean(here[asked & ~answered])
        arithmetic = found["arithmetic_us"].notna().any()
        line = {
            "operation": operation,
            "our kernel": here["own"].iloc[0],
            "main rival": MAKERS.get(rival, rival) + " (no library)" * bool(alone),
            "if it fails": failed and f"{failed.value:.2f} at {failed.points}",
            "other widths": other and f"{other.value:.2f} at {other.points}",
            "roof": "its slowest roof" if arithmetic else found["roof"].iloc[0],
        }
        lines.append(line | numbers)
    if not lines:
        return None
    data = pd.DataFrame(lines)
    shown = data[["operation", "points", "main rival", "if it fails", "other widths"]]
    shown.insert(2, SPEED, _speeds(data))
    of_roof = data["share"].map(_percent) + " of " + data["roof"]
    shown["share of the roof"] = of_roof.where(data["share"].notna(), "–")
    return table(title, shown, texts("operations", versions=versions(inputs, points)), data)


def versions(inputs: Inputs, points: Mapping[str, pd.DataFrame]) -> str:
    """The software behind the points in one line, such as ``torch 2.11.0, triton 3.6.0``."""
    labels = sorted({label for found in points.values() for label in found["label"]})
    environments = {id(one): one for one in inputs.frame.loc[labels, "environment"]}.values()
    parts = ("torch", "triton", "driver")
    known = pd.DataFrame(
        {part: one.get(part) for part in parts} | (one.get("packages") or {})
        for one in environments
    )
    several = {name: sorted(known[name].dropna().unique()) for name in known}
    return ", ".join(f"{name} {' and '.join(own)}" for name, own in several.items() if own)


def mixed_code(rows: pd.DataFrame) -> list[str]:
    """Why rows are not of one code: kernels of several sources, recordings of no clean commit."""
    facts = pd.DataFrame([*rows["environment"]], rows.index, ["source", "commit", "dirty"])
    sources = facts["source"].groupby(rows["kernel"]).nunique(dropna=False)
    unclean = rows.loc[facts["dirty"].ne(False) | facts["commit"].isna(), "recording"]
    several = [f"{name} of {count} sources" for name, count in sources.items() if count > 1]
    return [*several, *(f"{one} by an edited or unnamed commit" for one in sorted({*unclean}))]


def _summary(inputs: Inputs, operation: str, lines: pd.DataFrame) -> dict[str, Any]:
    """One summary of some lines of `Inputs.ratios`, with the rows behind it; may be empty."""
    if (mean := limit.geomean(lines, by_width=True)) is None:
        return {}
    shares = inputs.ratios(operation, ROOF)[[*POINT, "ratio"]].merge(lines[POINT])["ratio"]
    slower = lines[lines["high"] < 1].sort_values("ratio")  # the whole interval lies below 1
    labels = sorted({label for one in lines["labels"] for label in one})
    return {
        **{"points": mean.points, "ratio": mean.value, "low": mean.low, "high": mean.high},
        **{"median": lines["ratio"].median(), "interval_over": mean.units},
        "recordings_used": mean.recordings,
        **{"share": limit.mean_share(shares), "slower": len(slower)},
        **{"worst": slower["ratio"].min(), "worst_at": "".join(slower["name"][:1])},
        "not_one_code": "; ".join(mixed_code(inputs.frame.loc[labels])),
        **dict(zip(BEHIND, keys_of(inputs.frame, labels), strict=True)),
    }


def _speeds(data: pd.DataFrame) -> pd.Series:
    ends = data[["ratio", "low", "high"]].itertuples(index=False)
    cells = [Cell(f"{x:.2f} ({low:.2f}–{high:.2f})", strong=True) for x, low, high in ends]
    return pd.Series(cells, dtype=object)


def _percent(share: float) -> str:
    return "–" if math.isnan(share) else f"{100 * share:.1f} %"


def _rival(lines: pd.DataFrame, found: pd.DataFrame) -> str:
    """The maker whose failures raise our ratio most, if it is the fastest at `OFTEN` or more.

    If none fails it is the one that is the fastest most often. In a mean over all points, slower
    kernels that answer everywhere would hide a faster one's failures.
    """
    often = lines["kernel"].map(maker).value_counts(normalize=True)
    gains = dict[str, float]()
    for by in often.index[often >= OFTEN]:
        has = _has(lines, found, by)
        fails, answers = (geometric_mean(lines.loc[at, "ratio"]) for at in (~has, has))
        gains[by] = 1.0 if has.all() else fails / answers
    return max(gains, key=lambda one: gains[one], default="")


def _has(lines: pd.DataFrame, rows: pd.DataFrame, by: str) -> pd.Series:
    """Which lines are at a shape and dtype at which ``rows`` have a row of a maker's kernel."""
    known = pd.MultiIndex.from_frame(rows.loc[rows["kernel"].map(maker) == by, BY_GPU])
    return pd.Series(pd.MultiIndex.from_frame(lines[BY_GPU]).isin(known), lines.index)
