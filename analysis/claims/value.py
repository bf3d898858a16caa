"""One variant: its times or rates, how they run along a size, and how steady they are."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field, model_validator

from analysis.claims import points as verdicts
from analysis.claims.band import Band
from analysis.claims.bench import Bench, Seen, missing, one
from analysis.claims.expect import Strict
from analysis.claims.pool import Point, extreme, fullest, middle, singles, spread
from analysis.claims.ratio import ENOUGH, Column
from analysis.claims.telling import many, plain
from analysis.claims.variant import Name, parse
from analysis.claims.where import Where, one_line
from analysis.published import sources
from experiments.data.cards import card_of


class Value(Strict):
    """One variant's column; ``card: source`` judges it on the source's own card alone."""

    variant: Name
    column: Column = "time_us"
    take: Literal["each", "most", "min", "max"] = "each"
    where: Where = Where()
    card: Literal["any", "source"] = "any"

    def judge(self, bench: Bench, band: Band) -> Seen:
        """The verdict on one GPU."""
        if self.card == "source" and (lacking := another_card(bench)):
            return lacking
        visits = _visits(bench, self)
        known = len(visits[0]) if visits else 0
        if not known or known < ENOUGH * (self.where.points or 0):
            return bench.lacks([parse(self.variant)], self.where, known)
        places = sorted({point.place for points in visits for point in points})
        found = [
            Point(place, middle([p.measure for v in visits for p in v
                                 if p.place == place and p.measure is not None]))
            for place in places
        ]  # fmt: skip
        used = many(len({r for p in found if p.measure for r in p.measure.rows}), "row")
        if self.take == "each":
            return verdicts.each(found, band, used)
        if self.take == "most":
            return verdicts.most(found, band, used)
        measures = [point.measure for point in found if point.measure is not None]
        return one(extreme(measures, self.take == "max"), band, used)


class Trend(Strict):
    """One variant's column at size ``to`` over the same at size ``from``."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    variant: Name
    column: Column
    over: Literal["rows", "cols"] = "cols"
    start: int = Field(alias="from")
    end: int = Field(alias="to")
    where: Where

    @model_validator(mode="after")
    def _sound(self) -> Trend:
        one_line(self.where, self.over, "trend")
        return self

    def judge(self, bench: Bench, band: Band) -> Seen:
        """The verdict on one GPU."""
        side = 0 if self.over == "rows" else 1
        found = []
        for points in _visits(bench, self):
            at = {point.place[side]: point.measure for point in points}
            start, end = at.get(self.start), at.get(self.end)
            if start is not None and end is not None:
                found.append((start, end, end / start))
        if not found:
            narrow = self.where.model_copy(update={self.over: [self.start, self.end]})
            return bench.lacks([parse(self.variant)], narrow)
        start, end, _ = found[0]
        told = f"from {plain(start.value)} to {plain(end.value)}"
        measure = middle([ratio for *_, ratio in found])
        return one(measure, band, many(len(measure.rows), "row"), told)


class Spread(Strict):
    """A variant's highest over its lowest value along a size: 1 is perfectly steady."""

    variant: Name
    column: Column
    over: Literal["rows", "cols"] = "cols"
    where: Where

    @model_validator(mode="after")
    def _sound(self) -> Spread:
        one_line(self.where, self.over, "spread")
        return self

    def judge(self, bench: Bench, band: Band) -> Seen:
        """The verdict on one GPU."""
        visits = _visits(bench, self)
        if not visits or len(visits[0]) < max(2, ENOUGH * (self.where.points or 0)):
            found = len(visits[0]) if visits else 0
            return bench.lacks([parse(self.variant)], self.where, found)
        each = [[p.measure for p in points if p.measure is not None] for points in visits]
        low, high = (extreme(each[0], most).value for most in (False, True))
        told = f"{plain(low)} to {plain(high)} over {many(len(each[0]), 'point')}"
        measure = middle([spread(measures) for measures in each])
        return one(measure, band, many(len(measure.rows), "row"), told)


def another_card(bench: Bench) -> Seen | None:
    """That these rows are not of the card that the source measured on, if they are not."""
    card = sources()[bench.source].card if bench.source in sources() else None
    if card is None:
        return missing(f"{bench.source} names no card")
    if card_of(bench.gpu).name != card:
        return missing(f"{bench.source} measured on a {card}: needs its rows")
    return None


def _visits(bench: Bench, told: Value | Trend | Spread) -> list[list[Point]]:
    (rows,) = bench.timed([parse(told.variant)], told.where)
    return fullest(singles(rows, told.column))
