"""``compare``: two sweeps point by point, or two kernels of one sweep.

**Two sweeps.** The mean logarithms of the times of HEAD's and BASE's rounds are compared, unpaired.
The rounds of a sweep have a variance s². It does not show how far two processes lie apart, so
``noise.json`` has the variance τ² between two sweeps of equal code, one round each, by ranges of
times. All of τ² is added, with few degrees of freedom, since its tails are heavy. If a side has one
round, the error is the larger of τ² and 2·s², plus the variance by the single rounds' own
intervals. One point makes the gate fail, so Holm's step-down keeps the chance that any equal point
is called different below `ALPHA`, however the points depend on each other.

**Two kernels.** Their times are paired within each visit, where they are timed close together.
"""

import argparse
import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import stdtr  # P(T < t) of Student's t with df degrees of freedom

from analysis.estimate import Floats, geometric_mean, holm, log_reach, quantile
from analysis.figures.style import variant_order
from analysis.format import Cell, Table, keys_of, number_text, table, texts, write_table
from analysis.load import Inputs, kernel_name, read_inputs
from analysis.points import NAMED, POINT, VISIT, ratios
from analysis.selection import name_variants, timed, undisturbed
from experiments.data.files import RowsError, write_file
from experiments.data.statistics import Z95

THRESHOLD = 0.02  # a change of less than this share counts for nothing
ALPHA = 0.05  # the chance of a false alarm in a whole comparison
SIDES = ("base", "head")
ARROW = " → "  # from BASE to HEAD
# measured between two sweeps of one GPU, by ranges of times
NOISE: dict[str, Any] = json.loads(Path(__file__).with_name("noise.json").read_text("utf-8"))
SHOWN = 10  # changed points on the terminal
TIMING = ["timer", "cache"]
MATCHED_ON = ["operation", "kernel", "settings", "rows", "cols", "dtype", "gpu", "card"]
CHANGED = ("failed", "slower", "faster", "fixed")
VERDICTS = (*CHANGED, "unclear", "same", "no time")


def noise_at(times_us: Floats) -> tuple[Floats, Floats, Floats]:
    """Scale, degrees of freedom and floor of the recorded noise at each time.

    A t distribution of ``scale`` and ``df`` fits the logarithms of the ratios in a range of times,
    which ends at ``below_us`` (NaN: no end); 5 % of the ``points`` there exceed ``floor``.
    """
    ranges = pd.DataFrame(NOISE["ranges"])
    ranked = np.searchsorted(ranges["below_us"].dropna(), times_us, side="right")
    scale, df, floor = ranges[["scale", "df", "floor"]].to_numpy(float)[ranked].T
    return scale, df, floor


def arguments(command: argparse.ArgumentParser) -> None:
    """Adds the arguments of ``compare``."""
    command.add_argument("base", type=Path, metavar="BASE", help="the rows before")
    command.add_argument("head", type=Path, nargs="?", metavar="HEAD", help="the rows now")
    two = "two kernels of the one sweep BASE, such as mine,auto, instead of HEAD"
    command.add_argument("--kernels", type=_variants, metavar="A,B", help=two)
    command.add_argument("--out", type=Path, metavar="DIR", help="default: HEAD/compare")
    least = "smaller changes are ignored (default: 2%%)"
    command.add_argument("--threshold", type=share, default=THRESHOLD, metavar="2%", help=least)


def share(text: str) -> float:
    """A share above 0 and below 1, such as 2% or 0.02; other texts raise ValueError."""
    value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    if not 0 < value < 1:
        raise ValueError(text)
    return value


