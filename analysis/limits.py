"""This project's kernels against the public ones measured, and the copy: how near the limit.

The unit is the point: a shape, a dtype, a protocol. There a rival's time stands over that of
`auto`, the variant that chooses among ours, in the same round of the same sweep. Many points
become one number by the geometric mean of such ratios, the worst point, or how many fall short.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, cast

import pandas as pd

from analysis import estimate
from analysis.estimate import Estimate, geometric_mean
from analysis.format import number
from analysis.selection import records_of
from experiments.data.rows import EXPECTED, ITEM_BYTES

OWN = "auto"
PEERS = (  # public, any maker's
    *("torch", "compiled", "compiled_softmax", "compiled_max"),
    *("liger", "flag_gems", "quack", "helion"),
)
ELSEWHERE = (  # public, too: they need a toolkit or versions that do not resolve with these
    "TileLang and TileOPs, cuTile and TileGym, cuDNN, FlashInfer, Apex, Transformer Engine, "
    "Megatron, ThunderKittens, OneFlow, CUB and Mojo"
)
COPIES = ("copy", "copy_triton", "copy_hinted")
LARGE_BYTES = 256_000_000  # moved, 2MN: from here on memory alone decides
SHORT_US = 25.0  # below, an H200 flips every kernel between two values half a microsecond apart
STEP_US = 0.5  # that distance: no difference below it counts there
LEAST = 0.98  # and elsewhere no ratio above this does
COMMAND = "make sweep EXPERIMENT=limits"
NEEDS = f"timed rows of {OWN} beside {', '.join(PEERS[:-1])} or {PEERS[-1]} ({COMMAND})"
PLACE = ["gpu", "timer", "cache", "rows", "cols", "dtype"]
VISIT = ["recording", "round"]
Visit = tuple[str, int]  # recording and round: what a ratio never leaves


@dataclass(frozen=True)
class LimitPoint:
    """One shape and dtype under one protocol on one GPU, spelled as rows spell them.

    ``seen`` has by variant the row of each visit in which a peer was timed beside `auto`,
    ``failed`` the status of peers that failed and have none: ``"incorrect"``, say.
    """

    gpu: str
    timer: str
    cache: str
    dtype: str
    rows: int
    cols: int
    seen: Mapping[str, Mapping[Visit, Mapping[str, Any]]]
    failed: Mapping[str, str] = field(default_factory=dict)

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
        """The fastest peer."""
        return str(self._fastest(PEERS))

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

    def rival(self, over: str) -> str | None:
        """What is compared with `auto`: the fastest of the ``peers``, the ``copy``, or a name's."""
        named = over if self.has(over) else None
        return {"peers": self.best, "copy": self.copy}.get(over, named)

    def us(self, name: str) -> float:
        """A variant's time, µs: the geometric mean of its visits."""
        return geometric_mean(float(row["time_us"]) for row in self.seen[name].values())

    def time_of(self, name: str) -> Estimate:
        """The same with its interval."""
        seen = self.seen[name]
        return estimate.median_of([_samples(row) for row in seen.values()], [v[0] for v in seen])

    def by_visit(self, name: str) -> dict[Visit, float]:
        """A variant's time over that of `auto`, by visit."""
        own, other = self.seen[OWN], self.seen[name]
        shared = sorted(own.keys() & other.keys())
        return {v: float(other[v]["time_us"]) / float(own[v]["time_us"]) for v in shared}

    def held_to_roof(self, name: str) -> dict[Visit, float]:
        """The same for a mean: where `auto` is above the roof, the copy's time replaces its own.

        Such a time is not a win over the roof. To leave the point out would be wrong too: it is
        where all kernels are nearest to each other, and a mean of the others flatters.
        """
        beaten = self.above_roof and self.copy is not None
        copies = self.by_visit(str(self.copy)) if beaten else {}
        return {v: r / max(1.0, copies.get(v, 1.0)) for v, r in self.by_visit(name).items()}

    def ratio(self, name: str) -> Estimate:
        """A variant's time over that of `auto`: how many times as fast `auto` is."""
        shared = sorted(self.by_visit(name))
        other, own = (
            tuple(tuple(_samples(self.seen[one][v])) for v in shared) for one in (name, OWN)
        )
        return _ratio_of(other, own, tuple(recording for recording, _ in shared))

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
        """The copy that is the roof here: the fastest."""
        return self._fastest(COPIES)

    def _fastest(self, names: Sequence[str]) -> str | None:
        """The one of the least geometric mean over visits of its time over that of `auto`."""
        found = {one: geometric_mean(self.by_visit(one).values()) for one in names if self.has(one)}
        return min(found, key=lambda one: found[one], default=None)


_ratio_of = lru_cache(1024)(estimate.ratio_of)  # pictures, tables and claims ask for the same ones


