"""The numbers of README.md and docs/, made from the recorded rows.

    python -m docs.fill           # names every page that is out of date, with status 1
    python -m docs.fill --write   # brings them up to date, as `make docs` does

Between ``<!-- name -->`` and ``<!-- end -->`` a page holds what the function of that name below
makes of the rows in outputs/reference and of the tables there. No such number is typed.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import limits, reference
from analysis.claims.verdict import VERDICTS
from analysis.estimate import Estimate, geometric_mean
from analysis.figures.attention import QUERY, ROOFS
from analysis.format import markdown_of
from analysis.limits import LimitPoint
from analysis.load import load, load_records
from analysis.selection import TIMERS, timer_label
from analysis.tables.determinism import QUESTIONS
from experiments.data.cards import card_of
from experiments.data.packed import unpacked
from experiments.data.rows import EXPECTED, ITEM_BYTES, read_rows, rows_files
from experiments.hostcost import table as hostcost_table

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / reference.REFERENCE
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
MARKED = re.compile(r"<!-- ([a-z_]+) -->(.*?)<!-- end -->", re.DOTALL)
GRADIENTS = ("backward_auto", "backward")  # our own, the present one first
HOSTS = {"h200_cards": 2, "h200_x4": 4}  # recordings of several cards, and how many
LOSSES = ("cross_entropy", "cross_entropy_backward", "cross_entropy_grad")
LOGPROBS = ("logsumexp", "log_softmax", "logprob_entropy")
RECORDED = {  # by operation the recording that says how near the limit it is
    "softmax": "h200_limits",
    "softmax_backward": "h200_backward",
    **dict.fromkeys((*LOSSES, *LOGPROBS), "h200_cross_entropy"),
    "attention": "h200_attention",
}  # fmt: skip
LOSS_SHAPE = (8192, 128256, "bfloat16")
NEAR = 0.97  # of the roof: a large point below it is named
LARGE = f"{limits.LARGE_BYTES / 1e6:.0f} MB"
CARDS_OF_A_YEAR = 64
Lines = Iterable[Sequence[str]]


# ---- what each marker holds: a function of the folder that holds what was drawn ----


def headline(drawn: Path) -> str:
    """Three numbers with what each leaves out, and how they were measured."""
    timed = [point for point in _limit_points() if point.large]
    points = [point for point in timed if point.timer == "events"]
    chain = [point for point in timed if point.timer == "chain" and point.tuned]
    tuned, held_out = ([p for p in points if p.tuned is one] for one in (True, False))
    every = [p for p in _limit_points() if p.timer == "events" and p.tuned]
    others, between = "", ""
    if held_out:
        ahead = _interval(limits.geomean(held_out))
        others = f" At {len(held_out)} points of widths it was not tuned for it has {ahead}."
    if chain:
        between = f" Between a producer and a consumer it is {_interval(limits.geomean(chain))}."
    plain = next(one for one in _hostcost()["layers"] if one["layer"] == "plain function")
    lines = [
        (
            f"{_bold(limits.geomean(tuned))} the speed of the fastest public softmax",
            f"the mean of {len(tuned)} shapes and dtypes; {_least(tuned, 'peers')}.{between}"
            f"{others} Left out are smaller matrices: over all {len(every)} it is "
            f"{_interval(limits.geomean(every))}, {_least(every, 'peers')}, behind by more than "
            f"noise at {sum(point.behind for point in every)}",
        ),
        (
            f"{_bold(limits.geomean(tuned, 'copy'), '%')} of the speed of a copy",
            f"the same mean; {_least(tuned, 'copy')}. "
            "[All shapes](docs/results.md#auto-at-the-limit)",
        ),
        (
            f"{_bold(limits.geomean(tuned, 'torch'))} the speed of `torch.softmax`",
            f"the same mean; {_least(tuned, 'torch')}. Left out is the host: a call costs it "
            f"{plain['ratio']:.2f} × PyTorch's "
            "([table](docs/results.md#what-a-call-costs-the-host))",
        ),
    ]
    best = limits.geomean(tuned)
    assert best is not None
    recordings, rounds = best.recordings, best.rounds // best.recordings
    note = (
        f"{card_of(points[0].gpu).name}, recorded {_day('h200_limits')}: "
        f"{recordings} recording{'s' * (recordings > 1)} of {rounds} round{'s' * (rounds > 1)}, "
        f"CUDA events, cold L2. Where {LARGE} or more are moved, at widths that `auto` was tuned "
        "on; geometric means, 95 % intervals in brackets."
    )
    return _table(["`auto` has", "over what, and what it leaves out"], lines) + "\n\n" + note


def operations(drawn: Path) -> str:
    """For each operation our kernel over the fastest public one, and its share of the roof."""
    lines = []
    for operation, recording in RECORDED.items():
        every = _limit_points() if operation == "softmax" else _points(recording, operation)
        points = [p for p in every if p.large and p.tuned and p.timer == "events"]
        (best, _), *_ = Counter(limits.maker(point.best) for point in points).most_common()
        lines.append(
            [
                operation,
                f"`{points[0].own}`",
                f"{_bold(limits.geomean(points))} {best}",
                _roof(points),
                f"{len(points)}",
            ]
        )
    heads = ["operation", "ours", "× the fastest public one, mostly", "of its roof", "points"]
    return _table(heads, lines)


def sources_table(drawn: Path) -> str:
    """The five sources, what they claim, and the verdicts."""
    return _part(drawn / "h200/claims/sources.md", "The sources")


def limits_summary(drawn: Path) -> str:
    """`auto` against the peers and the copy, in short."""
    return _csv(drawn / "h200_limits/tables/limits_summary.csv")


def limits_peers(drawn: Path) -> str:
    """Which public kernels were measured, which were not, and which failed where."""
    text = (drawn / "h200_limits/tables/limits_summary.md").read_text(encoding="utf-8")
    return next(line for line in text.splitlines() if line.startswith("Public softmax measured"))


def own_claims(drawn: Path) -> str:
    """This project's claims with their verdicts."""
    return _csv(drawn / "h200_limits/claims/claims.csv", 4)


