"""``selftest``: the least difference that the protocol resolves, from variants against themselves.

Twins are one variant under two names, ``torch-a`` and ``torch-b``, in one sweep: all difference
between them is noise. A second table compares two timers at the same points.
"""

import argparse
import math
from collections.abc import Iterable
from itertools import combinations, pairwise

import numpy as np
import pandas as pd
from scipy import stats

from analysis.__main__ import finish
from analysis.compare import paired
from analysis.figures.style import protocol
from analysis.format import table, texts, write_table
from analysis.load import read_inputs, record_key
from analysis.selection import TIMER_NAMES, timed
from experiments.data.cards import datasheet_of
from experiments.data.files import RowsError
from experiments.data.records import Counters

EDGES_US = (0.0, 10.0, 25.0, 50.0, 200.0, math.inf)
TWIN = "(.+)-([^-]+)"  # a kernel's name and its mark
PROFILER = "profiler"  # the time of the kernels by hardware counters, without launches and gaps


def run(options: argparse.Namespace) -> int:
    """Writes the tables, and prints the noise floor.

    Raises:
        RowsError: no variant was measured under two names.
    """
    inputs = read_inputs(options.rows, options.out, "selftest")
    pairs = twins_of(inputs.frame)
    if pairs.empty:
        raise RowsError(
            f"{inputs.rows}: no variant stands against itself under two names; the preset does: "
            "python -m experiments.run experiment=selftest"
        )
    floor = table("The noise floor", pd.DataFrame(floor_lines(pairs)), texts("floor"))
    made = write_table(inputs.out, "floor", floor)
    timers = pd.DataFrame(timer_lines(inputs.frame, inputs.records.counters))
    if len(timers):
        both = table("Two timers at the same points", timers, texts("timers"))
        made += write_table(inputs.out, "timers", both)
    needs = "timers needs the same points by two timers, timing=events,graph"
    finish(made, [needs] * timers.empty)
    print(f"\n{floor.plain()}")
    return 0


def twins_of(frame: pd.DataFrame) -> pd.DataFrame:
    """Every pair of twins at a point, over the rounds that both have.

    Returns:
        Lines of `paired`, and ``rounds``, ``time_us``, ``differs`` (the interval of their ratio
        leaves out 1, a false positive) and ``resolvable`` (the least slowdown that it would have
        shown).
    """
    sampled = frame["samples_us"].map(bool).astype(bool)
    rows = frame[timed(frame) & sampled & frame["kernel"].str.fullmatch(TWIN)]
    names = rows["kernel"].str.extract(TWIN)
    # kernels with names alike need not be twins: their code tells; older rows lack it
    code = [f"{one.get('target')} {one.get('source')}" for one in rows["environment"]]
    rows = rows.assign(twins=names[0], mark=names[1], code=code)
    found = []
    for (name, *_), mine in rows.groupby(["twins", "settings", "sweep", "card", "code"]):
        sides = [side for _, side in mine.groupby("mark")]
        found += [paired(*two).assign(kernel=str(name)) for two in combinations(sides, 2)]
    pairs = pd.concat(found, ignore_index=True) if found else pd.DataFrame()
    if pairs.empty:
        return pairs
    # a time longer by d scales the interval by 1 + d: it shows if low·(1 + d) > 1 or, for the other
    # twin, high / (1 + d) < 1; it never shows if low is not above 0, as a chain's may be
    seen = np.maximum(1 / pairs["low"].where(pairs["low"] > 0, 0), pairs["high"]) - 1
    return pairs.assign(
        rounds=pairs["labels"].map(len) // 2,
        time_us=[float(frame.loc[list(labels), "time_us"].median()) for labels in pairs["labels"]],
        differs=pairs["low"].gt(1) | pairs["high"].lt(1),
        resolvable=seen,
    )


def floor_lines(pairs: pd.DataFrame) -> list[dict[str, str]]:
    """The noise floor: a line per card, protocol and range of times."""
    lines = []
    for (gpu, timer, cache), every in pairs.groupby(["gpu", "timer", "cache"]):
        for text, mine in [("all", every), *every.groupby(_range(every["time_us"]), observed=True)]:
            found, of = int(mine["differs"].sum()), len(mine)
            rate = stats.binomtest(found, of).proportion_ci(method="wilson")
            percent = [f"{100 * share:.1f}" for share in (found / of, rate.low, rate.high)]
            rounds = sorted({mine["rounds"].min(), mine["rounds"].max()})
            line = {
                "card": datasheet_of(str(gpu)).name,
                "timer": protocol(str(timer), str(cache)),
                "time, µs": str(text),
                "pairs": str(of),
                "rounds": "–".join(map(str, rounds)),
                "called different": str(found),
                "rate, 95 % interval": "{} % ({}–{})".format(*percent),
                "ratios within": _most(np.maximum(mine["ratio"], 1 / mine["ratio"]) - 1),
                "resolves": _most(mine["resolvable"]),
            }
            lines.append(line)
    return lines


def _most(shares: pd.Series) -> str:
    """An observed value that 95 % of the values do not exceed."""
    return f"{100 * shares.quantile(0.95, 'higher'):.2f} %"


def _range(times_us: pd.Series) -> pd.Series:
    """The range of each time, in words."""
    names = [f"{low:g}–{high:g}" for low, high in pairwise(EDGES_US)]
    names[0], names[-1] = f"< {EDGES_US[1]:g}", f"> {EDGES_US[-2]:g}"
    return pd.cut(times_us, EDGES_US, right=False, labels=names)


def timer_lines(frame: pd.DataFrame, counters: Iterable[Counters] = ()) -> list[dict[str, str]]:
    """Compares every two timers of a card at the points that both have, by range of times.

    The profiler counts as a timer. It times only the kernels and flushes L2 before a call.
    """
    rows, lines = frame[timed(frame)], []
    rows = rows.assign(kernel=rows["kernel"].str.partition("-")[0])
    point = ["gpu", "cache", "kernel", "settings", "rows", "cols", "dtype"]
    times = rows.pivot_table("time_us", point, "timer", "median")
    counted = {(one.gpu, "cold", *record_key(one.model_dump())): one.kernel_us for one in counters}
    times[PROFILER] = [counted.get(at, math.nan) for at in times.index]
    for (gpu, cache), mine in times.groupby(["gpu", "cache"]):
        for first, second in combinations(filter(times.__contains__, (*TIMER_NAMES, PROFILER)), 2):
            both = mine[[first, second]].dropna()
            for text, each in both.groupby(_range(both[second]), observed=True):
                line = {
                    "card": datasheet_of(str(gpu)).name,
                    "timers": f"{first} against {second}, {cache}",
                    "time, µs": str(text),
                    "points": str(len(each)),
                }
                for name, unit, values, form in (
                    ("offset", ", µs", each[first] - each[second], "{:+.2f}"),
                    ("ratio", "", each[first] / each[second], "{:.4f}"),
                ):
                    middle, *ends = map(form.format, np.percentile(values, [50, 5, 95]))
                    line |= {f"{name}{unit}": middle, f"{name}, 5–95 %": " to ".join(ends)}
                lines.append(line)
    return lines
