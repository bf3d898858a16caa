"""Checks of what the sources print: by arithmetic, by physics, by the traced kernel."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd
from pydantic import PositiveFloat, model_validator

from analysis.claims.points import Context, Finding, exact, exact_points, many, missing, one, taken
from analysis.claims.scope import PLACE, Formula, Strict
from analysis.claims.verdict import Band
from analysis.formula import elements
from analysis.load import records_hash
from analysis.published import sources
from analysis.worked_example import example_rows, example_traces
from experiments.data.rows import ITEM_BYTES


class Implied(Strict):
    """The bandwidth, GB/s, that published times and a formula's elements imply.

    Times are of a figure over N (``series``) or of a claim (``at``) of the source.
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
            (m, n, dtype, elements(self.traffic, m, n) * ITEM_BYTES[dtype] / us / 1e3)
            for m, n, dtype, us in self._times(context.source)
        ]
        if not rates:
            return missing(f"{context.source} prints no time of {self.kernel} there")
        used = f"{many(len(rates), 'published time')} of {self.kernel}"
        points = exact_points(pd.DataFrame(rates, columns=[*PLACE, "value"]))
        return taken(points, "each", band, used)

    def _times(self, letter: str) -> list[tuple[int, int, str, float]]:
        source = sources()[letter]
        if self.at is not None:
            return [
                (timing.rows, timing.cols, timing.dtype, 1e3 * float(timing.time_ms))
                for timing in source.timings
                if (timing.at, timing.kernel) == (self.at, self.kernel)
            ]
        drawn = source.series.get(self.series or "")
        if drawn is None or drawn.rows is None or drawn.quantity != "time_us":
            return []
        times = drawn.kernels.get(self.kernel, ())
        widths = zip(drawn.sizes, times, strict=False)
        return [(drawn.rows, n, source.dtype, us) for n, us in widths]


class Printed(Strict):
    """A number the source prints, or the ``top`` over the ``bottom`` of two."""

    top: float
    bottom: PositiveFloat = 1

    def judge(self, context: Context, band: Band) -> Finding:
        """The verdict, the same for every machine."""
        note = f"{self.top:g} over {self.bottom:g}" if self.bottom != 1 else ""
        used = f"numbers {context.source} prints"
        return one(exact(self.top / self.bottom), band, used, note)


class Unrecorded(Strict):
    """A part of a claim that no row or record of this project holds; ``what`` says which."""

    what: str
    needs: str = ""

    def judge(self, context: Context, band: Band) -> Finding:
        """Not testable, with what is missing."""
        return missing(self.what, self.needs)


class Example(Strict):
    """The share of one part's printed numbers that the traced kernel confirms.

    A printed number is confirmed within one unit of its last digit. Printed row sums are compared
    with the outputs printed beside them.
    """

    part: Literal["maxima", "sums", "block_sums", "outputs", "row_sums"]

    def judge(self, context: Context, band: Band) -> Finding:
        """The verdict, the same for every machine."""
        printed, rows = sources()[context.source].example, example_rows(context.records)
        if printed is None:
            return missing(f"{context.source} prints no example")
        if rows is None:
            return missing(f"needs a trace of {printed.kernel} on the example", "make counts")
        kernels: dict[str, Any] = {
            "maxima": [row.maximum for row in rows],
            "sums": [row.total for row in rows],
            "block_sums": [rows[0].added],  # of the first row alone
            "outputs": [row.outputs for row in rows],
            "row_sums": [sum(outputs) for outputs in printed.outputs],
        }
        found = np.array(kernels[self.part])
        stated = np.array(getattr(printed, self.part)).reshape(found.shape)
        wrong = np.argwhere(np.abs(stated - found) > 10.0**-printed.decimals * (1 + 1e-9))
        text = f"{found.size - len(wrong)} of {found.size} printed numbers"
        if len(wrong):
            at = tuple(wrong[0])
            digits = f".{printed.decimals}f"
            text += f"; row {at[0] + 1} prints {stated[at]:g}, the kernel has {found[at]:{digits}}"
        traces = example_traces(context.records, printed)
        used = f"traces of the example {records_hash(traces)} ({len(traces)})"
        return one(exact(1 - len(wrong) / found.size), band, used, text=text)
