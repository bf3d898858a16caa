"""This project's kernels against the public ones measured, and the roof: how near the limit.

The unit is the point: a shape, a dtype, a protocol. There a rival's time stands over that of
`auto`, the variant that chooses among ours, in the same round of the same recording. An operation
has its own `auto`, its own peers and its own roof: kernels whose names end so (``ce_auto``), those
that have a maker's name in theirs (``ce_grad_quack``), and those of the operation that its rows
name. All is of softmax where no operation is given. Many points
become one number by the geometric mean of such ratios, the ratio of summed times, the worst point,
or how many fall short. Points at widths that `auto` was tuned on are never mixed with others.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd

from analysis import estimate
from analysis.estimate import Estimate, Floats, geometric_mean
from analysis.format import number
from analysis.load import Inputs, once_per_frame, together
from analysis.published import OPERATION
from analysis.selection import TIMERS, records_of
from experiments.data.jobs import named_grids
from experiments.data.metrics import COPY
from experiments.data.rows import EXPECTED, ITEM_BYTES

OWN, ROOF = "auto", "roof"
STANDING = ("_auto", "_cluster", "_online")  # the ends of the names of kernels that stand for ours
PEERS = (  # public, any maker's
    *("torch", "compiled", "compiled_softmax", "compiled_max"),
    *("liger", "flag_gems", "quack", "helion"),
)
MAKERS = (*PEERS, "flash")  # FlashAttention's have no softmax by itself
ELSEWHERE = (  # public, too: they need a toolkit or versions that do not resolve with these
    "TileLang and TileOPs, cuTile and TileGym, cuDNN, FlashInfer, Apex, Transformer Engine, "
    "Megatron, ThunderKittens, OneFlow, CUB and Mojo"
)
COPIES = ("copy", "copy_triton", "copy_hinted")  # in the order of tables
TUNED = ("quack", "wide", "small_batch", "batch", "few_wide")  # the grids auto was tuned on
LARGE_BYTES = 256_000_000  # moved: from here on memory alone decides
SHORT_US = 25.0  # below, an H200 flips every kernel between two values half a microsecond apart
STEP_US = 0.5  # that distance: no difference below it counts there
LEAST = 0.98  # and elsewhere no ratio above this does
COMMAND = "make sweep EXPERIMENT=limits"
NEEDS = f"timed rows of {OWN} beside {', '.join(PEERS[:-1])} or {PEERS[-1]} ({COMMAND})"
PLACE = ["gpu", "timer", "cache", "rows", "cols", "dtype"]
VISIT = ["recording", "round"]
Visit = tuple[str, int]  # recording and round: what a ratio never leaves
Pair = tuple[float, float]  # the times of a rival and of `auto`, µs
_MAKER = re.compile(rf"(?:.*_)??({'|'.join(sorted(MAKERS, key=len, reverse=True))})(?:_.*)?")


@cache
def maker(kernel: str) -> str | None:
    """Which of `MAKERS` a kernel is of, None where it is ours or only moves."""
    found = _MAKER.fullmatch(kernel)
    return found[1] if found else None


def peer_order(kernel: str) -> tuple[int, str]:
    """Sorts peers as tables have them."""
    return (MAKERS.index(maker(kernel) or MAKERS[-1]), kernel)


def is_own(kernel: str) -> bool:
    """Whether a kernel may stand for ours: the first of `STANDING` that an operation has does."""
    return kernel == OWN or kernel.endswith(STANDING)


def _own_of(kernels: Iterable[str]) -> str:
    """The one of an operation's kernels that is compared with its peers."""
    found = sorted(filter(is_own, kernels), key=len)
    return next((name for end in STANDING for name in found if f"_{name}".endswith(end)), OWN)


def roof_order(kernel: str) -> tuple[int, str]:
    """Sorts the kernels of a roof as tables have them."""
    return (COPIES.index(kernel) if kernel in COPIES else len(COPIES), kernel)


