"""Rows as points: at one shape, dtype and timer, every variant's samples by visit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Any

from analysis import estimate
from analysis.estimate import Estimate
from analysis.format import number
from analysis.limits import COPIES, LARGE_BYTES, LEAST, OWN, PEERS, SHORT_US, STEP_US
from analysis.load import ITEM_BYTES

Visit = tuple[str, int, int]  # sweep, card, round: what a ratio never leaves


@dataclass(frozen=True)
class Point:
    """One shape and dtype under one protocol on one GPU.

    Attributes:
        gpu: As its driver names it.
        timer: How times were taken.
        cache: ``cold`` or ``warm``.
        dtype: As rows spell it.
        rows: M.
        cols: N.
        seen: By variant, the row of each visit; `auto` and a peer share at least one.
    """

    gpu: str
    timer: str
    cache: str
    dtype: str
    rows: int
    cols: int
    seen: Mapping[str, Mapping[Visit, Mapping[str, Any]]]

    @property
    def name(self) -> str:
        """Shape and dtype in words."""
        return f"{self.rows}×{self.cols} {self.dtype}"

    @property
    def moved_bytes(self) -> int:
        """What any softmax moves here, 2MN."""
        return 2 * self.rows * self.cols * ITEM_BYTES[self.dtype]

    @property
    def large(self) -> bool:
        """Whether it moves so much that memory alone decides."""
        return self.moved_bytes >= LARGE_BYTES

    @property
    def short(self) -> bool:
        """Whether `auto` is done so soon that the timer's steps show."""
        return self.us(OWN) < SHORT_US

    @cached_property
    def best(self) -> str:
        """The fastest peer: the least median over rounds of its time over that of `auto`."""
        found = {peer: median(self.by_visit(peer).values()) for peer in PEERS if self.has(peer)}
        return min(found, key=lambda peer: found[peer])

    @property
    def behind(self) -> bool:
        """Whether the fastest peer wins by more than noise: 2 %, or half a microsecond if short."""
        if self.short:
            return self.difference(self.best).value < -STEP_US
        return self.ratio(self.best).value < LEAST

    @cached_property
    def above_roof(self) -> bool:
        """Whether `auto` beats the copy by more than its interval in most rounds: never a win."""
        flags = [bool(row["above_roof"]) for row in self.seen[OWN].values()]
        return 2 * sum(flags) > len(flags)

    def has(self, name: str) -> bool:
        """Whether a variant was timed in a visit that has `auto` as well."""
        return bool(self.seen.get(name, {}).keys() & self.seen[OWN].keys())

    def us(self, name: str) -> float:
        """A variant's time, µs: the median of its visits."""
        return float(median(float(row["time_us"]) for row in self.seen[name].values()))

    def time_of(self, name: str) -> Estimate:
        """The same with its interval."""
        return estimate.median_of([_samples(row) for row in self.seen[name].values()])

    def by_visit(self, name: str) -> dict[Visit, float]:
        """A variant's time over that of `auto`, by visit."""
        own, other = self.seen[OWN], self.seen[name]
        shared = sorted(own.keys() & other.keys())
        return {v: float(other[v]["time_us"]) / float(own[v]["time_us"]) for v in shared}

    def held_to_roof(self, name: str) -> dict[Visit, float]:
        """The same for a mean: where `auto` is above the roof, the copy's time stands for its own.

        Such a time is no win over the roof. To leave the point out would be none either: it is
        where all kernels are nearest to each other, and a mean of the others flatters.
        """
        ratios = self.by_visit(name)
        if not self.above_roof or self.copy is None:
            return ratios
        copies = self.by_visit(self.copy)
        return {v: ratio / max(1.0, copies.get(v, 1.0)) for v, ratio in ratios.items()}

    def ratio(self, name: str) -> Estimate:
        """A variant's time over that of `auto`: how many times as fast `auto` is."""
        shared = sorted(self.by_visit(name))
        other, own = ([_samples(self.seen[one][v]) for v in shared] for one in (name, OWN))
        return estimate.ratio_of(other, own)

    def difference(self, name: str) -> Estimate:
        """A variant's time less that of `auto`: what their ratio exceeds 1 by, in µs."""
        ratio, own_us = self.ratio(name), self.us(OWN)
        value, low, high = ((end - 1) * own_us for end in (ratio.value, ratio.low, ratio.high))
        return Estimate(value, low, high, ratio.rounds)

    @cached_property
    def share(self) -> Estimate | None:
        """The fastest copy's time over that of `auto`; None where no copy was timed."""
        return self.ratio(self.copy) if self.copy else None

    @cached_property
    def copy(self) -> str | None:
        """The copy that is the roof here: the one of the least median ratio."""
        found = {one: median(self.by_visit(one).values()) for one in COPIES if self.has(one)}
        return min(found, key=lambda one: found[one]) if found else None


def _samples(row: Mapping[str, Any]) -> Sequence[float]:
    """A row's samples; of a row without them what its interval tells."""
    samples = row.get("samples_us")
    if isinstance(samples, Sequence) and samples:
        return samples
    ends = (number(row, name) for name in ("time_low_us", "time_us", "time_high_us"))
    return [end for end in ends if end is not None]
