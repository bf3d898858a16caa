"""``selftest``: the least difference that the protocol resolves, from variants against themselves.

Twins are one variant under two names, ``torch-a`` and ``torch-b``, in one sweep: all difference
between them is noise. Beside them stand two timers at the same points, and the buffers of
older recordings, which say whether a cold read is cold.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis import estimate
from analysis.__main__ import finish
from analysis.compare import ALPHA, judged, matched
from analysis.estimate import Rounds, ratio_of
from analysis.format import markdown_of, write_table
from analysis.load import Inputs, Key, key_of, read_inputs
from analysis.selection import TIMERS, records_of, timer_label
from analysis.tables.frames import protocol, table, texts, timed
from experiments.data.cards import card_of
from experiments.data.files import RowsError, files_below, write_file
from experiments.data.records import PROBES, Probe, read_records

PLACE = ["gpu", "card", "sweep", "timer", "cache", "rows", "cols", "dtype"]
EDGES_US = (0.0, 10.0, 25.0, 50.0, 200.0, math.inf)
TWIN = "(.+)-([^-]+)"  # a kernel's name and its mark
NEEDS = {
    "timers": "the same points by two timers, timing=events,graph",
    "cold": "probe.jsonl of an older recording; make test-gpu checks the flush",
}
PROFILER = "profiler"  # the kernels' own time by hardware counters, without launch or gaps


def run(options: argparse.Namespace) -> int:
    """Writes the tables and a paragraph, and prints the paragraph.

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
    tables = {
        "floor": ("The noise floor", floor_lines(pairs)),
        "timers": ("Two timers at the same points", timer_lines(inputs)),
        "cold": ("A buffer read cold, and read warm", cold_lines(read_probes(inputs.rows))),
    }
    made = []
    for name, (title, lines) in tables.items():
        if lines:
            shown = table(title, pd.DataFrame(lines), texts(name))
            made += write_table(inputs.out, name, replace(shown, data=None))
    missing = [f"{name} needs {NEEDS[name]}" for name, (_, lines) in tables.items() if not lines]
    text = noise_floor(inputs.frame, pairs)
    finish([*made, write_file(inputs.out / "noise_floor.md", text)], missing)
    print(f"\n{text}", end="")
    return 0


def twins_of(frame: pd.DataFrame) -> pd.DataFrame:
    """Every two twins at a point, in the rounds that both have: a line each, see `_pair`."""
    sampled = frame["samples_us"].map(lambda samples: bool(samples)).astype(bool)
    rows = frame[timed(frame) & sampled & frame["kernel"].str.fullmatch(TWIN)]
    names = rows["kernel"].str.extract(TWIN)
    # two kernels may have names alike and be no twins; older rows do not say
    code = [f"{one.get('target')} {one.get('source')}" for one in rows["environment"]]
    settings = [json.dumps(params, sort_keys=True, default=str) for params in rows["params"]]
    rows = rows.assign(kernel=names[0], mark=names[1], settings=settings, code=code)
    columns, lines = ["kernel", "settings", *PLACE, "code"], []
    for place, mine in sorted(rows.groupby(columns), key=lambda group: str(group[0])):
        # code edited since leaves stale rows before the newest one
        sides = {
            str(mark): dict(zip(one["round"], one["samples_us"], strict=True))
            for mark, one in mine.groupby("mark")
        }
        for one, other in combinations(sorted(sides), 2):
            if shared := sorted(sides[one].keys() & sides[other].keys()):
                rounds = ([sides[mark][i] for i in shared] for mark in (one, other))
                lines.append(dict(zip(columns, place, strict=True)) | _pair(*rounds))
    return pd.DataFrame(lines)


def _pair(first: Rounds, second: Rounds) -> dict[str, Any]:
    """How two twins differ.

    ``differs``: the interval of their ratio leaves out 1, a false positive. ``resolvable``: the
    least slowdown that it would have shown. ``held``: `held_by_others` of the rounds' intervals.
    """
    ratio, sides = ratio_of(first, second), (first, second)
    medians = np.array([[np.median(samples) for samples in side] for side in sides])
    quartiles = [np.percentile(samples, [25, 50, 75]) for samples in (*first, *second)]
    expected = [estimate.prediction(side[:-1]) for side in sides if len(side) > 2]
    # a time longer by d moves the interval by the factor 1 + d: it is seen where low·(1 + d) > 1,
    # or high / (1 + d) < 1 for the other twin; of a chain's difference down to nothing none is
    seen = max(1 / ratio.low, ratio.high) - 1 if ratio.low > 0 else math.inf
    return {
        "rounds": len(first),
        "time_us": float(np.median(medians)),
        "ratio": ratio.value,
        "differs": ratio.low > 1 or ratio.high < 1,
        "resolvable": seen,
        "held": np.sum([_held(side) for side in sides], axis=0),
        "single": medians[0] / medians[1],
        "within": [(high - low) / 1.349 / middle for low, middle, high in quartiles],
        "between": [] if len(first) == 1 else list(np.std(np.log(medians), axis=1, ddof=1)),
        "predicted": [
            e.low <= last <= e.high for e, last in zip(expected, medians[:, -1], strict=False)
        ],
    }