@dataclass(frozen=True)
class LimitPoint:
    """One shape and dtype under one protocol on one GPU, spelled as rows spell them.

    ``seen`` has by variant the row of each visit in which a peer was timed beside `auto`,
    ``failed`` the status of peers that failed and have none: ``"incorrect"``, say. ``own`` is what
    `auto` is called there, ``roofs`` which of the variants only move.
    """

    gpu: str
    timer: str
    cache: str
    dtype: str
    rows: int
    cols: int
    seen: Mapping[str, Mapping[Visit, Mapping[str, Any]]]
    failed: Mapping[str, str] = field(default_factory=dict)
    operation: str = OPERATION
    own: str = OWN
    roofs: tuple[str, ...] = COPIES

    @property
    def name(self) -> str:
        """Shape and dtype in words."""
        return f"{self.rows}×{self.cols} {self.dtype}"

    @property
    def tuned(self) -> bool:
        """Whether `auto` was tuned at its width; only softmax knows widths held out."""
        return self.operation != OPERATION or self.cols in tuned_widths()

    @property
    def widths(self) -> str:
        """The same in words."""
        if self.operation != OPERATION:
            return "all"
        return "tuned" if self.tuned else "held out"

    @property
    def roof_name(self) -> str:
        """The operation that is the roof."""
        return str(next(iter(self.seen[self.own].values()))["roof"])

    @cached_property
    def moved_bytes(self) -> int:
        """What any kernel of the operation moves here: of softmax 2MN."""
        return self._moved(self.own) or 2 * self.rows * self.cols * ITEM_BYTES[self.dtype]

    def _moved(self, name: str) -> int:
        """What the operation of a variant has to move here, 0 where its rows do not say."""
        row = next(iter(self.seen[name].values()))
        return int(number(row, "compulsory_bytes") or 0)

    @property
    def large(self) -> bool:
        """Whether it moves so much that memory alone decides."""
        return self.moved_bytes >= LARGE_BYTES

    @property
    def short(self) -> bool:
        """Whether `auto` is done so soon that the timer's steps show."""
        return self.us(self.own) < SHORT_US

    @cached_property
    def best(self) -> str:
        """The fastest peer."""
        return str(self._fastest(self.peers))

    @property
    def peers(self) -> list[str]:
        """All peers that have a time here."""
        return [name for name in self.seen if maker(name) and self.has(name)]

    @property
    def behind(self) -> bool:
        """Whether the fastest peer wins by more than noise: 2 %, or half a microsecond if short."""
        if self.short:
            return self.difference(self.best).value < -STEP_US
        return self.ratio(self.best).value < LEAST

    @cached_property
    def above_roof(self) -> bool:
        """Whether `auto` beats the copy by more than its interval in most rounds: never a win."""
        flags = [bool(row["above_roof"]) for row in self.seen[self.own].values()]
        return 2 * sum(flags) > len(flags)

    def has(self, name: str) -> bool:
        """Whether a variant was timed in a visit that has `auto` as well."""
        return bool(self.seen.get(name, {}).keys() & self.seen[self.own].keys())

    def rival(self, over: str) -> str | None:
        """What is compared with `auto`.

        It is the fastest of the ``peers``, the ``roof`` (of softmax also ``copy``), the fastest of
        one maker's, or the kernel of that name.
        """
        if over in (ROOF, COPY):
            return self.roof
        if over in self.seen or over == "peers":
            return self.best if over == "peers" else over if self.has(over) else None
        return self._fastest([name for name in self.peers if maker(name) == over])

    def us(self, name: str) -> float:
        """A variant's time, µs: the geometric mean of its visits."""
        return geometric_mean(float(row["time_us"]) for row in self.seen[name].values())

    def time_of(self, name: str) -> Estimate:
        """The same with its interval."""
        seen = self.seen[name]
        return estimate.median_of([_samples(row) for row in seen.values()], [v[0] for v in seen])

    def by_visit(self, name: str) -> dict[Visit, float]:
        """A variant's time over that of `auto`, by visit."""
        return {visit: time / own for visit, (time, own) in self._pairs(name).items()}

    def held_to_roof(self, name: str) -> dict[Visit, Pair]:
        """Both times for a mean: where `auto` is above the roof, the roof's replaces its own.

        Such a time is not a win over the roof. To leave the point out would be wrong too: it is
        where all kernels are nearest to each other, and a mean of the others flatters.
        """
        beaten = self.above_roof and self.roof is not None
        roofs = self.by_visit(str(self.roof)) if beaten else {}
        return {
            visit: (time, own * max(1.0, self._less * roofs.get(visit, 1.0)))
            for visit, (time, own) in self._pairs(name).items()
        }

    def _pairs(self, name: str) -> dict[Visit, Pair]:
        """The times of a variant and of `auto`, by visit."""
        own, other = self.seen[self.own], self.seen[name]
        shared = sorted(own.keys() & other.keys())
        return {v: (float(other[v]["time_us"]), float(own[v]["time_us"])) for v in shared}

    def ratio(self, name: str) -> Estimate:
        """A variant's time over that of `auto`: how many times as fast `auto` is."""
        if name not in self._ratios:  # pictures, tables and claims ask for the same ones
            shared = sorted(self.by_visit(name))
            other, own = ([_samples(self.seen[one][v]) for v in shared] for one in (name, self.own))
            recordings = [recording for recording, _ in shared]
            self._ratios[name] = estimate.ratio_of(other, own, recordings)
        return self._ratios[name]

    @cached_property
    def _ratios(self) -> dict[str, Estimate]:
        return {}

    def difference(self, name: str) -> Estimate:
        """A variant's time less that of `auto`: what their ratio exceeds 1 by, in µs."""
        ratio, own_us = self.ratio(name), self.us(self.own)
        value, low, high = ((end - 1) * own_us for end in (ratio.value, ratio.low, ratio.high))
        return Estimate(value, low, high, ratio.rounds)

    @cached_property
    def share(self) -> Estimate | None:
        """The share of the roof's bandwidth that `auto` has; None where no roof was timed.

        Of equal bytes it is the roof's time over that of `auto`. Where arithmetic alone takes
        longer than the roof, it is that time over `auto`'s.
        """
        if self.roof is None:
            return None
        ratio = self.ratio(self.roof)
        low, high = (end * self._less for end in (ratio.low, ratio.high))
        share = replace(ratio, value=ratio.value * self._less, low=low, high=high)
        if self.by_arithmetic:
            rows = self.seen[self.own].values()
            us, own = geometric_mean(row["arithmetic_us"] for row in rows), self.time_of(self.own)
            bound = replace(own, value=us / own.value, low=us / own.high, high=us / own.low)
            share = max(share, bound, key=lambda one: one.value)
        return share

    @property
    def by_arithmetic(self) -> bool:
        """Whether roofs of arithmetic were timed beside every row of `auto`."""
        rows = self.seen[self.own].values()
        return all(number(row, "arithmetic_us") is not None for row in rows)

    @cached_property
    def roof(self) -> str | None:
        """The kernel that is the roof here: the fastest that only moves."""
        return self._fastest(self.roofs)

    def scale(self, over: str) -> float:
        """What a rival's time is multiplied by: a roof's for what it moves more or less."""
        return self._less if over in (ROOF, COPY) else 1.0

    @cached_property
    def _less(self) -> float:
        """What the operation moves, over what its roof does: a little more or less than 1."""
        moved = self._moved(str(self.roof)) if self.roof else 0
        return self.moved_bytes / moved if moved else 1.0

    def _fastest(self, names: Sequence[str]) -> str | None:
        """The one of the least geometric mean over visits of its time over that of `auto`."""
        found = {one: geometric_mean(self.by_visit(one).values()) for one in names if self.has(one)}
        return min(found, key=lambda one: found[one], default=None)


