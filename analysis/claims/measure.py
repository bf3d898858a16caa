"""What a claim can measure: one GPU's rows and records, and the functions that take numbers.

A time's interval is its row's: rank-based, 95 %, of the median. A ratio's interval goes from the
numerator's lower end over the denominator's upper one to the opposite. Where this project's kernel
stands beside its rivals the interval is over recordings, or rounds (`analysis.points`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from analysis import points as beside
from analysis.claims.verdict import ENDS, PLACE, Points, four_figures, number
from analysis.formula import elements
from analysis.load import Inputs, kernel_name
from analysis.published import OPERATION, sources
from analysis.selection import PROTOCOLS
from experiments.data.jobs import named_grids
from experiments.data.rows import ITEM_BYTES

KERNELS = Path(__file__).parents[2] / "conf" / "kernel"
VISIT = ["sweep", "card", "round", "timer", "cache"]
EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
CLOCKS = {"events": ("events",), "in a graph": ("chain", "graph")}  # the first that rows have
Size = int | tuple[int, int | None] | list[int]


@dataclass(frozen=True)
class Where:
    """Points: of grids in conf/grid, narrowed by sizes and by what else a frame says of a point.

    A size is one number, a pair of ends (None for no upper one), or a list. The flags are as in
    `analysis.points`, and None takes both.
    """

    grids: tuple[str, ...] = ()
    rows: Size | None = None
    cols: Size | None = None
    dtype: str | None = None
    tuned: bool | None = None
    large: bool | None = None
    short: bool | None = None

    def of(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The lines of a frame that lie there, by the columns that it has."""
        here = pd.Series(True, frame.index)
        for name, value in vars(self).items():
            if name not in frame or value is None:
                continue
            if isinstance(value, tuple):
                here &= frame[name].between(value[0], value[1] or math.inf)
            else:
                here &= frame[name].isin(value if isinstance(value, list) else [value])
        if self.grids:
            listed = [place for name in self.grids for place in named_grids()[name]]
            here &= pd.MultiIndex.from_frame(frame[PLACE]).isin(listed)
        return frame[here]

    def __str__(self) -> str:
        asked = [f"{name} {value}" for name, value in vars(self).items() if value not in ((), None)]
        return ", ".join(asked) or "any shape"


ANY = Where()


