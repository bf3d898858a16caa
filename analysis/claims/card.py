"""Measurements for claims, on one GPU: times, bandwidths, memory, traffic and outcomes.

A ratio of times and its interval come from `analysis.points`: over recordings or rounds, or for a
single visit from the intervals of both medians. A kernel's time is the mean of its rounds' medians.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import pandas as pd

from analysis import points as beside
from analysis.claims.verdict import Part, Points, exactly
from analysis.estimate import Estimate, of_rounds
from analysis.load import Inputs, kernel_name
from analysis.points import ENDS
from analysis.published import OPERATION, elements
from analysis.selection import PROTOCOLS, timed, undisturbed
from experiments.data.jobs import CONF, named_grids, read_yaml
from experiments.data.rows import ITEM_BYTES

WORKLOAD = ["rows", "cols", "dtype"]
POINT_VISIT = [*beside.POINT, *beside.VISIT]
EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
CLOCKS = {"events": ("events",), "in a graph": ("chain", "graph")}  # the first in the rows
SizeChoice = int | tuple[int, int | None] | list[int]


@dataclass(frozen=True)
class Where:
    """A choice of points: those of grids in conf/grid, narrowed by sizes and by flags.

    A size is a number, a pair of ends (None: no upper end), or a list. The flags are columns of
    `analysis.points`; None takes both values.
    """

    grids: tuple[str, ...] = ()
    rows: SizeChoice | None = None
    cols: SizeChoice | None = None
    dtype: str | None = None
    tuned: bool | None = None
    large: bool | None = None
    short: bool | None = None

    def of(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The lines of a frame at these points; a column that the frame lacks is ignored."""
        if frame.empty:
            return frame
        here = pd.Series(True, frame.index)
        for name, value in vars(self).items():
            if name not in frame or value is None:
                continue
            if isinstance(value, tuple):
                here &= frame[name].between(value[0], value[1] or math.inf)
            else:
                here &= frame[name].isin(value if isinstance(value, list) else [value])
        if self.grids:
            listed = [one for name in self.grids for one in named_grids()[name]]
            here &= pd.MultiIndex.from_frame(frame[WORKLOAD]).isin(listed)
        return frame[here]

    def __str__(self) -> str:
        asked = [f"{name} {value}" for name, value in vars(self).items() if value not in ((), None)]
        return ", ".join(asked) or "any shape"


ANY_SHAPE = Where()