def run(options: argparse.Namespace) -> int:
    """Compares, writes tables, prints a summary; 1 on a regression, else 0.

    Raises:
        RowsError: there are no two sides that can be compared.
    """
    base = read_inputs(options.base, options.out, "compare")
    if options.kernels:
        return _run_kernels(base, options.kernels)
    if options.head is None:
        raise RowsError("compare takes two folders, BASE HEAD, or one and --kernels A,B")
    head = read_inputs(options.head, options.out, "compare")
    points = matched(base.frame, head.frame)
    found, notes = with_verdicts(points, options.threshold), list(_notes(base, head, points))
    if found.empty:
        names = [", ".join(side.frame["gpu"].unique()) for side in (base, head)]
        gpus = f"{base.rows} of {names[0]} and {head.rows} of {names[1]}"
        raise RowsError(f"{gpus} have no point in common. {' '.join(notes)}")
    kernels, changed = by_kernel(found, notes), _changed(found)
    text = "\n".join(one.markdown() for one in (kernels, changed))
    made = [write_file(head.out / "compare.md", text)]
    made.append(write_file(head.out / "compare.csv", kernels.csv()))
    short = replace(changed, lines=changed.lines[:SHOWN])
    print(kernels.plain(), *[short.plain()] * bool(short.lines), "", sep="\n\n")
    failed, limit = int(found["verdict"].eq("failed").sum()), f"{100 * options.threshold:g} %"
    slow = int(found["regression"].sum()) - failed
    worse = [f"{_many(slow)} significantly slower by more than {limit}"] * bool(slow)
    worse += [f"{_many(failed)} no longer ok"] * bool(failed)
    verdict = f"Regression: {', '.join(worse)}." if worse else f"No regression beyond {limit}."
    print(*notes, *made, "", verdict, sep="\n")
    return int(bool(worse))


def matched(base: pd.DataFrame, head: pd.DataFrame) -> pd.DataFrame:
    """Every point of either set, one line each.

    A row that failed before it was timed has no protocol; it counts under each protocol of its
    point. A sweep, card and round are one visit, of which the last row counts.

    Returns:
        The point, its ``variant``, and the columns of `_visited` after ``base_`` and ``head_``.
    """
    rows = name_variants(pd.concat([base, head], ignore_index=True))
    rows["side"] = np.where(np.arange(len(rows)) < len(base), *SIDES)
    point, tried = [*MATCHED_ON, *TIMING], rows[TIMING].notna().all(axis=1)
    known = rows[tried].drop_duplicates(point)[point]
    never = rows[~tried].drop(columns=TIMING).reset_index().merge(known, "left", MATCHED_ON)
    rows = pd.concat([rows[tried], never.set_index("index")]).sort_index(kind="stable")
    rows[TIMING] = rows[TIMING].fillna("")
    # edited code leaves stale rows, under another key, before the newest one
    rows = rows.drop_duplicates([*point, "side", "sweep", "card", "round"], keep="last")
    sides = _visited(rows, [*point, "side"])
    points = pd.concat([sides.xs(one, level="side").add_prefix(f"{one}_") for one in SIDES], axis=1)
    counts = [f"{side}_{name}" for side in SIDES for name in ("visits", "rounds", "bad")]
    points[counts] = points[counts].fillna(0).astype(int)
    points["variant"] = rows.drop_duplicates(point).set_index(point)["variant"]
    order = ["gpu", "variant", "dtype", "rows", "cols", *TIMING, "card"]
    return points.reset_index().sort_values(order, ignore_index=True)


