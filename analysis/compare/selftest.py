"""What the protocol can resolve: variants against themselves, two timers, cold caches.

Twins are one variant measured under two names, ``torch-a`` and ``torch-b``, in the same sweep: all
difference between them is noise.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.compare.points import judged, matched
from analysis.estimate import Estimate, Rounds, held_by_others, median_of, prediction, ratio_of
from analysis.load import Key, Records, key_of
from analysis.selection import TIMERS, records_of
from experiments.data.records import PROBES, Probe, read_records

PLACE = ["gpu", "card", "sweep", "timer", "cache", "rows", "cols", "dtype"]
PROTOCOL = ["gpu", "timer", "cache"]
EDGES_US = (0.0, 10.0, 25.0, 50.0, 200.0, math.inf)
SHARE = 0.95  # of the pairs that a limit holds for
FEWER = 3  # rounds that most sweeps have, for the same statistics of fewer rounds
TO_SIGMA = 1.349  # the quartiles' distance of a normal, in standard deviations
PROFILER = "profiler"  # the kernels' own time by hardware counters, without launch or gaps
TIMER_ORDER = (*TIMERS, PROFILER)


def twins_of(frame: pd.DataFrame) -> pd.DataFrame:
    """Every two twins at a point, in the rounds that both have, by place and name.

    Returns:
        ``kernel`` (without a mark), the columns `PROTOCOL`, ``rounds``, ``time_us`` (the median
        over both twins and all rounds), ``ratio`` with ``low`` and ``high`` (over all rounds, with
        its 95 % interval), ``differs`` (whether that leaves out 1: a false positive),
        ``resolvable`` (the least slowdown that this interval would have found, a share),
        ``three`` (both of these of every three rounds in succession), ``medians_held`` and
        ``ratios_held`` (`analysis.estimate.held_by_others` of the intervals of single rounds),
        ``single`` (the ratio in each round alone), ``within`` (each round's spread of samples),
        ``between`` (each twin's spread of medians), ``predicted`` (whether each twin's last round
        lay within the prediction of the rounds before).
    """
    timed = _timed(frame)
    if timed.empty:  # str.rpartition then gives no columns
        return pd.DataFrame()
    parts = timed["kernel"].str.rpartition("-")
    usable = timed["samples_us"].map(lambda samples: bool(len(samples or ()))).astype(bool)
    # two kernels may have names alike and be no twins; older rows do not say
    code = [f"{one.get('target')} {one.get('source')}" for one in timed["environment"]]
    settings = [json.dumps(params, sort_keys=True, default=str) for params in timed["params"]]
    rows = timed.assign(kernel=parts[0], mark=parts[2], settings=settings, code=code)
    rows = rows[usable & timed["timer"].notna() & parts[0].ne("") & parts[2].ne("")]
    groups = rows.groupby(["kernel", "settings", *PLACE, "code"])
    lines = []
    for place, mine in sorted(groups, key=lambda group: str(group[0])):
        facts = dict(zip(["kernel", "settings", *PLACE], place, strict=False))
        # code edited since leaves stale rows before the newest one
        sides = {str(mark): dict(zip(one["round"], one["samples_us"], strict=True))
                 for mark, one in mine.groupby("mark")}  # fmt: skip
        for one, other in combinations(sorted(sides), 2):
            shared = sorted(sides[one].keys() & sides[other].keys())
            if shared:
                first, second = ([sides[mark][i] for i in shared] for mark in (one, other))
                lines.append(facts | _compared(first, second))
    return pd.DataFrame(lines)


def _compared(first: Rounds, second: Rounds) -> dict[str, Any]:
    ratio, several = ratio_of(first, second), len(first) > 1
    sides = [[median_of([samples]) for samples in side] for side in (first, second)]
    single = [one / other for one, other in zip(*sides, strict=True)]
    threes = [slice(start, start + FEWER) for start in range(0, len(first) - FEWER + 1, FEWER)]
    medians = np.array([[np.median(samples) for samples in side] for side in (first, second)])
    quartiles = [np.percentile(samples, [25, 50, 75]) for samples in (*first, *second)]
    predicted = []
    for side, (*_, last) in zip((first, second), medians, strict=True):
        if len(side) > 2:
            expected = prediction(side[:-1])
            predicted.append(expected.low <= last <= expected.high)
    return {
        "rounds": len(first),
        "time_us": float(np.median(medians)),
        "ratio": ratio.value,
        "low": ratio.low,
        "high": ratio.high,
        "differs": _differs(ratio),
        "resolvable": _resolvable(ratio),
        "three": [(_differs(one), _resolvable(one))
                  for one in (ratio_of(first[part], second[part]) for part in threes)],
        "medians_held": np.sum([_held(one) for one in sides], axis=0),
        "ratios_held": np.array(_held(single)),
        "single": medians[0] / medians[1],
        "within": [(high - low) / TO_SIGMA / middle for low, middle, high in quartiles],
        "between": list(np.std(np.log(medians), axis=1, ddof=1)) if several else [],
        "predicted": predicted,
    }  # fmt: skip


def _differs(ratio: Estimate) -> bool:
    return ratio.low > 1 or ratio.high < 1


def _resolvable(ratio: Estimate) -> float:
    # a time longer by d moves the interval by the factor 1 + d, so it is found where
    # low·(1 + d) > 1, or high / (1 + d) < 1 for the other twin
    # differences of chains may reach down to nothing: then no slowdown is
    return max(1 / ratio.low, ratio.high) - 1 if ratio.low > 0 else math.inf


def _held(rounds: list[Estimate]) -> tuple[int, int]:
    ends = ([getattr(one, end) for one in rounds] for end in ("value", "low", "high"))
    return held_by_others(*map(np.array, ends))


def floors(pairs: pd.DataFrame) -> pd.DataFrame:
    """For each card and protocol the noise floor of all times, then of each range with a pair.

    Returns:
        The columns `PROTOCOL`, ``low_us`` and ``high_us`` of the range, ``whole`` (whether it is of
        all times), ``pairs``, ``fewest`` and ``most`` rounds, ``false_positives``; as shares:
        ``one_round`` and ``all_rounds`` (what 95 % of such ratios stay within), ``resolvable`` (the
        least slowdown that 95 % of the intervals would have found), ``within`` (the spread of a
        round's samples: quartiles' distance over 1.349), ``between`` (of a variant's medians over
        its rounds, standard deviation of logarithms; NaN of one round); of ``sides`` last
        rounds how many were ``predicted``; ``threes``, ``threes_false`` and ``threes_resolvable``
        as ``pairs``, ``false_positives`` and ``resolvable`` of every three rounds in succession;
        and ``medians_held`` and ``ratios_held``, how often a single round's interval held another
        round's number, and of how many.
    """
    lines = []
    for protocol, every in pairs.groupby(PROTOCOL, sort=True):
        for low, high in [(0.0, math.inf), *pairwise(EDGES_US)]:
            mine = every[every["time_us"].ge(low) & every["time_us"].lt(high)]
            if mine.empty:
                continue
            within, between, predicted = (
                [value for each in mine[name] for value in each]
                for name in ("within", "between", "predicted")
            )
            threes = [one for each in mine["three"] for one in each]
            lines.append(dict(zip(PROTOCOL, protocol, strict=True)) | {
                "low_us": low,
                "high_us": high,
                "whole": low == 0 and math.isinf(high),
                "pairs": len(mine),
                "fewest": mine["rounds"].min(),
                "most": mine["rounds"].max(),
                "false_positives": int(mine["differs"].sum()),
                "one_round": _most(map(_away, np.concatenate(list(mine["single"])))),
                "all_rounds": _most(map(_away, mine["ratio"])),
                "resolvable": _most(mine["resolvable"]),
                "within": float(np.median(within)),
                "between": float(np.median(between)) if between else math.nan,
                "predicted": sum(predicted),
                "sides": len(predicted),
                "threes": len(threes),
                "threes_false": sum(differs for differs, _ in threes),
                "threes_resolvable": _most(least for _, least in threes) if threes else math.nan,
                "medians_held": np.sum(list(mine["medians_held"]), axis=0),
                "ratios_held": np.sum(list(mine["ratios_held"]), axis=0),
            })  # fmt: skip
    return pd.DataFrame(lines)


def compared(frame: pd.DataFrame, kernels: Iterable[str]) -> pd.DataFrame:
    """Twins as ``compare`` judges them: one twin's rows for BASE, the other's for HEAD.

    Returns:
        The timed points of every two twins, as `analysis.compare.points.judged` gives them.
    """
    parts = frame["kernel"].str.rpartition("-")
    rows = frame.assign(kernel=parts[0])[parts[0].isin(set(kernels))]
    sides = [mine for _, mine in rows.groupby(parts[2], sort=True)]
    found = pd.concat([judged(matched(*two)) for two in combinations(sides, 2)])
    return found[found["ratio"].notna()]


def agreements(frame: pd.DataFrame, records: Records) -> pd.DataFrame:
    """Every two timers of one card and cache at the points that both have, by time range.

    A point's time is the median over its rounds; twins are one point; the time by ``second`` places
    it in a range.

    Returns:
        ``gpu``, ``cache``, ``first``, ``second``, ``low_us``, ``high_us``, ``points``, and median,
        5th and 95th percentile of ``offset`` (how much longer the time by ``first`` is, µs) and
        ``ratio`` (``first`` over ``second``).
    """
    timed = _timed(frame)
    lines = []
    for (gpu, cache), mine in timed.groupby(["gpu", "cache"], sort=True):
        times = {str(timer): _times(rows) for timer, rows in mine.groupby("timer")}
        if cache == "cold":  # before the profiled call L2 is flushed
            counted = records.counters_of(str(gpu))
            times[PROFILER] = {key: float(one.kernel_us) for key, one in counted.items()}
        for first, second in combinations([name for name in TIMER_ORDER if name in times], 2):
            shared = sorted(times[first].keys() & times[second].keys(), key=str)
            both = np.array([(times[first][key], times[second][key]) for key in shared])
            for low, high in pairwise(EDGES_US) if shared else ():
                one, other = both[(both[:, 1] >= low) & (both[:, 1] < high)].T
                if one.size:
                    offset, ratio = (np.percentile(values, [50, 5, 95])
                                     for values in (one - other, one / other))  # fmt: skip
                    lines.append({"gpu": gpu, "cache": cache, "first": first, "second": second,
                                  "low_us": low, "high_us": high, "points": one.size,
                                  "offset": offset, "ratio": ratio})  # fmt: skip
    return pd.DataFrame(lines)


def probes_of(probes: Iterable[Probe]) -> pd.DataFrame:
    """The buffers that were read cold and warm, by card, timer, size.

    Returns:
        ``gpu``, ``timer``, ``bytes``, ``cold_us``, ``warm_us``, ``ratio`` and ``proven``: whether
        the cold read's whole interval lies above the warm one's.
    """
    known: dict[tuple[str, str, int], dict[str, Probe]] = {}
    for probe in probes:
        if probe.left is None and probe.cache != "rotation":
            known.setdefault((probe.gpu, probe.timer, probe.bytes), {})[probe.cache] = probe
    lines = []
    for place, caches in sorted(known.items()):
        if len(caches) == 2:
            cold, warm = caches["cold"], caches["warm"]
            lines.append(dict(zip(("gpu", "timer", "bytes"), place, strict=True)) | {
                "cold_us": cold.time_us,
                "warm_us": warm.time_us,
                "ratio": cold.time_us / warm.time_us,
                "proven": cold.time_low_us > warm.time_high_us,
            })  # fmt: skip
    return pd.DataFrame(lines)


def flushes_of(probes: Iterable[Probe]) -> pd.DataFrame:
    """What the flush leaves of a buffer that lay in L2, by card, size and what had put it there.

    Returns:
        ``gpu``, ``bytes``, ``left``; to read the buffer ``before_us`` the flush, ``after_us``, and
        ``cold_us`` in a rotation; ``kept``, the share of what L2 saves that the flush left.
    """
    known: dict[tuple[str, int], dict[tuple[str | None, str], float]] = {}
    for probe in probes:
        known.setdefault((probe.gpu, probe.bytes), {})[probe.left, probe.cache] = probe.time_us
    lines = []
    for (gpu, size), times in sorted(known.items()):
        cold_us = times.get((None, "rotation"))
        for left in dict.fromkeys(left for left, _ in times if left):
            before_us, after_us = (times.get((left, cache)) for cache in ("warm", "cold"))
            if cold_us and before_us and after_us:
                kept = (cold_us - after_us) / (cold_us - before_us) if cold_us > before_us else 0.0
                lines.append({"gpu": gpu, "bytes": size, "left": left, "before_us": before_us,
                              "after_us": after_us, "cold_us": cold_us, "kept": kept})  # fmt: skip
    return pd.DataFrame(lines)


def read_probes(rows: Path) -> list[Probe]:
    """The probe records at or below ``rows``.

    Raises:
        RowsError: a line is no such record; it names file and line.
    """
    folder = rows.parent if rows.is_file() else rows
    return [one for path in sorted(folder.rglob(PROBES)) for one in read_records(path, Probe)]


def _timed(frame: pd.DataFrame) -> pd.DataFrame:
    # under Triton's interpreter time means nothing
    good = frame["status"].eq("ok") & frame["time_us"].gt(0) & frame["backend"].ne("interpreter")
    return frame[good]


def _times(rows: pd.DataFrame) -> dict[Key, float]:
    known: dict[Key, list[float]] = {}
    for row in records_of(rows):
        kernel, _, _ = str(row["kernel"]).partition("-")
        known.setdefault(key_of(row | {"kernel": kernel}), []).append(float(row["time_us"]))
    return {key: float(np.median(times)) for key, times in known.items()}


def _most(values: Iterable[float]) -> float:
    """What 95 % of the values do not exceed: one that was seen, never less."""
    return float(np.quantile(list(values), SHARE, method="higher"))


def _away(ratio: float) -> float:
    return max(ratio, 1 / ratio) - 1
