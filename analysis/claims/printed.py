"""What the sources print: held against arithmetic and physics."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from pydantic import field_validator, model_validator

from analysis.claims import points as verdicts
from analysis.claims.band import Band, exactly
from analysis.claims.bench import Bench, Seen, missing, one
from analysis.claims.expect import Strict
from analysis.claims.pool import Point
from analysis.claims.telling import many
from analysis.claims.traffic import Formula
from analysis.formula import elements
from analysis.published import sources
from experiments.data.cards import known_cards
from experiments.data.rows import ITEM_BYTES

Timed = tuple[int, int, str, float]


class Implied(Strict):
    """The bandwidth, GB/s, that published times and a formula's elements imply.

    Times are of a figure (``series``) or of a claim (``at``) of the source.
    """

    kernel: str
    traffic: Formula
    series: str | None = None
    at: str | None = None

    @model_validator(mode="after")
    def _sound(self) -> Implied:
        if (self.series is None) == (self.at is None):
            raise ValueError("give one of series and at")
        return self

    def judge(self, bench: Bench, band: Band) -> Seen:
        """The verdict, the same for every machine."""
        points = [
            Point(
                (m, n, dtype), exactly(elements(self.traffic, m, n) * ITEM_BYTES[dtype] / us / 1e3)
            )
            for m, n, dtype, us in self._times(bench.source)
        ]
        if not points:
            return missing(f"{bench.source} prints no time of {self.kernel} there")
        return verdicts.each(
            points, band, f"{many(len(points), 'published time')} of {self.kernel}"
        )

    def _times(self, letter: str) -> Iterator[Timed]:
        source = sources()[letter]
        if self.at is not None:
            for told in source.timings:
                if (told.at, told.kernel) == (self.at, self.kernel):
                    yield told.rows, told.cols, told.dtype, 1e3 * float(told.time_ms)
        elif self.series in source.series:
            drawn = source.series[self.series]
            for size, time in zip(drawn.sizes, drawn.kernels.get(self.kernel, ()), strict=False):
                m, n = (size, drawn.cols) if drawn.over == "rows" else (drawn.rows, size)
                if m is not None and n is not None and drawn.quantity == "time_us":
                    yield m, n, source.dtype, time


class Printed(Strict):
    """A number the source prints, or the ``top`` over the ``bottom`` of two."""

    top: float
    bottom: float = 1

    @field_validator("bottom")
    @classmethod
    def _not_zero(cls, value: float) -> float:
        if value == 0:
            raise ValueError("nothing is divided by 0")
        return value

    def judge(self, bench: Bench, band: Band) -> Seen:
        """The verdict, the same for every machine."""
        share = exactly(self.top / self.bottom)
        note = f"{self.top:g} over {self.bottom:g}" if self.bottom != 1 else ""
        return one(share, band, f"numbers {bench.source} prints", note)


class Unrecorded(Strict):
    """A part of a claim that no row or record of this project tells; ``what`` says which."""

    what: str
    needs: str = ""

    def judge(self, bench: Bench, band: Band) -> Seen:
        """Not testable, with what is missing."""
        return missing(self.what, self.needs)


@cache
def fastest() -> float:
    """The highest memory bandwidth of any card in conf/gpu, GB/s."""
    return known_cards()[0].peak_gbps or 0.0