def claims_count(drawn: Path) -> str:
    """How many claims of the sources there are, and how many of each verdict."""
    found = Counter(line["verdict"] for line in _records(drawn / "h200/claims/claims.csv"))
    known = [f"{found[one]} {one}" for one in VERDICTS if one in found]
    return f"Of {found.total()} claims {', '.join(known[:-1])} and {known[-1]}."


def claims(drawn: Path) -> str:
    """Every claim of the sources with its verdict."""
    return _csv(drawn / "h200/claims/claims.csv", 4)


def audit_count(drawn: Path) -> str:
    """How many printed numbers were checked, with which verdicts."""
    counts = Counter(line["verdict"] for line in _records(drawn / "h200/claims/audit.csv"))
    each = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
    return f"Of {counts.total()} checks: {each}."


def audit(drawn: Path) -> str:
    """The printed numbers that are impossible, or contradict each other."""
    worst = ("physically impossible", "self-contradictory")
    return _csv(drawn / "h200/claims/audit_summary.csv", where={"verdict": worst})


def explained(drawn: Path) -> str:
    """At how many points the time follows from the model's bytes."""
    verdicts = [line["verdict"] for line in _records(drawn / "h200/roofline/roofline.csv")]
    return f"{verdicts.count('traffic') / len(verdicts):.0%} of {len(verdicts):,} points"


def roofline(drawn: Path) -> str:
    """What explains the times, by variant."""
    return _part(drawn / "h200/roofline/roofline.md", "Verdicts")


def dram_reads(drawn: Path) -> str:
    """What DRAM gave of the input, in units of MN, by variant and width."""
    cells: dict[str, dict[int, str]] = {}
    for line in _records(drawn / "h200/tables/traffic.csv"):
        if (line["level"], line["kind"], line["rows"]) == ("DRAM", "reads", "4096"):
            cells.setdefault(line["variant"], {})[int(line["cols"])] = line["units_of_mn"]
    widths = sorted({width for each in cells.values() for width in each})
    lines = [[name, *(each.get(n) or "–" for n in widths)] for name, each in cells.items()]
    return _table(["variant", *(f"N = {n}" for n in widths)], lines)


