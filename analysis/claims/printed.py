"""Checks of what the sources print: by arithmetic, by physics, by the traced kernel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import field_validator, model_validator

from analysis.claims.points import Context, Finding, exact_points, many, missing, one, taken
from analysis.claims.scope import Formula, Place, Strict
from analysis.claims.verdict import Band
from analysis.estimate import Estimate
from analysis.formula import elements
from analysis.load import records_hash
from analysis.published import Example as PrintedExample
from analysis.published import sources
from analysis.worked_example import ExampleRow, example_rows, example_traces
from experiments.data.rows import ITEM_BYTES


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

    def judge(self, context: Context, band: Band) -> Finding:
        """The verdict, the same for every machine."""
        rates = [
            ((m, n, dtype), elements(self.traffic, m, n) * ITEM_BYTES[dtype] / us / 1e3)
            for (m, n, dtype), us in self._times(context.source)
        ]
        if not rates:
            return missing(f"{context.source} prints no time of {self.kernel} there")
        used = f"{many(len(rates), 'published time')} of {self.kernel}"
        return taken(exact_points(rates), "each", band, used)

    def _times(self, letter: str) -> Iterator[tuple[Place, float]]:
        source = sources()[letter]
        if self.at is not None:
            for timing in source.timings:
                if (timing.at, timing.kernel) == (self.at, self.kernel):
                    yield (timing.rows, timing.cols, timing.dtype), 1e3 * float(timing.time_ms)
        elif self.series in source.series:
            drawn = source.series[self.series]
            for size, time in zip(drawn.sizes, drawn.kernels.get(self.kernel, ()), strict=False):
                m, n = (size, drawn.cols) if drawn.over == "rows" else (drawn.rows, size)
                if m is not None and n is not None and drawn.quantity == "time_us":
                    yield (m, n, source.dtype), time


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

    def judge(self, context: Context, band: Band) -> Finding:
        """The verdict, the same for every machine."""
        share = self.top / self.bottom
        note = f"{self.top:g} over {self.bottom:g}" if self.bottom != 1 else ""
        used = f"numbers {context.source} prints"
        return one(Estimate(share, share, share), band, used, note)


class Unrecorded(Strict):
    """A part of a claim that no row or record of this project holds; ``what`` says which."""

    what: str
    needs: str = ""

    def judge(self, context: Context, band: Band) -> Finding:
        """Not testable, with what is missing."""
        return missing(self.what, self.needs)


class Example(Strict):
    """The share of one part's printed numbers that the traced kernel confirms.

    A printed number is confirmed within one unit of its last digit.
    """

    part: Literal["maxima", "sums", "block_sums", "outputs", "row_sums"]

    def judge(self, context: Context, band: Band) -> Finding:
        """The verdict, the same for every machine."""
        printed, rows = sources()[context.source].example, example_rows(context.records)
        if printed is None:
            return missing(f"{context.source} prints no example")
        if rows is None:
            return missing(f"needs a trace of {printed.kernel} on the example", "make counts")
        pairs = list(self._pairs(printed, rows))
        unit = 10.0**-printed.decimals * (1 + 1e-9)
        wrong = [pair for pair in pairs if abs(pair[1] - pair[2]) > unit]
        text = f"{len(pairs) - len(wrong)} of {len(pairs)} printed numbers"
        if wrong:
            row, stated, found = wrong[0]
            text += f"; row {row} prints {stated:g}, the kernel has {found:.{printed.decimals}f}"
        traces = example_traces(context.records, printed)
        used = f"traces of the example {records_hash(traces)} ({len(traces)})"
        share = 1 - len(wrong) / len(pairs)
        return one(Estimate(share, share, share), band, used, text=text)

    def _pairs(
        self, printed: PrintedExample, rows: tuple[ExampleRow, ...]
    ) -> Iterator[tuple[int, float, float]]:
        """Row, printed number, the kernel's."""
        if self.part == "block_sums":
            for stated, found in zip(printed.block_sums, rows[0].added, strict=True):
                yield 1, stated, found
            return
        for i, row in enumerate(rows):
            if self.part == "outputs":
                for stated, found in zip(printed.outputs[i], row.outputs, strict=True):
                    yield i + 1, stated, found
            elif self.part == "row_sums":
                # by what is printed beside it: the outputs that are said to have this sum
                yield i + 1, printed.row_sums[i], sum(printed.outputs[i])
            else:
                found = row.maximum if self.part == "maxima" else row.total
                yield i + 1, getattr(printed, self.part)[i], found