def _visited(rows: pd.DataFrame, point: list[str]) -> pd.DataFrame:
    """For each set and point: how many visits, their outcomes, and the logarithms of times."""
    # `squares` sums the squared deviations of the rounds, or of the recordings if there are
    # several; `within` is the variance of a single round, from its interval
    known, bad = undisturbed(rows[timed(rows)], point), rows[rows["status"] != "ok"]
    names = ["time_us", "time_low_us", "time_high_us"]
    logs, low, high = (known[name].astype(float).map(np.log) for name in names)
    within = ((high - low).where(low < high, 0.0) / 2 / Z95) ** 2
    by_point = [known[name] for name in point]
    # if there are several recordings, the rounds of one are not independent
    several = known.groupby(point)["recording"].transform("nunique").gt(1)
    unit = known["recording"].where(several, known["round"].astype(str))
    means = logs.groupby([*by_point, unit.rename("unit")]).mean()
    rounds, visits, failed = means.groupby(level=point), rows.groupby(point), bad.groupby(point)
    columns = {
        "visits": visits.size(),
        "bad": failed.size(),
        "rounds": rounds.count(),
        "log": rounds.mean(),
        "squares": ((means - rounds.transform("mean")) ** 2).groupby(level=point).sum(),
        "within": within.groupby(by_point).sum(),
        "status": failed["status"].first(),
        "reason": failed["reason"].first(),
        "suspect": visits["suspect"].agg(lambda flags: any(map(bool, flags))),
        "keys": visits["key"].agg(lambda keys: " ".join(dict.fromkeys(keys))),
    }
    found = pd.DataFrame(columns)
    found["within"] = found["within"].where(found["rounds"] == 1, 0.0)
    return found.fillna({"status": "ok", "reason": ""})


def with_verdicts(points: pd.DataFrame, threshold: float = THRESHOLD) -> pd.DataFrame:
    """The points of `matched` that both sets have, each with a verdict.

    Returns:
        The columns of `matched`, and ``verdict`` (one of `VERDICTS`), ``regression`` (a gate fails
        on it), ``ratio`` (of times, HEAD / BASE), ``low`` and ``high`` (the 95 % interval of this
        point alone) and ``p_holm`` (corrected for all points).
    """
    both = points[points["base_visits"].gt(0) & points["head_visits"].gt(0)]
    timed = both[both["base_rounds"].gt(0) & both["head_rounds"].gt(0)]
    difference = (timed["head_log"] - timed["base_log"]).to_numpy(float)
    error, df, floor = _errors(timed)
    p, limit = holm(2 * stdtr(df, -np.abs(difference) / error)), np.log1p(threshold)
    # tests whether the slowdown exceeds the threshold: a family with a correction of its own
    beyond = holm(stdtr(df, (limit - difference) / error)) <= ALPHA / 2
    alone = quantile(ALPHA / 2, df) * error
    different = (p <= ALPHA) & (np.abs(difference) > floor)
    same = np.abs(difference) + alone <= limit
    cases = [same, different & (difference > 0), different]
    verdicts = np.select(cases, ["same", "slower", "faster"], "unclear")
    ends = {"": 0.0, "low": -alone, "high": alone}
    columns = {name or "ratio": np.exp(difference + end) for name, end in ends.items()}
    columns |= {"verdict": verdicts, "regression": (verdicts == "slower") & beyond, "p_holm": p}

    found = both.join(pd.DataFrame(columns, index=timed.index))
    was, now = found["base_status"].eq("ok"), found["head_status"].eq("ok")
    cases = [was & ~now, now & ~was, found["ratio"].isna()]
    found["verdict"] = np.select(cases, ["failed", "fixed", "no time"], found["verdict"])
    found["regression"] = found["regression"].eq(True) & (was == now) | (was & ~now)
    found.loc[was != now, ["low", "high", "p_holm"]] = np.nan
    return found.reset_index(drop=True)


def _errors(timed: pd.DataFrame) -> tuple[Floats, Floats, Floats]:
    """Standard errors of the differences, their degrees of freedom, and the noise floor."""
    logs, counts, squares, within = (
        timed[[f"{side}_{name}" for side in SIDES]].to_numpy(float)
        for name in ("log", "rounds", "squares", "within")
    )
    freedom = np.maximum(counts.sum(axis=1) - 2, 1)
    scale, shape, floor = noise_at(np.exp(logs.mean(axis=1)))
    variance = squares.sum(axis=1) / freedom
    single = counts.min(axis=1) == 1
    # if a side has one round: the recorded noise, or twice the rounds' if that is larger
    between = np.where(single, np.maximum(scale**2, 2 * variance) + within.sum(axis=1), scale**2)
    measured = np.where(single, 0.0, variance * (1 / counts).sum(axis=1))
    error = measured + between  # no recorded noise is 0
    df = error**2 / (measured**2 / freedom + between**2 / shape)  # Welch–Satterthwaite
    return np.sqrt(error), df, floor