def gradient(drawn: Path) -> str:
    """Our gradient against PyTorch's, the best of the libraries', and its roof, by width."""
    frame = load(REFERENCE / "h200_backward")
    timed = frame[(frame["operation"] == "softmax_backward") & (frame["status"] == "ok")]
    own = next(name for name in GRADIENTS if timed["kernel"].eq(name).any())
    peers = sorted(set(timed["kernel"]) - {*GRADIENTS, "backward_cluster"})
    dtypes = sorted(set(timed["dtype"]))
    lines = []
    for (timer, rows, cols), place in timed.groupby(["timer", "rows", "cols"]):
        cells: dict[str, list[str]] = {"torch": [], "best": [], "roof": []}
        for dtype in dtypes:
            here = place[place["dtype"] == dtype]
            us = here.pivot_table("time_us", ["recording", "round"], "kernel")
            if own not in us:
                continue
            over = {peer: geometric_mean((us[peer] / us[own]).dropna())
                    for peer in peers if peer in us}  # fmt: skip
            best = min(over, key=over.__getitem__)
            shares = here.loc[here["kernel"] == own, "fraction_of_roof"].dropna()
            cells["torch"].append(f"{over['backward_torch']:.2f}")
            cells["best"].append(f"{over[best]:.2f} ({best.removeprefix('backward_')})")
            cells["roof"].append(f"{geometric_mean(shares):.0%}" if len(shares) else "–")
        lines.append(
            [timer_label(str(timer)), f"{rows}×{cols}", *(" · ".join(c) for c in cells.values())]
        )
    names = " · ".join(dtypes)
    roofs = sorted({str(one) for one in timed["roof"].dropna()}) or ["copy"]
    heads = ["timer", "M×N", "× PyTorch's", "× the best public one", f"of the roof ({roofs[0]})"]
    return f"`{own}`, recorded {_day('h200_backward')}; each cell {names}.\n\n" + _table(
        heads, lines
    )


def attention(drawn: Path) -> str:
    """By length the times of attention and of its roofs, and how near ours comes to either."""
    frame = load(REFERENCE / "h200_attention")
    timed = frame[(frame["status"] == "ok") & frame["rows"].eq(QUERY.at)]
    timed = timed[timed["operation"].isin([QUERY.operation, "attention_io", *ROOFS.values()])]
    us = timed.groupby(["kernel", "cols"])["time_us"].agg(geometric_mean).unstack()
    points = [p for p in _points("h200_attention", QUERY.operation) if p.rows == QUERY.at]
    own, shares = points[0].own, [p.share for p in points if p.share]  # one for each length
    rate = timed[timed["kernel"] == own].groupby("cols")["flops"].first() / us.loc[own] / 1e6
    lines = [
        *([f"`{name}`, µs", *(f"{one:,.0f}" for one in us.loc[name])]
          for name in us.mean(axis=1).sort_values(ascending=False).index),
        [f"`{own}`, Tflop/s", *(f"{one:.0f}" for one in rate)],
        *([f"`{own}` × `{name}`", *(f"{p.ratio(name).value:.2f}" for p in points)]
          for name in ("attention_torch", "attention_flash")),
        [f"`{own}`, of its longest roof", *(f"{share.value:.0%}" for share in shares)],
    ]  # fmt: skip
    note = f"Recorded {_day('h200_attention')} on an {card_of(timed['gpu'].iloc[0]).name}."
    return note + "\n\n" + _table(["", *(f"N = {n}" for n in us)], lines)


def attention_softmaxes(drawn: Path) -> str:
    """By length the time of attention with its scores in memory by the softmax in the middle."""
    frame = _attention_shapes().query("kernel == 'attention_naive'")
    frame = frame.assign(softmax=[params["softmax"] for params in frame["params"]])
    us = frame.groupby(["softmax", "cols"])["time_us"].agg(geometric_mean).unstack()
    us = us.loc[us.mean(axis=1).sort_values(ascending=False).index]
    over = us / us.loc["auto"]
    cells = us.map("{:,.0f}".format) + over.map(" ({:.2f})".format)
    lines = [[f"`{name}`, µs", *cells.loc[name]] for name in us.index]
    return _table(["(over `auto`'s)", *(f"N = {n}" for n in us)], lines)