@dataclass(frozen=True)
class Card:
    """One GPU and the rows and records of it."""

    gpu: str  # as its driver names it
    inputs: Inputs  # of this GPU alone: `of_gpu`

    def ratio(
        self, top: str, bottom: str, where: Where = ANY, name: str = "time_us", gain: int = 1
    ) -> Points:
        """One kernel's time over another's in shared visits: how many times as fast ``bottom`` is.

        A ``top`` of two kernels, ``a + b``, stands for the sum of both times. ``name`` takes
        another column than times.
        """
        *tops, second = self._timed([*top.split(" + "), bottom], where, name)
        first = tops[0]
        for other in tops[1:]:
            both = first.merge(other, on=[*VISIT, *PLACE], suffixes=("", "_more"))
            sums = {name: both[name] + both[f"{name}_more"] for name in [*ENDS, "labels"]}
            first = both[[*VISIT, *PLACE]].assign(**sums)
        found = _over(first, second, [*VISIT, *PLACE])
        return _points(found, f"{top} and {bottom}", where, PLACE, gain)

    def peaks(self, top: str, bottom: str, where: Where) -> Points:
        """The highest bandwidth of one kernel over another's, of the places that both ran."""
        one, other = (_extreme(found, "max") for found in self._both(top, bottom, where))
        return _points(_over(one, other), f"{top} and {bottom}", where, gain=-1)

    def spreads(self, top: str, bottom: str, where: Where) -> Points:
        """One kernel's highest over lowest bandwidth, over another's: above 1 ``bottom`` is the
        steadier one."""
        one, other = map(_spread, self._both(top, bottom, where))
        return _points(_over(one, other), f"{top} and {bottom}", where, gain=1)

    def spread(self, kernel: str, where: Where) -> Points:
        """One kernel's highest over its lowest bandwidth: 1 where it is perfectly steady."""
        return _points(_spread(self._both(kernel, kernel, where)[0]), kernel, where)

    def trend(self, kernel: str, name: str, start: int, end: int, where: Where) -> Points:
        """One kernel's column at ``end`` columns over the same at ``start`` columns."""
        first, last = (
            self._timed([kernel], replace(where, cols=cols), name)[0] for cols in (start, end)
        )
        return _points(_over(last, first), kernel, replace(where, cols=[start, end]))

    def column(self, kernel: str, name: str, where: Where) -> Points:
        """One kernel's own column; a time counts above the roof too."""
        (found,) = self._timed([kernel], where, name, above_roof=name == "time_us")
        return _points(found, kernel, where, PLACE)

    def rival(
        self,
        over: str,
        clock: str,
        where: Where = ANY,
        operation: str = OPERATION,
        mean: bool = False,
        as_gap: bool = False,
    ) -> Points:
        """A rival's time over ours with a cold cache; over ``roof`` our share of its bandwidth.

        ``over`` is a rival as `analysis.points.pairs` has it, ``clock`` one of `CLOCKS`. With
        ``mean`` it is the geometric mean, with ``as_gap`` what the rival takes longer, µs. Points
        are those at tuned widths, unless ``where`` asks for the others.
        """
        lacks = Points(lacks=f"needs our kernel of {operation} and {over} in one sweep")
        if operation not in self.inputs.points:
            return lacks
        where = replace(where, tuned=where.tuned is not False)
        found = where.of(self.inputs.points[operation])
        found = found[found["cache"] == "cold"]
        timer = next((one for one in CLOCKS[clock] if (found["timer"] == one).any()), "")
        found = found[found["timer"] == timer]
        share = over == beside.ROOF
        lines = where.of(beside.shares(found) if share else beside.ratios(found, over))
        if share:
            lines = lines.assign(ratio=lines["share"])
        if lines.empty:
            return lacks
        if mean and (one := beside.geomean(found.merge(lines[beside.PLACE]), over)):
            note = f"{one.points} points, interval over {one.units}"
            labels = tuple(dict.fromkeys(chain.from_iterable(lines["labels"])))
            return number(one.value, one.low, one.high, labels=labels, gain=1, note=note)
        ends = ("gap_us", "gap_low", "gap_high") if as_gap else ("ratio", "low", "high")
        values = {end: lines[name] for end, name in zip(ENDS, ends, strict=True)}
        return Points(lines[[*PLACE, "labels"]].assign(**values), gain=1)

    def counts(self, kernel: str, over: str, where: Where = ANY, kind: str = "total") -> Points:
        """Elements that a kernel's code requests, over a formula or over another kernel's.

        They are the same on every machine; ``kind`` is ``reads``, ``writes`` or ``total``.
        """
        lines = [
            (one, sum(t.loads for t in one.tensors), sum(t.stores for t in one.tensors))
            for one in self.inputs.records.counts
            if one.reason is None
        ]
        return replace(_moved("counts", lines, kernel, over, where, kind), exact=True)

    def at_dram(self, kernel: str, over: str, where: Where = ANY, kind: str = "total") -> Points:
        """The same of what the card's counters saw at DRAM."""
        lines = [
            (one, one.dram_read_bytes / size, one.dram_write_bytes / size)
            for one in self.inputs.records.counters
            if one.gpu == self.gpu and (size := ITEM_BYTES[one.dtype])
        ]
        return _moved("counters", lines, kernel, over, where, kind)

    def host(self, layer: str, over: str = "") -> Points:
        """What a call costs the host, over PyTorch's call beside it or over another layer."""
        found = [one for one in self.inputs.records.hosts if one.gpu == self.gpu]
        layers = {one.layer: one for one in found[-1].layers} if found else {}
        mine = layers.get(layer)
        other = layers.get(over or (mine.base if mine else ""))
        if mine is None or other is None:
            return Points(lacks=f"needs the host's cost of {layer} (hostcost.json)")
        ends = (mine.ratio, mine.ratio_low or mine.ratio, mine.ratio_high or mine.ratio)
        if over:
            low, high = mine.host_low_us / other.host_high_us, mine.host_high_us / other.host_low_us
            ends = (mine.host_us / other.host_us, low, high)
        both = map(four_figures, (mine.host_us, other.host_us))
        return number(*ends, note=f"{' over '.join(both)} µs")

    def outcome(
        self, kernel: str, statuses: Sequence[str], where: Where = ANY, gain: int = 0
    ) -> Points:
        """The share of a kernel's points that ended with one of some statuses.

        Of a claimed failure, points that the kernel itself refused or that no card ran decide
        nothing.
        """
        rows, wanted = self._rows(kernel, where), f"every point {' or '.join(statuses)}"
        if "ok" not in statuses:
            rows = rows[(rows["backend"] != "interpreter") & (rows["status"] != "unsupported")]
        if rows.empty:
            return replace(_points(rows, kernel, where), wanted=wanted)
        good = rows["status"].isin(statuses)
        note = ", ".join(f"{n} {status}" for status, n in sorted(Counter(rows["status"]).items()))
        note += "".join(f": {reason}" for reason in rows.loc[~good, "reason"].dropna()[:1])
        share, labels = float(good.mean()), tuple(map(int, rows.index))
        return number(share, labels=labels, gain=gain, note=note, in_words=True, wanted=wanted)

    def distance(self, kernel: str, other: str, where: Where = ANY) -> Points:
        """How far two kernels' answers are apart, in epsilons of the dtype.

        Of ‖y − ref‖ / ‖ref‖ of each against float64 it is the difference at least, the sum at most.
        """
        place, sides = ["sweep", "card", "round", *PLACE], []
        for name in (kernel, other):
            rows = self._rows(name, where)
            errors = rows["relative_error"] / rows["dtype"].map(EPSILON).astype(float)
            sides.append(rows[place].assign(error=errors, labels=_own(rows))[errors.lt(math.inf)])
        both = sides[0].merge(sides[1], on=place, suffixes=("", "_other"))
        total, apart = both["error"] + both["error_other"], both["error"] - both["error_other"]
        labels = both["labels"] + both["labels_other"]
        lines = both[PLACE].assign(value=total, low=apart.abs(), high=total, labels=labels)
        return _points(lines, f"{kernel} and {other}", where, PLACE)

    def _both(self, top: str, bottom: str, where: Where) -> list[pd.DataFrame]:
        """Two kernels' bandwidths at the places that both ran in a visit."""
        found = self._timed([top, bottom], where, "effective_gbps")
        places = (other[[*VISIT, *PLACE]] for other in found[::-1])
        return [one.merge(other) for one, other in zip(found, places, strict=True)]

    def _rows(self, kernel: str, where: Where) -> pd.DataFrame:
        """A kernel's rows there, each visit to a point once: at the newest of its code."""
        found = where.of(_of_kernel(self.inputs.main, kernel))
        return found.drop_duplicates([*VISIT, *PLACE], keep="last")

    def _timed(
        self, kernels: Iterable[str], where: Where, name: str = "time_us", above_roof: bool = False
    ) -> list[pd.DataFrame]:
        """Each kernel's column by visit, under the first protocol that all of them have.

        A time above the roof is doubtful, so it counts only with ``above_roof``. One of Triton's
        interpreter, or outside its own interval, is none. The ends of a rate are the time's, the
        other way round; memory is the same at every call and has none.
        """
        found = []
        for kernel in kernels:
            rows = self._rows(kernel, where)
            time, value = rows["time_us"], rows[name].astype(float)
            low, high = (rows[end].fillna(time) for end in ("time_low_us", "time_high_us"))
            good = (rows["status"] == "ok") & (rows["backend"] != "interpreter") & value.notna()
            good &= low.gt(0) & (low <= time) & (time <= high) & (above_roof | ~rows["above_roof"])
            if name != "time_us":
                low, high = value * time / high, value * time / low
            if name == "peak_bytes":
                low = high = value
            ends = {"value": value, "low": low, "high": high, "labels": _own(rows)}
            found.append(rows[[*VISIT, *PLACE]].assign(**ends)[good])
        for timer, state in PROTOCOLS:
            alike = [one[(one["timer"] == timer) & (one["cache"] == state)] for one in found]
            if all(map(len, alike)):
                return [one.sort_values(VISIT, kind="stable") for one in alike]
        return [one[:0] for one in found]