def _held(rounds: Rounds) -> np.ndarray:
    found = [estimate.median_of([samples]) for samples in rounds]
    ends = np.array([(one.value, one.low, one.high) for one in found]).T
    return np.array(estimate.held_by_others(*ends))


def floor_lines(pairs: pd.DataFrame) -> list[dict[str, str]]:
    """The noise floor: a line per card, protocol and range of times."""
    lines = []
    for (gpu, timer, cache), every in pairs.groupby(["gpu", "timer", "cache"]):
        place = {"card": card_of(str(gpu)).name, "timer": protocol(str(timer), str(cache))}
        parts = {text: every[inside] for text, inside in _ranges(every["time_us"])}
        for text, mine in ({"all": every} | parts).items():
            lines.append(place | {"time, µs": text} | _floor(mine))
    return lines


def _floor(pairs: pd.DataFrame) -> dict[str, str]:
    """The numbers of some pairs."""
    within, between, predicted, single = (
        [value for each in pairs[name] for value in each]
        for name in ("within", "between", "predicted", "single")
    )
    held, of = np.sum(list(pairs["held"]), axis=0)
    return {
        "pairs": str(len(pairs)),
        "rounds": "–".join(map(str, sorted({pairs["rounds"].min(), pairs["rounds"].max()}))),
        **_called(pairs["differs"]),
        "one round within": _most(map(_away, single)),
        "all rounds within": _most(map(_away, pairs["ratio"])),
        "resolves": _most(pairs["resolvable"]),
        "spread within a round": _percent(float(np.median(within))),
        "spread between rounds": _percent(float(np.median(between))) if between else "–",
        "last round predicted": f"{sum(predicted)} of {len(predicted)}",
        "another round held": f"{100 * held / of:.0f} %" if of else "–",
    }


def _called(different: Collection[bool]) -> dict[str, str]:
    found, of = int(sum(different)), len(different)
    low, high = (100 * end for end in estimate.rate_interval(found, of))
    rate = f"{100 * found / of:.1f} % ({low:.1f}–{high:.1f})"
    return {"called different": str(found), "rate, 95 % interval": rate}


def _most(values: Iterable[float]) -> str:
    """A value that was seen and that 95 % of the values do not exceed."""
    return _percent(float(np.quantile(list(values), 0.95, method="higher")))


def _away(ratio: float) -> float:
    return max(ratio, 1 / ratio) - 1


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def _ranges(times_us: pd.Series) -> Iterator[tuple[str, pd.Series]]:
    """The ranges of times that hold any: in words, and which times lie there."""
    for low, high in pairwise(EDGES_US):
        inside = times_us.ge(low) & times_us.lt(high)
        if inside.any():
            last = f"> {low:g}" if math.isinf(high) else f"{low:g}–{high:g}"
            yield last if low else f"< {high:g}", inside


def timer_lines(inputs: Inputs) -> list[dict[str, str]]:
    """Every two timers of one card at the points that both have, by range of times."""
    lines = []
    good = inputs.frame[timed(inputs.frame)]
    for (gpu, cache), mine in good.groupby(["gpu", "cache"]):
        times = {str(timer): _times(rows) for timer, rows in mine.groupby("timer")}
        if cache == "cold":  # before the profiled call L2 is flushed
            counted = inputs.records.counters_of(str(gpu))
            times[PROFILER] = {key: float(one.kernel_us) for key, one in counted.items()}
        order = [name for name in (*TIMERS, PROFILER) if name in times]
        for first, second in combinations(order, 2):
            shared = sorted(times[first].keys() & times[second].keys(), key=str)
            one, other = (pd.Series([times[t][key] for key in shared]) for t in (first, second))
            for text, inside in _ranges(other):
                offset, ratio = (
                    np.percentile(values[inside], [50, 5, 95])
                    for values in (one - other, one / other)
                )
                line = {
                    "card": card_of(str(gpu)).name,
                    "timers": f"{first} against {second}, {cache}",
                    "time, µs": text,
                    "points": str(inside.sum()),
                    "offset, µs": "{:+.2f}".format(*offset),
                    "offset, 5–95 %": "{1:+.2f} to {2:+.2f}".format(*offset),
                    "ratio": "{:.4f}".format(*ratio),
                    "ratio, 5–95 %": "{1:.4f} to {2:.4f}".format(*ratio),
                }
                lines.append(line)
    return lines