def attention_shapes(drawn: Path) -> str:
    """Times of attention with and without a mask, at D = 64 and 128."""
    shapes = {"attention": "128", "attention_causal": "128, causal",
              "attention_64": "64", "attention_64_causal": "64, causal"}  # fmt: skip
    frame = _attention_shapes()
    frame = frame[frame["operation"].isin(list(shapes))]
    frame = frame[[params.get("softmax") is None for params in frame["params"]]]
    us = frame.groupby(["operation", "cols", "kernel"])["time_us"].agg(geometric_mean).unstack()
    own, rivals = "attention_online", ("attention_torch", "attention_flash")
    work = frame[frame["kernel"] == own].groupby(["operation", "cols"])["flops"].first()
    ratios = us.div(us[own], axis=0)
    names = us.mean().sort_values(ascending=False).index
    lines = [
        [
            *(text, str(place[1]), *(f"{one:,.0f}" for one in us.loc[place, names])),
            f"{work[place] / us.loc[place, own] / 1e6:.0f}",
            *(f"{ratios.loc[place, name]:.2f}" for name in rivals),
        ]
        for operation, text in shapes.items()
        for place in us.index
        if place[0] == operation
    ]
    heads = [*(f"`{name}`, µs" for name in names), f"`{own}`, Tflop/s"]
    return _table(["D", "N", *heads, *(f"`{own}` × `{name}`" for name in rivals)], lines)


def attention_throttled(drawn: Path) -> str:
    """How many of its rows the power limit slowed down, and to which clocks at the longest."""
    frame = load(REFERENCE / "h200_attention")
    held, longest = frame["throttled"].map(bool), frame[frame["cols"] == frame["cols"].max()]
    clocks = longest.groupby("kernel")["sm_clock_mhz"].mean()
    each = " and ".join(
        f"`{name}` at {clocks[name]:,.0f}" for name in ("matmul", "attention_flash")
    )
    return f"{held.sum()} of {len(held)} rows; at {longest['cols'].iloc[0]} keys {each} MHz"


def _losses() -> Iterator[list[LimitPoint]]:
    """The points of each of cross-entropy's operations by each timer."""
    for operation in LOSSES:
        points = _points(RECORDED[operation], operation)
        for timer in dict.fromkeys(point.timer for point in points):
            yield [point for point in points if point.timer == timer]


def losses(drawn: Path) -> str:
    """Cross-entropy's three operations over the best peer, PyTorch and the roof, by protocol."""
    lines = []
    for alike in _losses():
        large = [point for point in alike if point.large]
        for text, some in ((f"{LARGE} and more", large), ("all", alike)):
            shares = [point.share.value for point in some if point.share]
            makers = [limits.geomean(some, maker) for maker in ("quack", "torch")]
            least = _least(some, "peers").removeprefix("least ")
            lines.append(
                [
                    *(f"`{some[0].own}`", timer_label(some[0].timer), text, f"{len(some)}"),
                    *(_interval(limits.geomean(some)), least),
                    f"{sum(point.behind for point in some)}",
                    *(_interval(one) if one else "–" for one in makers),
                    f"{geometric_mean(shares):.1%} of {some[0].roof_name}",
                    f"{min(shares):.1%}",
                ]
            )
    heads = ["ours", "timer", "points", "count", "× the best public one", "least", "behind",
             "× QuACK's", "× PyTorch's", "of the roof", "least of it"]  # fmt: skip
    return f"Recorded {_day(RECORDED[LOSSES[0]])}.\n\n" + _table(heads, lines)


def losses_short(drawn: Path) -> str:
    """Where cross-entropy is behind a public kernel, and the large points far below the roof."""
    lines = []
    for alike in _losses():
        behind = [f"{p.rows}×{p.cols} {p.ratio(p.best).value:.2f} ({p.best})"
                  for p in alike if p.behind]  # fmt: skip
        low = [f"{p.rows}×{p.cols} {p.share.value:.2%}"
               for p in alike if p.large and p.share and p.share.value < NEAR]  # fmt: skip
        cells = (", ".join(texts) or "nowhere" for texts in (behind, low))
        lines.append([f"`{alike[0].own}`", timer_label(alike[0].timer), *cells])
    heads = ["ours", "timer", "behind, its rival's time over ours",
             f"below {NEAR:.0%} of the roof, of {LARGE} and more"]  # fmt: skip
    return _table(heads, lines)


