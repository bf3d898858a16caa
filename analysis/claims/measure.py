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
from functools import cache, cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import yaml

from analysis import points as beside
from analysis.claims.verdict import ENDS, PLACE, Points, plain
from analysis.formula import elements
from analysis.load import Inputs, Records, kernel_name
from analysis.published import OPERATION, sources
from analysis.selection import PROTOCOLS
from experiments.data.jobs import named_grids
from experiments.data.rows import ITEM_BYTES

KERNELS = Path(__file__).parents[2] / "conf" / "kernel"
VISIT = ["sweep", "card", "round", "timer", "cache"]
ENOUGH = 0.5  # of the points that a claim names; fewer say little of all of them
EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
CLOCKS = {"events": ("events",), "in a graph": ("chain", "graph")}  # the first that rows have
Size = int | tuple[int, int | None] | list[int]


@dataclass(frozen=True)
class Where:
    """Points: of grids in conf/grid, narrowed by sizes and dtype.

    A size is one number, a pair of ends (None for no upper one), or a list.
    """

    grids: tuple[str, ...] = ()
    rows: Size | None = None
    cols: Size | None = None
    dtype: str | None = None

    def of(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The lines of a frame that lie there."""
        here = pd.Series(True, frame.index)
        for side, size in (("rows", self.rows), ("cols", self.cols)):
            if isinstance(size, tuple):
                here &= frame[side].between(size[0], size[1] or float("inf"))
            elif size is not None:
                here &= frame[side].isin(size if isinstance(size, list) else [size])
        if self.dtype:
            here &= frame["dtype"] == self.dtype
        if self.grids:
            here &= pd.MultiIndex.from_frame(frame[PLACE]).isin(self._listed())
        return frame[here]

    @property
    def count(self) -> int:
        """How many points its grids name there."""
        return len(self.of(pd.DataFrame(self._listed(), columns=PLACE).drop_duplicates()))

    def _listed(self) -> list[tuple[int, int, str]]:
        return [place for name in self.grids for place in named_grids()[name]]


ANY = Where()


@dataclass(frozen=True, eq=False)
class Card:
    """One GPU's rows and records.

    Attributes:
        gpu: Its name, as its driver has it.
        frame: The rows of `main_rows`: one set for each operation.
        points: By operation our kernel beside the public ones and the roof.
        records: Counts, counters and host costs.
    """

    gpu: str
    frame: pd.DataFrame
    points: dict[str, pd.DataFrame]
    records: Records

    @classmethod
    def of(cls, inputs: Inputs, gpu: str) -> Card:
        """The part of a command's inputs that is of one GPU."""
        mine = of_gpu(inputs, gpu)
        return cls(gpu, mine.main, mine.points, mine.records)

    def ratio(
        self, top: str, bottom: str, where: Where = ANY, *, plus: str = "",
        refused: bool = False, name: str = "time_us",
    ) -> Points:  # fmt: skip
        """One kernel's time over another's in shared visits: how many times as fast ``bottom`` is.

        The time of ``plus`` is added to that of ``top``: two calls in place of one. With
        ``refused`` a place where ``bottom`` is unsupported counts, without a number. ``name`` takes
        another column than times.
        """
        kernels = [top, bottom, *([plus] if plus else [])]
        first, second, *more = self._timed(kernels, where, name)
        for other in more:
            both = first.merge(other, on=[*VISIT, *PLACE], suffixes=("", "_more"))
            sums = {name: both[name] + both[f"{name}_more"] for name in [*ENDS, "labels"]}
            first = both[[*VISIT, *PLACE]].assign(**sums)
        found = _middle(_over(first, second, [*VISIT, *PLACE]))
        if refused:
            rows = self._rows(bottom, where)
            rows = rows[rows["status"] == "unsupported"].merge(first[["sweep", *PLACE]])
            places = rows[PLACE].drop_duplicates().reset_index(drop=True)
            none = _exact(places, pd.Series(math.nan, places.index))
            found = pd.concat([found, none]) if len(none) else found
        return self._enough(Points(found, gain=1), kernels, where)

    def peaks(self, top: str, bottom: str, where: Where) -> Points:
        """The highest bandwidth of one kernel over another's, of the places that both ran."""
        return self._extremes([top, bottom], where, lambda one: _extreme(one, "max"), gain=-1)

    def spreads(self, top: str, bottom: str, where: Where) -> Points:
        """One kernel's highest over lowest bandwidth, over another's: above 1 ``bottom`` is the
        steadier one."""
        return self._extremes([top, bottom], where, _spread, gain=1)

    def spread(self, kernel: str, where: Where) -> Points:
        """One kernel's highest over its lowest bandwidth: 1 where it is perfectly steady."""
        (found,) = self._timed([kernel], where, "effective_gbps")
        full = _fullest(found)
        if len(full.drop_duplicates(PLACE)) < max(2, ENOUGH * where.count):
            return self._lacking([kernel], where)
        lines = _middle(_spread(full), [])
        ends = f"{plain(full['value'].min())} to {plain(full['value'].max())} GB/s"
        return Points(lines.assign(low=lines["low"].clip(lower=1.0)), note=ends)

    def column(self, kernel: str, name: str, where: Where, gpu: str = "") -> Points:
        """One kernel's own column; a time counts above the roof too. ``gpu`` asks for one card."""
        if gpu and self.gpu != gpu:
            return Points(lacks=f"needs rows of an {gpu}")
        (found,) = self._timed([kernel], where, name, above_roof=name == "time_us")
        return self._enough(Points(_middle(_fullest(found))), [kernel], where)

    def trend(self, kernel: str, name: str, start: int, end: int, where: Where) -> Points:
        """One kernel's column at ``end`` columns over the same at ``start`` columns."""
        (found,) = self._timed([kernel], where, name)
        full = _fullest(found)
        grown = _over(full[full["cols"] == end], full[full["cols"] == start], VISIT)
        if grown.empty:
            return self._lacking([kernel], replace(where, cols=[start, end]))
        first = grown.iloc[0]
        note = f"from {plain(first['value_bottom'])} to {plain(first['value_top'])}"
        return Points(_middle(grown, []), note=note)

    def rival(
        self, over: str, clock: str, where: Where = ANY, *, operation: str = OPERATION,
        as_gap: bool = False, held_out: bool = False, large: bool = False,
        short: bool | None = None,
    ) -> Points:  # fmt: skip
        """A rival's time over ours with a cold cache; over ``roof`` our share of its bandwidth.

        ``over`` is a rival as `analysis.points.pairs` has it, ``clock`` one of `CLOCKS`. With
        ``as_gap`` it is what the rival takes longer, µs. Points are those at widths that nobody
        tuned for (``held_out``; only softmax has any) or the others, those that move 256 MB or
        more (``large``), and those where ours takes less than 25 µs (``short``) or more.
        """
        lines = where.of(self._against(operation, over))
        lines = lines[(lines["cache"] == "cold") & (lines["tuned"] != held_out)]
        timer = next((one for one in CLOCKS[clock] if (lines["timer"] == one).any()), "")
        lines = lines[lines["timer"] == timer]
        if large:
            lines = lines[lines["large"]]
        if short is not None:
            lines = lines[lines["short"] == short]
        if lines.empty:
            return Points(lacks=f"needs our kernel of {operation} and {over} in one sweep")
        value = "share" if over == beside.ROOF else "ratio"
        names = ("gap_us", "gap_low", "gap_high") if as_gap else (value, "low", "high")
        values = {end: lines[name] for end, name in zip(ENDS, names, strict=True)}
        return Points(lines[["timer", *PLACE, "labels"]].assign(**values), gain=1)

    def rival_mean(self, over: str, clock: str, where: Where = ANY, **which: Any) -> Points:
        """The geometric mean of a rival's times over ours, of the points that `rival` takes."""
        taken = self.rival(over, clock, where, **which)
        if taken.lacks:
            return taken
        found = self.points[which.get("operation", OPERATION)]
        cold = found[found["cache"] == "cold"].merge(taken.lines[["timer", *PLACE]])
        mean = beside.geomean(cold, over)
        if mean is None:
            return Points(lacks=f"needs {over}")
        line = {"value": mean.value, "low": mean.low, "high": mean.high, "labels": taken.labels}
        note = f"{mean.points} points, interval over {mean.units}"
        return Points(pd.DataFrame([line]), gain=1, note=note)

    def counts(self, kernel: str, over: str, where: Where = ANY, kind: str = "total") -> Points:
        """Elements that a kernel's code requests, over a formula or over another kernel's.

        They are the same on every machine; ``kind`` is ``reads``, ``writes`` or ``total``.
        """
        records = [c for c in self.records.counts if c.method != "none" and c.reason is None]
        lines = [
            (c, sum(t.loads for t in c.tensors), sum(t.stores for t in c.tensors)) for c in records
        ]
        found = _moved(lines, kind, kernel, over, where)
        return replace(found, exact=True) if len(found.lines) else found

    def at_dram(self, kernel: str, over: str, where: Where = ANY, kind: str = "total") -> Points:
        """Bytes that the card's counters saw at DRAM, over a formula or over another kernel's."""
        mine = [c for c in self.records.counters if c.gpu == self.gpu]
        lines = [(c, c.dram_read_bytes, c.dram_write_bytes) for c in mine]
        return _moved(lines, kind, kernel, over, where, bytes_=True)

    def host(self, layer: str, over: str = "") -> Points:
        """What a call costs the host, over PyTorch's call beside it or over another layer."""
        found = [one for one in self.records.hosts if one.gpu == self.gpu]
        layers = {one.layer: one for one in found[-1].layers} if found else {}
        mine = layers.get(layer)
        other = layers.get(over or (mine.base if mine else ""))
        if mine is None or other is None:
            return Points(lacks=f"needs the host's cost of {layer} (experiments.hostcost)")
        ends = (mine.ratio, mine.ratio_low, mine.ratio_high)
        if over or None in ends:
            value = mine.host_us / other.host_us if over else mine.ratio
            ends = (
                value,
                mine.host_low_us / other.host_high_us,
                mine.host_high_us / other.host_low_us,
            )
        return _number(ends, note=f"{plain(mine.host_us)} over {plain(other.host_us)} µs")

    def outcome(
        self, kernel: str, statuses: Sequence[str], where: Where = ANY, gain: int = 0
    ) -> Points:
        """The share of a kernel's points that ended with one of some statuses.

        Of a claimed failure, points that the kernel itself refused or that no card ran decide
        nothing.
        """
        rows = self._rows(kernel, where)
        if "ok" not in statuses:
            rows = rows[(rows["backend"] != "interpreter") & (rows["status"] != "unsupported")]
        if rows.empty:
            return self._lacking([kernel], where)
        good = rows["status"].isin(statuses)
        tally = sorted(Counter(rows["status"]).items())
        note = ", ".join(f"{count} {status}" for status, count in tally)
        ends = dict.fromkeys(str(rows["cols"].agg(end)) for end in ("min", "max"))
        note += f" at N = {' to '.join(ends)}"
        note += "".join(f": {reason}" for reason in rows.loc[~good, "reason"].dropna()[:1])
        found = _number([float(good.mean())] * 3, gain, note, tuple(map(int, rows.index)))
        return replace(found, told=True)

    def distance(self, kernel: str, other: str, where: Where = ANY) -> Points:
        """How far two kernels' answers are apart, in epsilons of the dtype.

        Of ‖y − ref‖ / ‖ref‖ of each against float64 it is the difference at least, the sum at most.
        """
        place, sides = ["sweep", "card", "round", *PLACE], []
        for name in (kernel, other):
            rows = self._rows(name, where)
            errors = rows["relative_error"] / rows["dtype"].map(EPSILON).astype(float)
            side = rows[place].assign(error=errors, labels=_own_labels(rows))
            sides.append(side[errors.lt(math.inf)])
        both = sides[0].merge(sides[1], on=place, suffixes=("", "_other"))
        if both.empty:
            return self._lacking([kernel, other], where)
        total = both["error"] + both["error_other"]
        apart = (both["error"] - both["error_other"]).abs()
        labels = both["labels"] + both["labels_other"]
        lines = both[PLACE].assign(value=total, low=apart, high=total, labels=labels)
        return Points(_middle(lines))

    @cached_property
    def _known(self) -> dict[tuple[str, str], pd.DataFrame]:
        return {}

    def _against(self, operation: str, over: str) -> pd.DataFrame:
        """Ratios, or shares of the roof, at every point; several claims ask for the same."""
        place = operation, over
        if place not in self._known:
            found = self.points.get(operation, beside.points(self.frame[:0]))
            shares = over == beside.ROOF
            self._known[place] = beside.shares(found) if shares else beside.ratios(found, over)
        return self._known[place]

    def _rows(self, kernel: str, where: Where) -> pd.DataFrame:
        """A kernel's rows there, each visit to a point once: at the newest of its code."""
        found = where.of(_of_kernel(self.frame, kernel))
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
            ends = {"value": value, "low": low, "high": high, "labels": _own_labels(rows)}
            found.append(rows[[*VISIT, *PLACE]].assign(**ends)[good])
        for timer, state in PROTOCOLS:
            alike = [one[(one["timer"] == timer) & (one["cache"] == state)] for one in found]
            if all(map(len, alike)):
                return [one.sort_values(VISIT, kind="stable") for one in alike]
        return [one[:0] for one in found]

    def _extremes(self, kernels: Sequence[str], where: Where, reduce: Any, gain: int) -> Points:
        """Two kernels' bandwidths reduced within each visit, over the places that both ran."""
        both = self._timed(kernels, where, "effective_gbps")
        shared = [_fullest(a.merge(b[[*VISIT, *PLACE]])) for a, b in (both, both[::-1])]
        count = len(shared[0].drop_duplicates(PLACE))
        if not count or count < ENOUGH * where.count:
            return self._lacking(kernels, where)
        found = _over(reduce(shared[0]), reduce(shared[1]), VISIT)
        values = " over ".join(plain(found[name].iloc[0]) for name in ("value_top", "value_bottom"))
        return Points(_middle(found, []), gain, f"{values}, of {count} points each")

    def _enough(self, points: Points, kernels: Sequence[str], where: Where) -> Points:
        """The points, unless they are too few of those that a claim names."""
        enough = len(points.lines) and len(points.lines) >= ENOUGH * where.count
        return points if enough else self._lacking(kernels, where)

    def _lacking(self, kernels: Sequence[str], where: Where) -> Points:
        """No points, and which rows would give some."""
        names = {"grid": where.grids, "M": where.rows, "N": where.cols, "dtype": where.dtype}
        asked = ", ".join(f"{name} {value}" for name, value in names.items() if value)
        text = f"needs timed rows of {' and '.join(kernels)} at {asked or 'any shape'}"
        if len(self.frame) and (self.frame["device"] == "cpu").all():
            text += "; under Triton's interpreter, on a CPU, time means nothing"
        return Points(lacks=text)


def of_gpu(inputs: Inputs, gpu: str) -> Inputs:
    """The inputs with the rows of one GPU alone: which sets count is chosen for each GPU."""
    mine = inputs.frame["gpu"] == gpu
    return inputs if mine.all() else replace(inputs, frame=inputs.frame[mine])


def implied(letter: str, kernel: str, formula: str, series: str = "", at: str = "") -> Points:
    """The bandwidth, GB/s, that times printed in a figure, or at a place, imply for a formula."""
    source = sources()[letter]
    if series:
        drawn = source.series[series]
        times = zip(drawn.sizes, drawn.kernels[kernel], strict=True)
        printed = [(int(drawn.rows or 0), n, source.dtype, us) for n, us in times]
    else:
        timings = [t for t in source.timings if (t.at, t.kernel) == (at, kernel)]
        printed = [(t.rows, t.cols, t.dtype, 1e3 * float(t.time_ms)) for t in timings]
    rates = [elements(formula, m, n) * ITEM_BYTES[t] / us / 1e3 for m, n, t, us in printed]
    places = pd.DataFrame([place for *place, _ in printed], columns=PLACE)
    return Points(_exact(places, pd.Series(rates)), exact=True)


def stated(value: float, note: str = "", told: bool = False) -> Points:
    """A number that a source prints, or that follows from numbers it prints."""
    return replace(_number([value] * 3, note=note), exact=True, told=told)


@cache
def _settings() -> dict[str, dict[str, Any]]:
    """By kernel of conf/kernel its tunables, as its file sets them."""
    files = {path.stem: yaml.safe_load(path.read_text("utf-8")) for path in KERNELS.glob("*.yaml")}
    return {
        name: {key: value for key, value in file.items() if key not in ("_target_", "by")}
        for name, file in files.items()
    }


def _of_kernel(frame: pd.DataFrame, kernel: str) -> pd.DataFrame:
    """A kernel's rows or records with the tunables of its file, or with those that are named.

    ``online,accumulate=float64`` names one. A tunable that a row does not record is as in the file.
    """
    name, *named = kernel.split(",")
    own = {key: yaml.safe_load(value) for key, _, value in (one.partition("=") for one in named)}
    mine = frame[frame["kernel"] == name]
    alike = [
        all(
            params.get(key, filed) == own.get(key, filed)
            or (key not in own and params.get(key) is None)
            for key, filed in _settings()[name].items()
        )
        for params in mine["params"]
    ]
    return mine[pd.Series(alike, mine.index, dtype=bool)]


def _moved(
    lines: list[tuple[Any, int, int]], kind: str, kernel: str, over: str, where: Where,
    bytes_: bool = False,
) -> Points:  # fmt: skip
    """What records count for a kernel, over a formula or over another kernel, at each place."""
    found = pd.DataFrame(
        [
            (kernel_name(one.kernel), one.params, one.rows, one.cols, one.dtype, reads, writes)
            for one, reads, writes in lines
        ],
        columns=["kernel", "params", *PLACE, "reads", "writes"],
    )
    total = found["reads"] + found["writes"]
    found = found.assign(moved=total if kind == "total" else found[kind])
    mine, *other = (
        where.of(_of_kernel(found, name)).drop_duplicates(PLACE, keep="last")
        for name in (kernel, over)
        if name in _settings()
    )
    if not other and len(mine):
        sizes = [elements(over, m, n) for m, n in zip(mine["rows"], mine["cols"], strict=True)]
        item = mine["dtype"].map(ITEM_BYTES) if bytes_ else 1
        other = [mine.assign(moved=sizes * item)]
    pairs = mine.merge((other or [mine])[0][[*PLACE, "moved"]], on=PLACE, suffixes=("", "_other"))
    pairs = pairs[pairs["moved_other"] != 0].sort_values(PLACE)
    if pairs.empty:
        made = "counters" if bytes_ else "counts"
        return Points(lacks=f"needs {made} of {kernel} (make {made})")
    return Points(_exact(pairs[PLACE], pairs["moved"] / pairs["moved_other"]))


def _own_labels(rows: pd.DataFrame) -> pd.Series:
    """Each row's label, as the only one of its point."""
    return pd.Series([(int(label),) for label in rows.index], rows.index, dtype=object)


def _exact(places: pd.DataFrame, value: pd.Series) -> pd.DataFrame:
    """Numbers that are known exactly, and that no rows are behind."""
    labels = pd.Series([()] * len(places), places.index, dtype=object)
    return places.assign(value=value, low=value, high=value, labels=labels)


def _number(
    ends: Iterable[Any], gain: int = 0, note: str = "", labels: tuple[int, ...] = ()
) -> Points:
    """One number with its interval."""
    line = dict(zip(ENDS, ends, strict=True)) | {"labels": labels}
    return Points(pd.DataFrame([line]), gain, note)


def _over(top: pd.DataFrame, bottom: pd.DataFrame, on: list[str]) -> pd.DataFrame:
    """One number over another wherever both share a visit and a place; the one pairing of rows."""
    both = top.merge(bottom[[*on, *ENDS, "labels"]], on=on, suffixes=("_top", "_bottom"))
    return both.assign(
        value=both["value_top"] / both["value_bottom"],
        low=both["low_top"] / both["high_bottom"],
        high=both["high_top"] / both["low_bottom"],
        labels=both["labels_top"] + both["labels_bottom"],
    )


def _middle(points: pd.DataFrame, by: Sequence[str] = PLACE) -> pd.DataFrame:
    """Of repeated points the middle one, with the interval that encloses all of them."""
    keys = list(by) or ["all"]
    ordered = points.assign(all=0).sort_values([*keys, "value"], kind="stable")
    groups = ordered.groupby(keys, sort=True)
    ends = groups.agg(low=("low", "min"), high=("high", "max"), labels=("labels", _joined))
    place = groups.cumcount() == (groups["value"].transform("size") - 1) // 2
    found = ends.assign(value=ordered[place].set_index(keys)["value"]).reset_index()
    return found[[*by, *ENDS, "labels"]]


def _fullest(points: pd.DataFrame) -> pd.DataFrame:
    """The visits that cover most places; others would describe another range."""
    sizes = points.groupby(VISIT)["value"].transform("size")
    full: pd.DataFrame = points[sizes == sizes.max()]
    return full


def _extreme(points: pd.DataFrame, which: Literal["min", "max"]) -> pd.DataFrame:
    """By visit the lowest or the highest; its ends are the extremes of all ends."""
    groups = points.groupby(VISIT, sort=True)
    ends: pd.DataFrame = groups[ENDS].agg(which)
    return ends.assign(labels=groups["labels"].agg(_joined)).reset_index()


def _spread(points: pd.DataFrame) -> pd.DataFrame:
    """By visit the highest over the lowest."""
    found = _over(_extreme(points, "max"), _extreme(points, "min"), VISIT)
    return found[[*VISIT, *ENDS, "labels"]]


def _joined(labels: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(chain.from_iterable(labels))
