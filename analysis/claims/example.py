"""A source's worked example against the kernel's own statistics on the same input."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from analysis.claims.band import Band, exactly
from analysis.claims.bench import Bench, Seen, missing, one
from analysis.claims.expect import Strict
from analysis.load import records_hash
from analysis.published import Example as Printed
from analysis.published import sources
from analysis.worked_example import ExampleRow, example_values

Part = Literal["maxima", "sums", "block_sums", "outputs", "row_sums"]
Pair = tuple[int, float, float]  # row, printed, computed


class Example(Strict):
    """The share of one part's printed numbers that the traced kernel confirms.

    A printed number is confirmed within one unit of its last digit.
    """

    part: Part

    def judge(self, bench: Bench, band: Band) -> Seen:
        """The verdict, the same for every machine."""
        printed, rows = sources()[bench.source].example, example_values(bench.evidence)
        if printed is None:
            return missing(f"{bench.source} prints no example")
        if rows is None:
            return missing(f"needs a trace of {printed.kernel} on the example", "make counts")
        pairs = list(_pairs(self.part, printed, rows))
        unit = 10.0**-printed.decimals * (1 + 1e-9)
        wrong = [pair for pair in pairs if abs(pair[1] - pair[2]) > unit]
        told = f"{len(pairs) - len(wrong)} of {len(pairs)} printed numbers"
        if wrong:
            row, said, found = wrong[0]
            told += f"; row {row} prints {said:g}, the kernel has {found:.{printed.decimals}f}"
        given = [list(row) for row in printed.input]
        traces = [trace for trace in bench.evidence.traces if trace.input == given]
        used = f"traces of the example {records_hash(traces)} ({len(traces)})"
        return one(exactly(1 - len(wrong) / len(pairs)), band, used, told=told)


def _pairs(part: Part, printed: Printed, rows: tuple[ExampleRow, ...]) -> Iterator[Pair]:
    if part == "block_sums":
        for said, found in zip(printed.block_sums, rows[0].added, strict=True):
            yield 1, said, found
        return
    for i, row in enumerate(rows):
        if part == "outputs":
            for said, found in zip(printed.outputs[i], row.outputs, strict=True):
                yield i + 1, said, found
        elif part == "row_sums":
            # by what is printed beside it: the outputs that are said to have this sum
            yield i + 1, printed.row_sums[i], sum(printed.outputs[i])
        else:
            found = row.maximum if part == "maxima" else row.total
            yield i + 1, getattr(printed, part)[i], found
