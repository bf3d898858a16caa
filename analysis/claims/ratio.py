"""Two variants at the same points: how many times as fast one is."""

from __future__ import annotations

from typing import Literal

import pandas as pd
from pydantic import model_validator

from analysis.claims import points as verdicts
from analysis.claims.band import Band, Measure
from analysis.claims.bench import Bench, Seen, one
from analysis.claims.expect import Strict
from analysis.claims.pool import (
    PLACE,
    Point,
    extreme,
    geomean,
    middle,
    ratios,
    singles,
)
from analysis.claims.telling import many, plain
from analysis.claims.variant import Name, Variant, parse
from analysis.claims.where import Where, one_dtype

Column = Literal["time_us", "effective_gbps", "modelled_gbps"]
ENOUGH = 0.5  # of the points that a check names; fewer say little of all of them


class Ratio(Strict):
    """``top``'s column over ``bottom``'s at shared points: how many times as fast, for a time.

    ``take`` makes one number of many points (geomean, min, max, or ``peaks``, the best of each),
    or asks ``each`` or ``most`` of them. Where ``top`` ran and ``bottom`` cannot, the point counts
    as not as expected under ``unsupported: fails``.
    """

    top: Name
    bottom: Name
    column: Column = "time_us"
    take: Literal["geomean", "each", "most", "min", "max", "peaks"] = "geomean"
    where: Where = Where()
    unsupported: Literal["left out", "fails"] = "left out"

    @model_validator(mode="after")
    def _sound(self) -> Ratio:
        if self.take in ("geomean", "peaks"):
            one_dtype(self.where, self.take)
        if self.take == "geomean" and self.column != "time_us":
            raise ValueError("a geometric mean is of time ratios: column takes time_us there")
        return self

    def judge(self, bench: Bench, band: Band) -> Seen:
        """The verdict on one GPU."""
        both = parse(self.top), parse(self.bottom)
        top, bottom = bench.timed(both, self.where)
        found = ratios(top, bottom, self.column)
        cannot = _unsupported(bench, both[1], top, self.where)
        known = len(found) + len(cannot)
        if not found or known < ENOUGH * (self.where.points or 0):
            return bench.lacks(both, self.where, known)
        if self.unsupported == "fails":
            found = sorted([*found, *cannot], key=lambda point: point.place)
        used = many(len({r for p in found if p.measure for r in p.measure.rows}), "row")
        if self.take == "each":
            return verdicts.each(found, band, used)
        if self.take == "most":
            return verdicts.most(found, band, used)
        if self.take == "peaks":
            return _peaks(top, bottom, self.column, band, used)
        return self._number(found, band, used)

    def _number(self, found: list[Point], band: Band, used: str) -> Seen:
        measures = [point.measure for point in found if point.measure is not None]
        low, high = (f(m.value for m in measures) for f in (min, max))
        over = f"{plain(low)} to {plain(high)} over {many(len(measures), 'point')}"
        if self.take == "geomean":
            return one(geomean(measures), band, used, over)
        return one(extreme(measures, self.take == "max"), band, used, over)


def _peaks(top: pd.DataFrame, bottom: pd.DataFrame, column: str, band: Band, used: str) -> Seen:
    """The best of one over the best of the other, within a visit, at the places both ran."""
    tops, bottoms = singles(top, column), singles(bottom, column)
    found: dict[int, list[tuple[Measure, Measure]]] = {}
    for visit in (v for v in tops if v in bottoms):
        shared = {p.place for p in tops[visit]} & {p.place for p in bottoms[visit]}
        best, other = (
            extreme([p.measure for p in points if p.measure and p.place in shared], True)
            for points in (tops[visit], bottoms[visit])
        )
        found.setdefault(len(shared), []).append((best, other))
    places = max(found)
    best, other = found[places][0]
    told = f"{plain(best.value)} over {plain(other.value)}, the best of {places} points each"
    return one(middle([above / below for above, below in found[places]]), band, used, told)


def _unsupported(bench: Bench, variant: Variant, top: pd.DataFrame, where: Where) -> list[Point]:
    """Where ``top`` has a time and the variant said that it cannot run."""
    rows = bench.rows_of(variant, where)
    refused = rows[rows["status"] == "unsupported"].merge(top[["sweep", *PLACE]].drop_duplicates())
    places = refused[PLACE].drop_duplicates().itertuples(index=False, name=None)
    return [Point((int(m), int(n), str(dtype)), None) for m, n, dtype in places]