def by_kernel(points: pd.DataFrame, notes: Sequence[str] = ()) -> Table:
    """A line for each kernel: verdicts, mean ratio, extremes.

    The CSV has every point, with the keys of the rows behind it.
    """
    groups = {str(name): mine for name, mine in points.groupby("variant")}
    seen = [verdict for verdict in VERDICTS if verdict in set(points["verdict"])]
    lines = []
    for name in [*sorted(groups, key=variant_order), "all"]:
        mine = groups.get(name, points)
        ratios, ends, mean = mine["ratio"].dropna(), "–", geometric_mean(mine["ratio"].dropna())
        if len(ratios) > 1:
            reach = math.exp(log_reach(ratios))
            ends = f"{mean / reach:,.4f}–{mean * reach:,.4f}"
        counts = [f"{n:,}" if (n := mine["verdict"].eq(one).sum()) else "" for one in seen]
        numbers = [number_text(one, 4) for one in (mean, ratios.min(), ratios.max())]
        lines.append([name, f"{len(mine):,}", *counts, numbers[0], ends, *numbers[1:]])
    heads = ["kernel", "points", *seen, "mean ratio", "interval", "least", "most"]
    times = {f"{side}_us": np.exp(points[f"{side}_log"]) for side in SIDES}
    every = points.assign(**times, keys=points["base_keys"] + " " + points["head_keys"])
    hidden = every.filter(regex="_(log|squares|within|keys)$")
    notes = [*notes, *texts("compare", alpha=ALPHA)]
    title = "Time of HEAD / BASE, by kernel"
    return Table(title, heads, lines, notes, every.drop(columns=hidden.columns))


def _changed(points: pd.DataFrame) -> Table:
    """The points that changed, regressions first, the largest change first."""
    changed, lines = points[points["verdict"].isin(CHANGED)], []
    size = -np.log(changed["ratio"]).abs().fillna(math.inf)
    changed = changed.assign(kept=~changed["regression"], size=size)
    for one in changed.sort_values(["kept", "size"], kind="stable").to_dict("records"):
        times = [number_text(math.exp(one[f"{side}_log"]), 2) for side in SIDES]
        ends = f"{one['low']:,.3f}–{one['high']:,.3f}" if one["low"] > 0 else "–"
        status = ARROW.join(dict.fromkeys([one["base_status"], one["head_status"]]))
        if one["verdict"] == "failed":
            status += f" in {one['head_bad']} of {one['head_visits']}: {one['head_reason']}"
        verdict = Cell(one["verdict"], strong=one["regression"])
        lines.append([_name(one), verdict, *times, number_text(one["ratio"], 3), ends, status])
    heads = ["point", "verdict", "BASE µs", "HEAD µs", "ratio", "interval", "status"]
    return Table("Points that changed", heads, lines)