def of_gpu(inputs: Inputs, gpu: str) -> Inputs:
    """The inputs with the rows of one GPU alone: which sets count is chosen for each GPU."""
    mine = inputs.frame["gpu"] == gpu
    return inputs if mine.all() else replace(inputs, frame=inputs.frame[mine])


def implied(letter: str, kernel: str, formula: str, wanted: str = "") -> Points:
    """The bandwidth, GB/s, that a source's printed times imply for a formula."""
    source = sources()[letter]
    timings = [one for one in source.timings if one.kernel == kernel]
    printed = [(one.rows, one.cols, one.dtype, 1e3 * float(one.time_ms)) for one in timings]
    for drawn in source.series.values():
        if drawn.quantity == "time_us":
            times = zip(drawn.sizes, drawn.kernels[kernel], strict=True)
            printed += [(int(drawn.rows or 0), n, source.dtype, us) for n, us in times]
    rates = [elements(formula, m, n) * ITEM_BYTES[t] / us / 1e3 for m, n, t, us in printed]
    return _exact(
        pd.DataFrame([place for *place, _ in printed], columns=PLACE),
        rates,
        exact=True,
        wanted=wanted,
    )


def stated(value: float, note: str = "", in_words: bool = False) -> Points:
    """A number that a source prints, or that follows from numbers it prints."""
    return number(value, note=note, in_words=in_words, exact=True)