def _times(rows: pd.DataFrame) -> dict[Key, float]:
    """The median time of each point over its rounds and twins."""
    known: dict[Key, list[float]] = {}
    for row in records_of(rows):
        kernel = str(row["kernel"]).partition("-")[0]
        known.setdefault(key_of(row | {"kernel": kernel}), []).append(float(row["time_us"]))
    return {key: float(np.median(times)) for key, times in known.items()}


def read_probes(rows: Path) -> list[Probe]:
    """The probe records at or below ``rows``.

    Raises:
        RowsError: a line is no such record; it names file and line.
    """
    folder = rows.parent if rows.is_file() else rows
    paths = files_below(folder, PROBES)[PROBES]
    return [one for path in paths for one in read_records(path, Probe)]


def cold_lines(probes: Iterable[Probe]) -> list[dict[str, str]]:
    """Buffers read cold and warm, by card, timer, size and the accesses that put them into L2."""
    known = {(p.gpu, p.timer, p.bytes, p.left or "", p.cache): p for p in probes}
    lines = []
    for gpu, timer, size, left in sorted({place[:-1] for place in known}):
        cold, warm = (known.get((gpu, timer, size, left, cache)) for cache in ("cold", "warm"))
        if cold is None or warm is None:
            continue
        turn = known.get((gpu, timer, size, "", "rotation"))
        kept, saved = "–", turn.time_us - warm.time_us if turn and left else 0.0
        if turn and saved > 0:
            kept = f"{100 * (turn.time_us - cold.time_us) / saved:.0f} %"
        line = {
            "card": card_of(gpu).name,
            "timer": timer_label(timer),
            "buffer, MiB": f"{size / 2**20:g}",
            "cold, µs": f"{cold.time_us:.2f}",
            "warm, µs": f"{warm.time_us:.2f}",
            "cold / warm": f"{cold.time_us / warm.time_us:.2f}",
            "cold, GB/s": f"{size / cold.time_us / 1e3:,.0f}",
            "warm, GB/s": f"{size / warm.time_us / 1e3:,.0f}",
            "distinct": "yes" if cold.time_low_us > warm.time_high_us else "no",
            "left by": left or "the read before",
            "kept": kept,
        }
        lines.append(line)
    return lines


def noise_floor(frame: pd.DataFrame, pairs: pd.DataFrame) -> str:
    """Markdown: a paragraph for each GPU, for pages that quote it."""
    twins, paragraphs = compared(frame, pairs["kernel"]), []
    for gpu, mine in pairs.groupby("gpu"):
        here = twins[twins["gpu"] == gpu]
        alarms = int(here["verdict"].isin(["slower", "faster"]).sum())
        different, rate = _called(mine["differs"]).values()
        ranges = [line for line in floor_lines(mine) if line["time, µs"] != "all"]
        each = "; ".join(f"{r['resolves']} at {r['time, µs']} µs ({r['timer']})" for r in ranges)
        facts = {"card": card_of(str(gpu)).name, "pairs": len(mine), "alpha": 100 * ALPHA}
        facts |= {"different": different, "rate": rate, "alarms": alarms, "points": len(here)}
        facts |= {"failed": int(here["regression"].sum()), "each": each}
        [text] = texts("noise_floor", **facts)
        paragraphs.append(markdown_of(text, cell=False) + "\n")
    return "\n".join(paragraphs)


def compared(frame: pd.DataFrame, kernels: Iterable[str]) -> pd.DataFrame:
    """Twins as ``compare`` judges them, one twin's rows for BASE and the other's for HEAD."""
    names = frame["kernel"].str.extract(TWIN)
    rows = frame.assign(kernel=names[0])[names[0].isin(set(kernels))]
    sides = [mine for _, mine in rows.groupby(names[1])]
    found = pd.concat([judged(matched(*two)) for two in combinations(sides, 2)])
    return found[found["ratio"].notna()]