def losses_failed(drawn: Path) -> str:
    """Which public kernels gave wrong answers, at which vocabularies and numbers of tokens."""
    frame = load(REFERENCE / RECORDED[LOSSES[0]])
    wrong = frame[frame["operation"].isin(LOSSES) & ~frame["status"].isin(EXPECTED)]
    lines = []
    for (kernel, cols), some in wrong.groupby(["kernel", "cols"]):
        most = some.sort_values("rows").iloc[-1]
        tokens = ", ".join(map(str, sorted(some["rows"].unique())))
        tried = frame.loc[(frame["kernel"] == kernel) & (frame["cols"] == cols), "recording"]
        found = f"{some['recording'].nunique()} of {tried.nunique()} recordings"
        lines.append(
            [f"`{kernel}`", f"{cols}", tokens, found, f"{most['status']}: {most['reason']}"]
        )
    return _table(["kernel", "vocabulary", "tokens", "in", "at the most tokens"], lines)


def losses_memory(drawn: Path) -> str:
    """The most memory of a call beyond its inputs, at Llama 3's vocabulary, in logits' buffers."""
    frame = load(REFERENCE / RECORDED[LOSSES[0]])
    rows, cols, dtype = LOSS_SHAPE
    here = frame[(frame["rows"] == rows) & (frame["cols"] == cols) & (frame["dtype"] == dtype)]
    matrix, lines = rows * cols * ITEM_BYTES[dtype], []
    for operation in LOSSES:
        peak = here[here["operation"] == operation].groupby("kernel")["peak_bytes"].max() / matrix
        ranges = ((0, 0.01), (0.01, 1.1), (1.1, 99))
        parts = [peak[(low <= peak) & (peak < high)].sort_values() for low, high in ranges]
        few, one, more = (
            [f"`{name}`" + f" {value:.2f}" * (value > 1.1) for name, value in part.items()]
            for part in parts
        )
        most = f" (at most {parts[0].max() * matrix / 1e3:.0f} KB)" if max(parts[0]) else ""
        lines.append([operation, ", ".join(few) + most, ", ".join(one), ", ".join(more)])
    heads = ["operation", "no buffer of logits", "one", "more"]
    return f"{rows}×{cols} {dtype}.\n\n" + _table(heads, lines)


def losses_recorded(drawn: Path) -> str:
    """What each recording of these operations holds."""
    frame = load(REFERENCE / RECORDED[LOSSES[0]])
    lines = []
    for name, some in frame.groupby(frame["sweep"].str.rpartition("-")[0]):
        tokens, cols = (sorted(some[side].unique()) for side in ("rows", "cols"))
        timers = [one for one in TIMERS if some["timer"].eq(one).any()]
        lines.append(
            [
                *(f"`{name}`", f"{some['kernel'].nunique()}", ", ".join(map(str, tokens))),
                *(f"{len(cols)}, {cols[0]} to {cols[-1]}", ", ".join(map(timer_label, timers))),
            ]
        )
    return _table(["recording", "kernels", "tokens", "columns", "timers"], lines)


def logprobs(drawn: Path) -> str:
    """Log-probabilities at Llama 3's vocabulary over PyTorch, the compiler and the roof."""
    lines = []
    for operation in LOGPROBS:
        for p in _points(RECORDED[operation], operation):
            if (p.rows, p.cols, p.dtype) != LOSS_SHAPE:
                continue
            rivals = (f"{operation}_{maker}" for maker in ("torch", "compiled"))
            lines.append(
                [
                    *(f"`{p.own}`", timer_label(p.timer), f"{p.us(p.own):,.0f}"),
                    f"{p.share.value:.1%} of {p.roof_name}" if p.share else "–",
                    *(_interval(p.ratio(one)) if p.has(one) else "–" for one in rivals),
                ]
            )
    heads = ["ours", "timer", "µs", "of the roof", "× PyTorch's", "× the compiler's"]
    rows, cols, dtype = LOSS_SHAPE
    return f"{rows}×{cols} {dtype}.\n\n" + _table(heads, lines)


def losses_dram(drawn: Path) -> str:
    """What DRAM's counters saw of cross-entropy."""
    return _dram(RECORDED[LOSSES[0]])


def attention_dram(drawn: Path) -> str:
    """What DRAM's counters saw of attention."""
    return _dram(RECORDED[QUERY.operation])


