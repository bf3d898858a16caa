"""How near the limit `auto` is: its rivals' times over its own, point by point."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from analysis.claims import points as verdicts
from analysis.claims.band import Band, Measure
from analysis.claims.bench import Bench, Seen, missing, one
from analysis.claims.expect import Strict
from analysis.claims.pool import Point
from analysis.claims.telling import many, measured, plain
from analysis.claims.where import Where
from analysis.estimate import Estimate
from analysis.limits import COMMAND, OWN, PEERS, geomean, points_of, worst
from analysis.limits import LimitPoint as Timed

RIVALS = ("peers", "copy", *PEERS)


class Limit(Strict):
    """A rival's time over that of `auto`, or less it, at points of one timer with a cold cache.

    ``over`` is ``peers``, the fastest of them at each point, ``copy``, the faster one, or a peer's
    name. ``gap`` takes the difference in µs in place of the ratio. ``take: geomean`` makes one
    number of all points, which mixes dtypes as ratios may; ``each`` asks every point. Points are
    narrowed by ``where``, by the bytes that 2MN are (``moved``) and by the time of `auto`, µs.
    """

    over: str
    timer: Literal["events", "graph"]
    take: Literal["geomean", "each"] = "each"
    gap: bool = False
    moved: int = Field(0, ge=0)
    slower_than: float = Field(0.0, ge=0)
    faster_than: float | None = Field(None, gt=0)
    where: Where = Where()

    @field_validator("over")
    @classmethod
    def _known(cls, over: str) -> str:
        if over not in RIVALS:
            raise ValueError(f"no rival {over!r}; known are {', '.join(RIVALS)}")
        return over

    def judge(self, bench: Bench, band: Band) -> Seen:
        """The verdict on one GPU."""
        mine = (bench.frame["timer"] == self.timer) & (bench.frame["cache"] == "cold")
        points = [p for p in points_of(bench.frame[mine]) if self._wants(p)]
        if not points:
            what = f"{OWN} beside {self.over} by {self.timer} at {self.where}"
            return missing(f"needs timed rows of {what}", COMMAND)
        if self.take == "geomean":
            return self._mean(points, band)
        each = [Point((p.rows, p.cols, p.dtype), self._measure(p)) for p in points]
        labels = {label for p in each if p.measure for label in p.measure.rows}
        return verdicts.each(each, band, many(len(labels), "row"))

    def _wants(self, point: Timed) -> bool:
        us = point.us(OWN)
        inside = self.slower_than <= us and (self.faster_than is None or us < self.faster_than)
        known = inside and point.moved_bytes >= self.moved and self._rival(point) is not None
        return known and self.where.has(point.rows, point.cols, point.dtype)

    def _rival(self, point: Timed) -> str | None:
        if self.over == "peers":
            return point.best
        if self.over == "copy":
            return point.copy
        return self.over if point.has(self.over) else None

    def _measure(self, point: Timed) -> Measure:
        rival = self._rival(point)
        assert rival is not None
        told = point.difference(rival) if self.gap else point.ratio(rival)
        return Measure(told.value, told.low, told.high, _labels(point, rival))

    def _mean(self, points: list[Timed], band: Band) -> Seen:
        mean, least = geomean(points, self._rival), worst(points, self._rival)
        assert mean is not None
        assert least is not None
        labels = tuple(i for p in points for i in _labels(p, str(self._rival(p))))
        over = f"over {many(len(points), 'point')}, least {_told(least[1])} at {least[0].name}"
        measure = Measure(mean.value, mean.low, mean.high, labels)
        return one(measure, band, many(len(set(labels)), "row"), over)


def _told(interval: Estimate) -> str:
    if interval.low == interval.high:
        return plain(interval.value)
    return measured(Measure(interval.value, interval.low, interval.high))


def _labels(point: Timed, rival: str) -> tuple[int, ...]:
    """The rows behind a ratio, as the frame labels them."""
    shared = point.by_visit(rival)
    return tuple(int(point.seen[name][v]["label"]) for name in (OWN, rival) for v in shared)