def _samples(row: Mapping[str, Any]) -> Sequence[float]:
    """A row's samples; of a row without them, its interval."""
    samples = row.get("samples_us")
    if isinstance(samples, Sequence) and samples:
        return samples
    ends = (number(row, name) for name in ("time_low_us", "time_us", "time_high_us"))
    return [end for end in ends if end is not None]


@once_per_frame
def points_of(
    frame: pd.DataFrame, operation: str = OPERATION, variant: str = ""
) -> list[LimitPoint]:
    """Every point at which `auto` and a peer were timed in one visit, by protocol and shape.

    Within a protocol those at tuned widths come first. A ``variant`` is taken in place of `auto`.
    """
    mine = frame["operation"] == operation
    roofs = set(frame.loc[mine, "roof"]) - {operation}
    kernels = {name for name in frame.loc[mine, "kernel"].unique()
               if name == variant or is_own(name) or maker(name)}  # fmt: skip
    movers = {n for n in frame.loc[frame["operation"].isin(roofs), "kernel"].unique()
              if "-" not in n}  # fmt: skip
    known = (mine & frame["kernel"].isin(kernels)) | (
        frame["operation"].isin(roofs) & frame["kernel"].isin(movers)
    )
    timed = frame[(frame["status"] == "ok") & frame["time_us"].gt(0) & known]
    timed = timed[(timed["backend"] != "interpreter") & timed["dtype"].isin(list(ITEM_BYTES))]
    timed = timed.rename_axis("label").reset_index()
    timed = timed.assign(_set=[json.dumps(p, sort_keys=True) for p in timed["params"]])
    # a kernel edited since leaves stale rows; one with several settings counts with its fastest
    timed = timed.drop_duplicates([*PLACE, *VISIT, "kernel", "_set"], keep="last")
    timed = timed.sort_values("time_us", kind="stable")
    timed = timed.drop_duplicates([*PLACE, *VISIT, "kernel"]).drop(columns="_set")
    found, failures = [], _failures(frame[mine])
    own = variant or _own_of(kernels)
    names = tuple(sorted(movers, key=roof_order))
    places: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in records_of(timed.dropna(subset=PLACE)):
        places.setdefault(tuple(row[name] for name in PLACE), []).append(row)
    for place, rows in places.items():
        gpu, timer, cache, m, n, dtype = place
        seen: dict[str, dict[Visit, Mapping[str, Any]]] = {own: {}}
        for row in rows:
            visit = str(row["recording"]), int(row["round"])
            seen.setdefault(row["kernel"], {})[visit] = row
        # a sweep of other kernels may hold `auto` and the roof too, in visits without a peer
        visits = seen[own].keys() & {v for name in seen if maker(name) for v in seen[name]}
        if visits:
            seen = {name: {v: one[v] for v in one if v in visits} for name, one in seen.items()}
            failed = failures.get((gpu, m, n, dtype), {})
            failed = {name: failed[name] for name in failed if not seen.get(name)}
            found.append(
                LimitPoint(gpu, timer, cache, dtype, m, n, seen, failed, operation, own, names)
            )
    dtypes, timers = list(ITEM_BYTES), list(TIMERS)
    return sorted(found, key=lambda p: (p.gpu, timers.index(p.timer), p.cache, not p.tuned, p.rows,
                                        p.cols, dtypes.index(p.dtype)))  # fmt: skip