def determinism(drawn: Path) -> str:
    """How many variants always give the same bits, and each one's answer."""
    found = sorted((drawn / "h200_determinism/tables").glob("determinism-*.csv"))
    lines = [line for path in found for line in _records(path)]
    always, any_m = ([line["variant"] for line in lines if line[head] == "yes"]
                     for head in QUESTIONS.values())  # fmt: skip
    text = (
        f"Of {len(lines)} variants {len(always)} give the same bits at each call at every point, "
        f"{len(any_m)} of them for a row in any M."
    )
    return "\n\n".join([f"Recorded {_day('h200_determinism')}. {text}", *map(_csv, found)])


def hostcost(drawn: Path) -> str:
    """What a call costs the host, by layer."""
    record = _hostcost()
    return hostcost_table(record["layers"])


def hostcost_shape(drawn: Path) -> str:
    """The shape at which that was measured."""
    return "×".join(map(str, _hostcost()["shape"]))


def cost(drawn: Path) -> str:
    """What the recorded sweep cost."""
    words = [sys.executable, "-m", "experiments.cost", str(_paper())]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    return f"```\n{done.stdout.strip()}\n```"


def again(drawn: Path) -> str:
    """A second sweep of the same points on the same card, over the first, by time."""
    return _part(drawn / "h200/compare/compare.md", "Time of HEAD / BASE, by time range")


def floor(drawn: Path) -> str:
    """What two equal things differ by, and what an interval of one round holds."""
    held = {
        (line["timer"], line["time, µs"]): line["a round's interval holds another's median"]
        for line in _records(drawn / "h200_limits/selftest/intervals.csv")
    }
    heads = ["timer", "time, µs", "pairs", "called different", "one round within", "resolves"]
    lines = [
        [*(line[head] for head in heads), held.get((line["timer"], line["time, µs"]), "–")]
        for line in _records(drawn / "h200_limits/selftest/floor.csv")
    ]
    return _table([*heads, "one round's interval holds another's median"], lines)


def timers(drawn: Path) -> str:
    """Each timer against the profiler, below 10 µs."""
    with (drawn / "h200/selftest/timers.csv").open(encoding="utf-8") as file:
        heads, *lines = csv.reader(file)
    kept = [1, 3, 4, 5]  # the offset and its range; the ratio's is named alike
    short = [line for line in lines if "against profiler" in line[1] and line[2] == "< 10"]
    return _table([heads[i] for i in kept], [[line[i] for i in kept] for line in short])


def spread_over_cards(drawn: Path) -> str:
    """Measuring spread over several cards: how long it takes, and how much faster that is."""
    lines = []
    for host, cards in HOSTS.items():
        alone, spread = (_measuring(host, part) for part in ("alone", "dealt"))
        lines.append(
            [str(cards), f"{alone:.1f}", f"{spread:.1f}", f"{alone / spread:.2f}", _commit(host)]
        )
    return _table(["cards", "on one, s", "on all, s", "times as fast", "commit"], lines)


def side_by_side(drawn: Path) -> str:
    """One card's times beside busy cards over its times alone, by time."""
    return _hosts(drawn, "compare/compare.md", "Time of HEAD / BASE, by time range")


def card_to_card(drawn: Path) -> str:
    """Each card's time over the mean of all on its host."""
    return _hosts(drawn, "tables/card_to_card.md", "Card to card", "GPU", "sweep")


def scale(drawn: Path) -> str:
    """What many rows cost, as `analysis.scale` printed it."""
    return _part(REFERENCE / "scale.md", "Rows of")


def year(drawn: Path) -> str:
    """The recorded sweep, each night of a year on many cards."""
    sweep = _paper()
    sessions = [json.loads(line) for line in (sweep / "sessions.jsonl").read_text().splitlines()]
    files = rows_files(sweep)
    points, size = sum(one["points"] for one in sessions), sum(f.stat().st_size for f in files)
    seconds, nights = sum(one["elapsed_s"] for one in sessions), 365 * CARDS_OF_A_YEAR
    lines = [
        ["rows", f"{points:,}", f"{points * nights / 1e6:.1f} million"],
        ["rows files", f"{len(files)}", f"{len(files) * nights / 1e6:.2f} million"],
        ["JSON", f"{size / 1e6:.2f} MB", f"{size * nights / 1e9:.0f} GB"],
        ["time of a card", f"{seconds:.0f} s", f"{seconds * nights / 3600:,.0f} hours"],
    ]
    return _table(["what", "a card's night", f"a year of {CARDS_OF_A_YEAR} cards"], lines)