def _notes(base: Inputs, head: Inputs, points: pd.DataFrame) -> Iterator[str]:
    """Notes for the reader: other differences, unmatched points, points with weak evidence."""
    sides = base, head
    facts = [list({id(e): e for e in side.frame["environment"]}.values()) for side in sides]
    for name in ("torch", "triton", "cuda", "driver", "python", "commit", "dirty", "mark"):
        known = [{str(one[name]) for one in side if one.get(name) is not None} for side in facts]
        if known[0] != known[1]:
            texts = ARROW.join("/".join(sorted(one)) or "unknown" for one in known)
            yield f"Differs: {'the card, by its mark' if name == 'mark' else name}, {texts}."
    was, now = ({kernel_name(k): d.source for k, d in s.declarations.items()} for s in sides)
    if edited := sorted(name for name in was.keys() & now.keys() if was[name] != now[name]):
        yield f"Differs: the source of {', '.join(edited)}."
    for side, other in (SIDES, SIDES[::-1]):
        if len(only := points[points[f"{other}_visits"] == 0]):
            such = f"{_name(only.iloc[0])} on card {only.iloc[0]['card']}"
            yield f"Only in {side.upper()}: {_many(len(only))}, such as {such}."
    timed = points[points["base_rounds"].gt(0) & points["head_rounds"].gt(0)]
    if single := int(timed[["base_rounds", "head_rounds"]].min(axis=1).eq(1).sum()):
        how = "judged by the recorded noise between two sweeps, which is wide"
        yield f"Of one round on a side: {_many(single)}, {how}; rounds=8 resolves much more."
    if others := sorted(set(timed["gpu"]) - {gpu := NOISE["gpu"]}):
        yield f"The noise between sweeps was recorded on {gpu}, not on {', '.join(others)}."
    if flagged := int((timed["base_suspect"].eq(True) | timed["head_suspect"].eq(True)).sum()):
        yield f"Suspect rows count only at points without others, here at {_many(flagged)}."


def _many(count: int) -> str:
    return f"{count:,} point{'s' * (count != 1)}"


def _name(one: Any) -> str:
    return f"{one['variant']} {one['rows']}×{one['cols']} {one['dtype']}"


def paired(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    """The `ratios` of two sets of rows, the first's times over the second's, in shared visits."""
    sides = []
    for rows, role in ((first, "peer"), (second, "ours")):
        # code that was edited later leaves stale rows before the newest one
        newest = rows.rename(columns=NAMED).drop_duplicates([*POINT, *VISIT], keep="last")
        sides.append(newest.assign(role=role, label=newest.index, tuned=True))
    return ratios(pd.concat(sides))


def _variants(text: str) -> list[str]:
    """The names in a list; ``online,block_size=64`` is one, as a sweep prints it."""
    return re.sub(r",(?=[\w.]+=)", " ", text).split(",")


def _run_kernels(inputs: Inputs, names: Sequence[str]) -> int:
    """Compares two kernels of one sweep; writes a table of all points and prints it."""
    rows, sides = name_variants(inputs.frame[timed(inputs.frame)]), []
    for name in names:
        mine = rows[rows["kernel"].eq(name) | rows["variant"].eq(name)]
        if mine["variant"].nunique() != 1:
            known = ", ".join(sorted(set((mine if len(mine) else rows)["variant"])))
            raise RowsError(f"--kernels: {name!r} is not one timed variant; known are {known}")
        sides.append(mine)
    if len(sides) != 2 or (found := paired(sides[1], sides[0])).empty:
        raise RowsError(f"{inputs.rows}: --kernels=A,B: no visit timed two, {' and '.join(names)}")
    (one, other), doubtful = names, sum(side["suspect"].map(bool).sum() for side in sides)
    numbers = ["us", "rival_us", "ratio", "low", "high"]
    found["keys"] = [keys_of(rows, labels)[0] for labels in found["labels"]]
    found = found[[*POINT, *numbers, "keys"]].sort_values(POINT)
    note = (
        f"Geometric mean {geometric_mean(found['ratio']):.3f} over {_many(len(found))}. By 95 % "
        f"intervals {one} is faster at {found['low'].gt(1).sum()} and {other} at "
        f"{found['high'].lt(1).sum()}; one in twenty equal points would be called either."
    )
    if doubtful:
        note += f" {doubtful} of their rows are suspect, as the sweep said at its end."
    shown = found.assign(**{name: found[name].map("{:.4f}".format) for name in numbers})
    made = table(f"Times of {one} (us) and {other} (rival_us)", shown, [note], found)
    print(made.plain(), note, *write_table(inputs.out, "kernels", made), sep="\n")
    return 0