def _samples(row: Mapping[str, Any]) -> Sequence[float]:
    """A row's samples; of a row without them, its interval."""
    samples = row.get("samples_us")
    if isinstance(samples, Sequence) and samples:
        return samples
    ends = (number(row, name) for name in ("time_low_us", "time_us", "time_high_us"))
    return [end for end in ends if end is not None]


def points_of(frame: pd.DataFrame) -> list[LimitPoint]:
    """Every point at which `auto` and a peer were timed in one visit, by protocol and shape."""
    known = [OWN, *PEERS, *COPIES]
    timed = frame[(frame["status"] == "ok") & frame["time_us"].gt(0) & frame["kernel"].isin(known)]
    timed = timed[(timed["backend"] != "interpreter") & timed["dtype"].isin(list(ITEM_BYTES))]
    timed = timed.rename_axis("label").reset_index()
    timed = timed.assign(_set=[json.dumps(p, sort_keys=True) for p in timed["params"]])
    # a kernel edited since leaves stale rows; one with several settings counts with its fastest
    timed = timed.drop_duplicates([*PLACE, *VISIT, "kernel", "_set"], keep="last")
    timed = timed.sort_values("time_us", kind="stable")
    timed = timed.drop_duplicates([*PLACE, *VISIT, "kernel"]).drop(columns="_set")
    found, failures = [], _failures(frame)
    for place, rows in timed.groupby(PLACE):
        gpu, timer, cache, m, n, dtype = cast(tuple[str, str, str, int, int, str], place)
        seen: dict[str, dict[Visit, Mapping[str, Any]]] = {OWN: {}}
        for row in records_of(rows):
            visit = str(row["recording"]), int(row["round"])
            seen.setdefault(row["kernel"], {})[visit] = row
        # a sweep of other kernels may hold `auto` and the copies too, in visits without a peer
        visits = seen[OWN].keys() & {v for peer in PEERS for v in seen.get(peer, {})}
        if visits:
            seen = {name: {v: one[v] for v in one if v in visits} for name, one in seen.items()}
            failed = failures.get((gpu, m, n, dtype), {})
            failed = {name: failed[name] for name in failed if not seen.get(name)}
            found.append(LimitPoint(gpu, timer, cache, dtype, m, n, seen, failed))
    dtypes = list(ITEM_BYTES)
    return sorted(found, key=lambda p: (p.gpu, p.timer, p.cache, p.rows, p.cols,
                                        dtypes.index(p.dtype)))  # fmt: skip


def _failures(frame: pd.DataFrame) -> dict[tuple[str, int, int, str], dict[str, str]]:
    """By GPU, M, N and dtype the peers that failed, and how: a row without a time has no timer."""
    rows = frame[~frame["status"].isin(EXPECTED) & frame["kernel"].isin(PEERS)]
    found: dict[tuple[str, int, int, str], dict[str, str]] = {}
    for row in records_of(rows):
        place = row["gpu"], int(row["rows"]), int(row["cols"]), row["dtype"]
        found.setdefault(place, {})[row["kernel"]] = row["status"]
    return found


def geomean(points: Sequence[LimitPoint], over: str = "peers") -> Estimate | None:
    """The geometric mean of a rival's times over those of `auto`, its unit the recording.

    ``over`` says which rival (`LimitPoint.rival`); points without it do not count. No time of
    `auto` counts as less than the copy's (`LimitPoint.held_to_roof`). The value is that of all
    points, the interval that of the visits' own geometric means (`estimate.over_recordings`), taken
    over the points that have most visits. Of a single round it runs from the mean of the points'
    lower ends to that of their upper ends.
    """
    known = [(point, name) for point in points if (name := point.rival(over)) is not None]
    if not known:
        return None
    ratios = [point.held_to_roof(name) for point, name in known]
    value = geometric_mean(geometric_mean(one.values()) for one in ratios)
    most = max(map(len, ratios))
    if most == 1:
        each = [point.ratio(name) for point, name in known]
        low, high = (geometric_mean(getattr(r, end) for r in each) for end in ("low", "high"))
        return Estimate(value, low, high)
    visits = next(one.keys() for one in ratios if len(one) == most)
    alike = [one for one in ratios if one.keys() == visits]
    recordings: dict[str, list[float]] = {}
    for visit in sorted(visits):
        recordings.setdefault(visit[0], []).append(geometric_mean(one[visit] for one in alike))
    found = estimate.over_recordings(recordings.values())
    low, high = (value * end / found.value for end in (found.low, found.high))
    return replace(found, value=value, low=low, high=high)


def worst(points: Sequence[LimitPoint], over: str = "peers") -> tuple[LimitPoint, Estimate] | None:
    """The point with the least ratio."""
    rivals = [(point, point.rival(over)) for point in points]
    known = [(point, point.ratio(name)) for point, name in rivals if name is not None]
    return min(known, key=lambda pair: pair[1].value, default=None)