@cache
def _tunables(kernel: str) -> dict[str, Any] | None:
    """A kernel's tunables as its file in conf/kernel sets them; None where it has no file."""
    path = KERNELS / f"{kernel}.yaml"
    file = yaml.safe_load(path.read_text("utf-8")) if path.is_file() else None
    return file and {key: value for key, value in file.items() if key not in ("_target_", "by")}


def _of_kernel(frame: pd.DataFrame, kernel: str) -> pd.DataFrame:
    """A kernel's rows or records with the tunables of its file, or with those that are named.

    ``online,accumulate=float64`` names one. A tunable that a row does not record is as in the file.
    """
    name, *named = kernel.split(",")
    filed = _tunables(name) or {}
    asked = filed | dict(one.split("=") for one in named)
    mine = frame[frame["kernel"] == name]
    given = ({k: v for k, v in one.items() if v is not None} for one in mine["params"])
    alike = [{key: (filed | one)[key] for key in asked} == asked for one in given]
    return mine[pd.Series(alike, mine.index, dtype=bool)]


def _moved(
    made: str, lines: Iterable[Any], kernel: str, over: str, where: Where, kind: str
) -> Points:
    """The elements that records have of a kernel, over a formula or another kernel's."""
    places = [
        (kernel_name(one.kernel), one.params, one.rows, one.cols, one.dtype, reads, writes)
        for one, reads, writes in lines
    ]
    found = pd.DataFrame(places, columns=["kernel", "params", *PLACE, "reads", "writes"])
    found = found.assign(total=found["reads"] + found["writes"])
    mine, other = (
        where.of(_of_kernel(found, name)).drop_duplicates(PLACE, keep="last").set_index(PLACE)[kind]
        for name in (kernel, over)
    )
    if _tunables(over) is None:
        other = pd.Series([elements(over, m, n) for m, n, _ in mine.index], mine.index)
    ratios = (mine / other[other != 0]).dropna().sort_index()
    if ratios.empty:
        return Points(lacks=f"needs {made} of {kernel} (make {made})")
    return _exact(ratios.index.to_frame(index=False), ratios.tolist())


def _own(rows: pd.DataFrame) -> pd.Series:
    """Each row's label, as the only one of its point."""
    return pd.Series([(int(label),) for label in rows.index], rows.index, dtype=object)


def _exact(places: pd.DataFrame, values: Sequence[float], **fields: Any) -> Points:
    """Numbers that are known exactly, and that no rows are behind."""
    labels = pd.Series([()] * len(places), places.index, dtype=object)
    return Points(places.assign(value=values, low=values, high=values, labels=labels), **fields)


def _over(top: pd.DataFrame, bottom: pd.DataFrame, on: Sequence[str] = VISIT) -> pd.DataFrame:
    """One number over another wherever both share a visit and a place; the one pairing of rows."""
    on = [*on]
    both = top.merge(bottom[[*on, *ENDS, "labels"]], on=on, suffixes=("_top", "_bottom"))
    return both.assign(
        value=both["value_top"] / both["value_bottom"],
        low=both["low_top"] / both["high_bottom"],
        high=both["high_top"] / both["low_bottom"],
        labels=both["labels_top"] + both["labels_bottom"],
    )


def _points(
    found: pd.DataFrame, kernels: str, where: Where, by: Sequence[str] = (), gain: int = 0
) -> Points:
    """Of repeated numbers the middle one, with the interval that encloses all of them."""
    if found.empty:
        return Points(lacks=f"needs timed rows of {kernels} at {where}")
    keys, note = list(by) or ["all"], ""
    if not by and "value_top" in found:
        note = " over ".join(
            four_figures(found[f"value_{end}"].iloc[0]) for end in ("top", "bottom")
        )
    ordered = found.assign(all=0).sort_values([*keys, "value"], kind="stable")
    groups = ordered.groupby(keys, sort=True)
    ends = groups.agg(low=("low", "min"), high=("high", "max"), labels=("labels", _joined))
    place = groups.cumcount() == (groups["value"].transform("size") - 1) // 2
    lines = ends.assign(value=ordered[place].set_index(keys)["value"]).reset_index()
    return Points(lines[[*by, *ENDS, "labels"]], gain, note)


def _extreme(points: pd.DataFrame, which: str) -> pd.DataFrame:
    """By visit the lowest or the highest; its ends are the extremes of all ends."""
    groups = points.groupby(VISIT, sort=True)
    return groups[ENDS].agg(which).assign(labels=groups["labels"].agg(_joined)).reset_index()


def _spread(points: pd.DataFrame) -> pd.DataFrame:
    """By visit the highest over the lowest."""
    found = _over(_extreme(points, "max"), _extreme(points, "min"))
    return found[[*VISIT, *ENDS, "labels"]]


def _joined(labels: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(chain.from_iterable(labels))