@dataclass(frozen=True)
class Card:
    """One GPU and the rows and records of it."""

    gpu: str  # as its driver names it
    inputs: Inputs  # of this GPU only: sets of rows are chosen per GPU

    def ratio(self, top: str, bottom: str, where: Where = ANY_SHAPE, mean: bool = False) -> Points:
        """One kernel's time over another's: how many times as fast ``bottom`` is.

        ``online,accumulate=float64`` is a kernel with a tunable. A ``top`` of two kernels,
        ``a + b``, stands for the sum of both times. With ``mean`` the result is one number, the
        geometric mean of all points.
        """
        *tops, ours = self._timed([*top.split(" + "), bottom], where)
        needs = f"needs timed rows of {top} and {bottom} at {where}"
        if ours.empty:
            return Points(needs=needs, gain=1)
        rival, sums = tops[0], ["us", "low_us", "high_us"]
        for other in tops[1:]:
            both = rival.merge(other[[*POINT_VISIT, *sums]], on=POINT_VISIT, suffixes=("", "_more"))
            added = {name: both[name] + both[f"{name}_more"] for name in sums}
            rival = both.assign(**added)
            rival["samples_us"] = rival[sums].to_numpy().tolist()
        rows = [rival.assign(role="peer", kernel=top, by=""), ours.assign(role="ours", by="")]
        return _compared(beside.ratios(pd.concat(rows, ignore_index=True), top), needs, mean)

    def rival(
        self,
        over: str,
        clock: str,
        where: Where = ANY_SHAPE,
        operation: str = OPERATION,
        mean: bool = False,
        as_gap: bool = False,
    ) -> Points:
        """A rival's time over ours with a cold cache; for ``roof`` our share of its bandwidth.

        `analysis.points.pairs` explains ``over``; ``clock`` is one of `CLOCKS`. With ``mean`` the
        result is the geometric mean, with ``as_gap`` the rival's time minus ours, µs. Softmax is
        judged at tuned widths, unless ``where`` asks for the others.
        """
        needs = f"needs our kernel of {operation} and {over} in one sweep at {where}"
        where = replace(where, tuned=where.tuned is not False) if operation == OPERATION else where
        if (found := self.inputs.points.get(operation)) is None:
            return Points(needs=needs)
        found = where.of(found[found["cache"] == "cold"])
        timer = next((one for one in CLOCKS[clock] if (found["timer"] == one).any()), "")
        lines = where.of(self.inputs.ratios(operation, over))
        lines = lines[lines["cache"].eq("cold") & lines["timer"].eq(timer)]
        return _compared(lines, needs, mean, as_gap)

    def times(self, kernel: str, where: Where = ANY_SHAPE, doubtful: bool = True) -> Points:
        """A kernel's time for each workload, µs; with ``doubtful`` also times above the roof."""
        (found,) = self._timed([kernel], where, doubtful)
        found = undisturbed(found, WORKLOAD)
        numbers = dict[Any, Estimate]()
        for at, one in found.groupby(WORKLOAD):
            samples, recordings = one["samples_us"].tolist(), one["recording"].tolist()
            numbers[at] = of_rounds(samples, recordings=recordings).of(one["label"])
        return Points(numbers, f"needs timed rows of {kernel} at {where}")

    def rates(self, kernel: str, where: Where = ANY_SHAPE) -> Points:
        """A kernel's effective bandwidth for each workload, GB/s, without times above the roof."""
        times, (found,) = self.times(kernel, where, False), self._timed([kernel], where)
        sizes = (found.groupby(WORKLOAD)["bytes"].max() / 1e3).dropna().to_dict()
        rates = {at: exactly(sizes[at]) / us for at, us in times.numbers.items() if at in sizes}
        return replace(times, numbers=rates)

    def most(self, kernel: str, where: Where = ANY_SHAPE, what: str = "peak_bytes") -> Points:
        """The largest value of a column of a kernel's rows for each workload.

        ``peak_bytes`` is the memory that a call had beyond its inputs, ``epsilons`` ‖y − ref‖ /
        ‖ref‖ in epsilons of the dtype.
        """
        rows = self._rows(kernel, where)
        rows["epsilons"] = rows["relative_error"] / rows["dtype"].map(EPSILON).astype(float)
        rows = rows[(rows["status"] == "ok") & rows[what].lt(math.inf)]
        numbers = {at: exactly(one[what].max()).of(one.index) for at, one in rows.groupby(WORKLOAD)}
        return Points(numbers, f"needs rows of {kernel} at {where}")

    def counted(self, kernel: str, where: Where = ANY_SHAPE, kind: str = "total") -> Points:
        """Elements that a kernel's code requests, which are the same on every machine.

        ``kind`` is ``reads``, ``writes`` or ``total``.
        """
        lines = [
            (one, sum(t.loads for t in one.tensors), sum(t.stores for t in one.tensors))
            for one in self.inputs.records.counts
            if one.reason is None
        ]
        return replace(_moved("counts", lines, kernel, where, kind), exact=True)

    def at_dram(self, kernel: str, where: Where = ANY_SHAPE, kind: str = "total") -> Points:
        """Elements that a kernel moved through DRAM, by this card's counters."""
        lines = [
            (one, one.dram_read_bytes / size, one.dram_write_bytes / size)
            for one in self.inputs.records.counters
            if one.gpu == self.gpu and (size := ITEM_BYTES[one.dtype])
        ]
        return _moved("counters", lines, kernel, where, kind)

    def outcome(
        self, label: str, kernel: str, *statuses: str, where: Where = ANY_SHAPE, gain: int = 0
    ) -> Part:
        """A part that holds if every point of a kernel ended with one of ``statuses``.

        A claimed failure is judged without points that the kernel refused or that the interpreter
        ran.
        """
        rows, expected = self._rows(kernel, where), f"every point {' or '.join(statuses)}"
        if "ok" not in statuses:
            rows = rows[(rows["backend"] != "interpreter") & (rows["status"] != "unsupported")]
        if rows.empty:
            return Part(label, expected, lacks=f"needs rows of {kernel} at {where}")
        good, counts = rows["status"].isin(statuses), rows["status"].value_counts().sort_index()
        note = ", ".join(f"{n} {status}" for status, n in counts.items())
        note += "".join(f": {reason}" for reason in rows.loc[~good, "reason"].dropna()[:1])
        labels, outcome = tuple(map(int, rows.index)), "yes" if good.all() else "no"
        direction = {1: "worse", -1: "better"}.get(gain, "") if outcome == "no" else ""
        return Part(label, expected, note, outcome, labels=labels, direction=direction)

    def _rows(self, kernel: str, where: Where, frame: Any = None) -> pd.DataFrame:
        """A kernel's rows at ``where``, for each visit to a point the newest one."""
        found = where.of(_of_kernel(self.inputs.main if frame is None else frame, kernel))
        return found.drop_duplicates(POINT_VISIT, keep="last").copy()

    def _timed(
        self, kernels: Sequence[str], where: Where, doubtful: bool = False
    ) -> list[pd.DataFrame]:
        """Each kernel's times, named as in `analysis.points`, under the first common protocol.

        All are of `Inputs.main`, or else of the first set in which one recording has them all.
        """
        named = {kernel.partition(",")[0] for kernel in kernels}
        sets = (own for _, own in self.inputs.frame.groupby("set") if named <= {*own["kernel"]})
        for frame in chain([self.inputs.main], sets):
            found = list[pd.DataFrame]()
            for kernel in kernels:
                rows = self._rows(kernel, where, frame)
                time = rows["time_us"]
                low, high = (rows[end].fillna(time) for end in ("time_low_us", "time_high_us"))
                # a time outside its own interval does not count
                good = timed(rows) & low.gt(0) & (low <= time) & (time <= high)
                rows = rows[good & (doubtful | ~rows["above_roof"])]
                found.append(rows.rename_axis("label").reset_index().rename(columns=beside.NAMED))
            for timer, state in PROTOCOLS if all(map(len, found)) else ():
                alike = [one[(one["timer"] == timer) & (one["cache"] == state)] for one in found]
                if set.intersection(*(set(one["recording"]) for one in alike)):
                    return alike
        return [one[:0] for one in found]