def operations_of(frame: pd.DataFrame) -> list[str]:
    """The operations of which `auto` stands beside a peer, the sources' own first."""
    kernels = frame.groupby("operation")["kernel"].unique()
    found = [str(name) for name, own in kernels.items()
             if any(map(is_own, own)) and any(map(maker, own)) and points_of(frame, str(name))
             ]  # fmt: skip
    return sorted(found, key=lambda name: (name != OPERATION, name))


def recording_of(inputs: Inputs) -> Inputs:
    """The rows themselves where `auto` stands beside a peer, else what is packed below them.

    Of several packed recordings it is the one with most peers, of those the one with most points.
    """

    def worth(one: Inputs) -> tuple[int, int]:
        # a recording of another operation may hold `auto` alone, one of the sources the peers
        points = points_of(one.frame) if OWN in set(one.frame["kernel"]) else []
        return len({peer for point in points for peer in point.peers}), len(points)

    return inputs if worth(inputs)[0] else max([inputs, *inputs.packed], key=worth)


def with_all_operations(inputs: Inputs) -> Inputs:
    """`recording_of`, with the rows of each operation that it lacks from where most peers are.

    Its records are those of all recordings, its own before others of the same thing.
    """
    one, several = recording_of(inputs), [inputs, *inputs.packed]
    known = {id(each): operations_of(each.frame) for each in several}
    frames = [one.frame]
    for name in sorted({name for names in known.values() for name in names}):
        if name in operations_of(one.frame):
            continue
        frame = max(
            (each.frame for each in several if name in known[id(each)]),
            key=lambda frame: (
                frame.loc[frame["operation"] == name, "kernel"].nunique(),
                (frame["operation"] == name).sum(),
            ),
        )
        roofs = frame.loc[frame["operation"] == name, "roof"].unique()
        frames.append(frame[frame["operation"].isin([name, *roofs])])
    others = (each.records for each in several if each is not one)
    records = together([*others, one.records])
    frame = one.frame if len(frames) == 1 else pd.concat(frames, ignore_index=True)
    return replace(one, frame=frame, records=records)


def groups_of(points: Iterable[LimitPoint]) -> list[list[LimitPoint]]:
    """The points of each GPU, timer and cache, tuned widths apart from those held out."""
    alike = groupby(points, key=lambda point: (point.gpu, point.timer, point.cache, point.tuned))
    return [list(group) for _, group in alike]