NUMBERS: dict[str, Callable[[Path], str]] = {
    function.__name__: function
    for function in (headline, operations, limits_summary, limits_peers, own_claims, claims_count,
                     claims, audit_count, audit, explained, roofline, dram_reads, gradient,
                     losses, losses_recorded, losses_short, losses_failed, losses_memory,
                     losses_dram, logprobs, attention, attention_softmaxes, attention_shapes,
                     attention_throttled, attention_dram,
                     determinism, hostcost, hostcost_shape, cost, again, floor, timers,
                     spread_over_cards, side_by_side, card_to_card, sources_table, scale, year)
}  # fmt: skip


# ---- pages ----


def renewed(page: Path, drawn: Path) -> str:
    """A page's text with what the rows give between its markers.

    Raises:
        ValueError: a marker names no number; it has the page and the name.
    """

    def made(match: re.Match[str]) -> str:
        name = match[1]
        if name not in NUMBERS:
            raise ValueError(f"{page.name}: <!-- {name} --> names no number of docs/fill.py")
        text = NUMBERS[name](drawn)
        if page.parent != ROOT:  # a page links from where it lies
            text = text.replace("](docs/", "](")
        gap = "\n\n" if "\n" in match[2] else ""
        return f"<!-- {name} -->{gap}{text}{gap}<!-- end -->"

    return MARKED.sub(made, page.read_text(encoding="utf-8"))