def growth(
    numbers_of: Callable[[str, Where], Points], kernel: str, start: int, end: int, where: Where
) -> Points:
    """A kernel's number at ``end`` columns over its number at ``start`` columns."""
    first, last = (numbers_of(kernel, replace(where, cols=cols)) for cols in (start, end))
    return last.pick(1) / first.pick(1)


def implied(
    formula: str, rows: int, cols: Sequence[int], dtype: str, times: Sequence[float]
) -> Points:
    """The bandwidths, GB/s, that printed times (µs) imply if ``formula`` elements are moved."""
    numbers = {
        (rows, n, dtype): exactly(elements(formula, rows, n) * ITEM_BYTES[dtype] / us / 1e3)
        for n, us in zip(cols, times, strict=True)
    }
    return Points(numbers, exact=True)


def _compared(lines: pd.DataFrame, needs: str, mean: bool, as_gap: bool = False) -> Points:
    """Ratios of `analysis.points`, or their mean; gaps are in µs."""
    if as_gap:
        lines = lines.assign(**lines[ENDS].sub(1).mul(lines["us"], axis=0))
    columns = lines[[*WORKLOAD, *ENDS, "labels"]].itertuples(index=False)
    numbers = {(m, n, dtype): Estimate(*ends).of(labels) for m, n, dtype, *ends, labels in columns}
    every = Points(numbers, needs, gain=1)
    if not (mean and every):
        return every
    one = beside.geomean(lines)
    assert one is not None
    note = f"{every.range} over {one.points} points, interval over {one.units}"
    labels = [label for each in lines["labels"] for label in each]
    return replace(every, numbers={(): one.of(labels)}, note=note)


def _of_kernel(frame: pd.DataFrame, kernel: str) -> pd.DataFrame:
    """A kernel's rows or records at the tunables of its file, except those that ``kernel`` sets."""
    name, *named = kernel.split(",")
    file = read_yaml(CONF / "kernel").get(name, {})
    filed = {key: file[key] for key in file.keys() - {"_target_", "by"}}
    asked = filed | dict(one.split("=") for one in named)
    mine = frame[frame["kernel"] == name]
    # a tunable that a row does not record is as in the file
    given = ({k: v for k, v in one.items() if v is not None} for one in mine["params"])
    alike = [{key: (filed | one)[key] for key in asked} == asked for one in given]
    return mine[pd.Series(alike, mine.index, dtype=bool)]


def _moved(made: str, lines: Iterable[Any], kernel: str, where: Where, kind: str) -> Points:
    """The elements that a kernel moved, from records and their reads and writes."""
    moved = [
        (kernel_name(one.kernel), one.params, one.rows, one.cols, one.dtype, *each, sum(each))
        for one, *each in lines
    ]
    columns = ["kernel", "params", *WORKLOAD, "reads", "writes", "total"]
    found = _of_kernel(pd.DataFrame(moved, columns=columns), kernel)
    mine = where.of(found).drop_duplicates(WORKLOAD, keep="last").sort_values(WORKLOAD)
    sizes = mine.set_index(WORKLOAD)[kind].map(exactly).to_dict()
    return Points(sizes, f"needs {made} of {kernel} (make {made})")
