"""Twins: one variant measured under two names, ``torch-a`` and ``torch-b``, in the same sweep."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from analysis.estimate import Estimate, ratio_of
from analysis.selection import records_of

PLACE = ("gpu", "card", "sweep", "timer", "cache", "rows", "cols", "dtype")
LEVEL = 0.95


@dataclass(frozen=True)
class Pair:
    """Two twins at one point, in the rounds that both have.

    Attributes:
        kernel: The variant, without a mark.
        place: GPU, card, sweep, timer, cache, rows, cols, dtype.
        first: The samples of each round, µs.
        second: The same of the other twin, in the same order of rounds.
        suspect: How many of these visits were flagged as they were measured.
    """

    kernel: str
    place: Mapping[str, Any]
    first: tuple[tuple[float, ...], ...]
    second: tuple[tuple[float, ...], ...]
    suspect: int

    @property
    def rounds(self) -> int:
        """How many rounds both have."""
        return len(self.first)

    @cached_property
    def medians_us(self) -> np.ndarray:
        """Each round's medians, µs: two lines, one a twin."""
        return np.array([[float(np.median(s)) for s in side] for side in (self.first, self.second)])

    @cached_property
    def time_us(self) -> float:
        """The time that places it in a range: the median over both twins and all rounds."""
        return float(np.median(self.medians_us))

    @cached_property
    def single(self) -> np.ndarray:
        """The ratio of the twins in each round alone."""
        first, second = self.medians_us
        return np.asarray(first / second)

    @cached_property
    def ratio(self) -> Estimate:
        """The ratio over all rounds, with its 95 % interval."""
        return ratio_of(self.first, self.second, LEVEL)

    @property
    def differs(self) -> bool:
        """Whether the interval leaves out 1: a false positive, for the two are the same."""
        return bool(self.ratio.low > 1 or self.ratio.high < 1)

    @property
    def resolvable(self) -> float:
        """The least slowdown of either twin that this interval would have told from 1, a share.

        A time longer by d moves the interval by the factor 1 + d, so it is told where
        low·(1 + d) > 1, or high / (1 + d) < 1 for the other twin.
        """
        return float(max(1 / self.ratio.low, self.ratio.high) - 1)


def pairs_of(frame: pd.DataFrame) -> list[Pair]:
    """Every pair of twins in rows as `analysis.load.load` gives them, by place and name."""
    means = frame["backend"].ne("interpreter")  # whose times mean nothing
    timed = frame[frame["status"].eq("ok") & frame["time_us"].gt(0) & means]
    twins: dict[tuple[Any, ...], dict[str, dict[int, Mapping[str, Any]]]] = {}
    for row in records_of(timed):
        kernel, mark, twin = str(row["kernel"]).rpartition("-")
        usable = isinstance(row["timer"], str) and min(row["samples_us"] or [0.0]) > 0
        if not (mark and kernel and twin and usable):
            continue
        params = json.dumps(row["params"], sort_keys=True, default=str)
        # two kernels may have names alike and be no twins; older rows do not tell
        code = tuple(str(row["environment"].get(name)) for name in ("target", "source"))
        place = (kernel, params, *(row[name] for name in PLACE), *code)
        # code edited since leaves stale rows before the newest one
        twins.setdefault(place, {}).setdefault(twin, {})[int(row["round"])] = row
    return [pair for place in sorted(twins, key=str) for pair in _pairs(place, twins[place])]


def _pairs(
    place: tuple[Any, ...], twins: Mapping[str, Mapping[int, Mapping[str, Any]]]
) -> Iterator[Pair]:
    for one, other in combinations(sorted(twins), 2):
        shared = sorted(set(twins[one]) & set(twins[other]))
        if not shared:
            continue
        sides = [[twins[name][r] for r in shared] for name in (one, other)]
        samples = [tuple(tuple(map(float, row["samples_us"])) for row in side) for side in sides]
        suspect = sum(bool(row["suspect"]) for side in sides for row in side)
        told = dict(zip(PLACE, place[2:], strict=False))
        yield Pair(place[0], told, samples[0], samples[1], suspect)