def stale(drawn: Path) -> list[Path]:
    """The pages whose numbers are not what the rows give."""
    return [
        page
        for page in PAGES
        if reference.change(page.read_text(encoding="utf-8"), renewed(page, drawn))
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Names the pages that are out of date or writes them; returns the status."""
    parser = argparse.ArgumentParser(prog="python -m docs.fill", description=__doc__)
    parser.add_argument("--write", action="store_true", help="bring the pages up to date")
    write = parser.parse_args(arguments).write
    try:
        pages = stale(REFERENCE)
    except ValueError as error:
        sys.exit(f"error: {error}")
    for page in pages:
        if write:
            page.write_text(renewed(page, REFERENCE), encoding="utf-8")
        print(f"{page.relative_to(ROOT)}: {'written' if write else 'out of date'}")
    return 1 if pages and not write else 0


# ---- cells, tables, records ----


@cache
def _limit_points() -> list[LimitPoint]:
    return limits.points_of(load(unpacked(ROOT / reference.REFERENCE / reference.LIMITS)))


def _points(recording: str, operation: str) -> list[LimitPoint]:
    """An operation's points in a recording, none where there is no such recording yet."""
    folder = REFERENCE / recording
    return limits.points_of(load(folder), operation) if folder.exists() else []


def _attention_shapes() -> pd.DataFrame:
    frame = load(unpacked(REFERENCE / reference.ATTENTION_SHAPES))
    return frame[frame["status"].eq("ok")]


def _roof(points: Sequence[LimitPoint]) -> str:
    """The share that our kernel has of the roof, of whichever is longest where it has several."""
    if all(point.by_arithmetic for point in points):
        shares = [point.share.value for point in points if point.share]
        return f"{geometric_mean(shares):.0%} of the longest of three"
    found = limits.geomean(points, limits.ROOF)
    assert found is not None, "nothing was recorded of its roof"
    return f"{found.value:.0%} of `{points[0].roof_name}`"


def _paper() -> Path:
    """The recorded sweep of the sources' grids."""
    return unpacked(REFERENCE / "h200/rows.tar.gz") / "paper"


def _dram(recording: str) -> str:
    """By kernel and shape the bytes that DRAM read and wrote, and their sum over the model's."""
    seen = load_records(REFERENCE / recording).counters
    shapes = sorted({(c.rows, c.cols, c.dtype) for c in seen})
    cells: dict[tuple[str, str], dict[Any, str]] = {}
    for c in seen:
        model = (c.model_reads + c.model_writes) * ITEM_BYTES[c.dtype]
        moved = (c.dram_read_bytes, c.dram_write_bytes)
        text = " + ".join(f"{one / 1e9:.2f}" for one in moved) + f" ({sum(moved) / model:.2f})"
        cells.setdefault((c.operation, c.kernel), {})[c.rows, c.cols, c.dtype] = text
    lines = [
        [f"`{kernel}`", *(here.get(shape, "–") for shape in shapes)]
        for (_, kernel), here in sorted(cells.items())
    ]
    heads = [f"{rows}×{cols} {dtype}" for rows, cols, dtype in shapes]
    return _table(["GB read + written (over the model's)", *heads], lines)


def _hostcost() -> dict[str, Any]:
    record: dict[str, Any] = json.loads((REFERENCE / "h200_limits/hostcost.json").read_text())
    return record


def _bold(found: Estimate | None, unit: str = "×") -> str:
    """An estimate with its interval, as a factor or in per cent."""
    assert found is not None, "nothing was recorded of it"
    scale, digits = (100, 1) if unit == "%" else (1, 2)
    value, low, high = (scale * end for end in (found.value, found.low, found.high))
    ends = "–".join(f"{end:.{digits + (unit == '×')}f}" for end in (low, high))
    return f"**{value:.{digits}f} {unit}** ({ends})"


def _interval(found: Estimate | None) -> str:
    return _bold(found).replace("*", "")


def _least(points: Sequence[LimitPoint], over: str) -> str:
    """The worst point of a comparison, with its rival where that is one of several."""
    found = limits.worst(points, over)
    assert found is not None, "nothing was recorded of it"
    point, ratio = found
    rival = f" ({point.best})" if over == "peers" else ""
    return f"least {ratio.value:.2f} at {point.name}{rival}"


def _day(recording: str) -> str:
    """The day of a recording; rows do not say it."""
    days: dict[str, str] = json.loads((REFERENCE / "recorded.json").read_text())
    if recording not in days:
        raise ValueError(f"outputs/reference/recorded.json: no day of {recording}")
    return days[recording]


def _commit(host: str) -> str:
    """The commit at which the rows of a host were recorded."""
    row = next(iter(read_rows(rows_files(_cards(host, "alone"))[0])))
    return str(row.environment["commit"])[:7]


def _cards(host: str, part: str) -> Path:
    return unpacked(REFERENCE / host / "cards.tar.gz") / part


def _measuring(host: str, part: str) -> float:
    """How long a sweep took beside its planning, seconds."""
    text = (_cards(host, part) / "sessions.jsonl").read_text()
    sessions = [json.loads(line) for line in text.splitlines()]
    return sum(float(one["elapsed_s"] - one["planning_s"]) for one in sessions)


def _hosts(drawn: Path, name: str, heading: str, *without: str) -> str:
    """A table of each host's, the cards that it has in a column before the others."""
    lines: list[list[str]] = []
    for host, cards in HOSTS.items():
        heads, _, *here = _cells(_part(drawn / host / name, heading))
        kept = [i for i, head in enumerate(heads) if head not in without]
        lines += [[str(cards), *(line[i] for i in kept)] for line in here]
    return _table(["cards of the host", *(heads[i] for i in kept)], lines)


def _part(path: Path, heading: str) -> str:
    """The table below a heading of a Markdown file, without its notes."""
    text = path.read_text(encoding="utf-8").partition(f"## {heading}")[2]
    return "\n".join(re.findall(r"^\|.*$", text.partition("\n## ")[0], re.MULTILINE))


def _cells(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]


def _records(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _csv(path: Path, columns: int | None = None,
         where: Mapping[str, Sequence[str]] | None = None) -> str:  # fmt: skip
    """The first columns of a CSV file that are not empty, of the lines that are as in ``where``."""
    lines = [line for line in _records(path)
             if all(line[head] in wanted for head, wanted in (where or {}).items())]  # fmt: skip
    heads = [head for head in list(lines[0])[:columns] if {line[head] for line in lines} != {"–"}]
    return _table(heads, [[markdown_of(line[head]) for head in heads] for line in lines])


def _table(heads: Sequence[str], lines: Lines) -> str:
    rows = [heads, ["---"] * len(heads), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


if __name__ == "__main__":
    sys.exit(main())