@cache
def tuned_widths() -> frozenset[int]:
    """The columns of the grids that `auto` was tuned on."""
    return frozenset(n for grid in TUNED for _, n, _ in named_grids()[grid])


def _failures(frame: pd.DataFrame) -> dict[tuple[str, int, int, str], dict[str, str]]:
    """By GPU, M, N and dtype the peers that failed, and how: a row without a time has no timer."""
    failed = frame[~frame["status"].isin(EXPECTED)]
    rows = failed[failed["kernel"].map(maker).notna()]
    found: dict[tuple[str, int, int, str], dict[str, str]] = {}
    for row in records_of(rows):
        place = row["gpu"], int(row["rows"]), int(row["cols"]), row["dtype"]
        found.setdefault(place, {})[row["kernel"]] = row["status"]
    return found


def geomean(points: Sequence[LimitPoint], over: str = "peers") -> Estimate | None:
    """The geometric mean of a rival's times over those of `auto`; see `_combined`."""
    return _combined(points, over, lambda rival, own: geometric_mean(rival / own))


def summed(points: Sequence[LimitPoint], over: str = "peers") -> Estimate | None:
    """The sum of a rival's times over that of `auto`, in which long points count most."""
    return _combined(points, over, lambda rival, own: float(rival.sum() / own.sum()))


def _combined(
    points: Sequence[LimitPoint], over: str, combine: Callable[[Floats, Floats], float]
) -> Estimate | None:
    """One number of many points, its unit the recording, or the round where there is one recording.

    ``over`` says which rival (`LimitPoint.rival`); points without it do not count. No time of
    `auto` counts as less than the roof's (`LimitPoint.held_to_roof`). The value is that of all
    points, the interval that of the rounds' own numbers (`estimate.over_recordings`), taken over
    the points that have most visits: another recording draws other widths. ``spread`` is of what
    each recording gives alone. Of a single round the interval goes from what the points' lower ends
    give to what their upper ends do.
    """
    known = [(point, name) for point in points if (name := point.rival(over)) is not None]
    if not known:
        return None
    lines = [
        (i, *visit, math.log(rival * point.scale(over)), math.log(own))
        for i, (point, name) in enumerate(known)
        for visit, (rival, own) in point.held_to_roof(name).items()
    ]
    times = pd.DataFrame(lines, columns=["point", *VISIT, "rival", "own"])
    # cards that shared the points of a sweep made one recording of it, each alone a part
    sweep = times["recording"].str.split("/").str[0]
    anew = times.assign(sweep=sweep).duplicated(["sweep", "point", "round"])
    times["recording"] = times["recording"].where(sweep.isin(sweep[anew]), sweep)

    def number_of(some: pd.DataFrame) -> float:
        visits = np.bincount(some["point"])
        sums = [np.bincount(some["point"], some[name]) for name in ("rival", "own")]
        rival, own = (np.exp(one[visits > 0] / visits[visits > 0]) for one in sums)
        return combine(rival, own)

    value, visits = number_of(times), times["point"].map(times["point"].value_counts())
    if visits.max() == 1:
        ratios = [point.ratio(name) for point, name in known]
        ends = ([math.log(getattr(r, end) / r.value) for r in ratios] for end in ("low", "high"))
        low, high = (number_of(times.assign(rival=times["rival"] + end)) for end in ends)
        return Estimate(value, low, high)
    whole = times[visits == visits.max()]
    rounds = [
        [number_of(one) for _, one in recording.groupby("round")]
        for _, recording in whole.groupby("recording")
    ]
    found = estimate.over_recordings(rounds)
    low, high = (value * end / found.value for end in (found.low, found.high))
    alike = times[times["recording"].isin(whole["recording"])].groupby("recording")
    alone = [number_of(recording) for _, recording in alike]
    spread = (min(alone), max(alone)) if len(alone) > 1 else None
    return replace(found, value=value, low=low, high=high, spread=spread)


def worst(points: Sequence[LimitPoint], over: str = "peers") -> tuple[LimitPoint, Estimate] | None:
    """The point with the least ratio."""
    rivals = [(point, point.rival(over)) for point in points]
    known = [(point, point.ratio(name)) for point, name in rivals if name is not None]
    return min(known, key=lambda pair: pair[1].value, default=None)
