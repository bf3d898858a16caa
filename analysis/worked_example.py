"""C-ex: the worked example by the kernel's own statistics, block by block, beside what C prints."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.format import Table
from analysis.load import Records, kernel_name
from analysis.published import Example, sources
from experiments.data.records import Trace

HEADS = ("row", "quantity", "published", "the kernel's own", "difference", "agrees")


@dataclass(frozen=True)
class ExampleRow:
    """One row of the worked example, as a recorded call of the real kernel left it.

    ``blocks`` are the kernel's own running maximum and sum after each block, ``outputs`` what it
    stored.
    """

    blocks: tuple[tuple[float, float], ...]
    outputs: tuple[float, ...]

    @property
    def maximum(self) -> float:
        """The row's maximum: the running one after the last block."""
        return self.blocks[-1][0]

    @property
    def total(self) -> float:
        """The row's sum of exp(x − maximum): the running one after the last block."""
        return self.blocks[-1][1]

    @property
    def added(self) -> tuple[float, ...]:
        """What each block added to the sum, once the sum before it had been rescaled."""
        before = ((-math.inf, 0.0), *self.blocks)
        return tuple(
            total - old_total * math.exp(old - maximum)
            for (old, old_total), (maximum, total) in zip(before, self.blocks, strict=False)
        )


def example_rows(records: Records) -> tuple[ExampleRow, ...] | None:
    """The rows of the worked example; None without a trace of its very input in its blocks."""
    example = sources()["C"].example
    for trace in example_traces(records, example) if example else ():
        named = kernel_name(trace.kernel), trace.params.get("block_size")
        if example and named == (example.kernel, example.block):
            rows = [ExampleRow(_blocks(trace, i), _outputs(trace, i)) for i in range(trace.rows)]
            return tuple(rows) if all(row.blocks and row.outputs for row in rows) else None
    return None


def example_traces(records: Records, example: Example) -> list[Trace]:
    """The recorded calls on the example's input, whatever the kernel."""
    given = [list(row) for row in example.input]
    return [trace for trace in records.traces if trace.input == given]


def example_table(records: Records) -> Table | None:
    """The example recomputed, a line per number that C prints; None where it is not recorded."""
    if (example := sources()["C"].example) is None or (rows := example_rows(records)) is None:
        return None
    digits = example.decimals
    lines: list[tuple[str, ...]] = []
    for index, row in enumerate(rows):
        name = str(index + 1)
        for number, (maximum, total) in enumerate(row.blocks, start=1):
            own = f"{maximum:.1f}, {total:.6f}"
            lines.append((name, f"m, d after block {number}", "", own, "", ""))
            if index == 0:
                pair = [example.block_sums[number - 1]], [row.added[number - 1]]
                lines.append((name, f"sum of block {number}", *_compared(*pair, digits)))
        for quantity, printed, found, decimals in (
            ("maximum", [example.maxima[index]], [row.maximum], 1),
            ("sum", [example.sums[index]], [row.total], digits),
            ("outputs", example.outputs[index], row.outputs, digits),
            ("sum of outputs", [example.row_sums[index]], [sum(row.outputs)], digits),
        ):
            lines.append((name, quantity, *_compared(printed, found, decimals)))
    sums = ", ".join(f"{sum(row):.{digits}f}" for row in example.outputs)
    mine = [row.outputs for row in rows]
    stored = [[_outputs(t, i) for i in range(t.rows)] for t in example_traces(records, example)]
    calls = [outputs for outputs in stored if [*map(len, outputs)] == [*map(len, mine)]]
    pairs = [pair for call in calls for pair in zip(call, mine, strict=True)]
    apart = max(float(np.abs(np.subtract(*pair)).max()) for pair in pairs)
    notes = (
        f"m and d are variables of the unchanged `{example.kernel}` kernel, read after each block "
        "as Triton's interpreter ran it. A number agrees within one unit of its last printed "
        f"digit. C's printed outputs add up to {sums}, row by row.",
        f"The outputs of all {len(calls)} recorded calls on this input (every countable variant, "
        f"each size of block) differ from these by at most {apart:.1e}.",
    )
    title = f"C-ex: {len(rows)}×{len(example.input[0])} in blocks of {example.block}, recomputed"
    return Table(title, HEADS, lines, notes)


def _blocks(trace: Trace, index: int) -> tuple[tuple[float, float], ...]:
    states = [a.state or {} for a in trace.accesses if a.row == index and a.sweep == 0]
    pairs = [(state.get("maximum"), state.get("total")) for state in states]
    return tuple((m, d) for m, d in pairs if isinstance(m, float) and isinstance(d, float))


def _outputs(trace: Trace, index: int) -> tuple[float, ...]:
    stores = [a for a in trace.accesses if (a.row, a.kind, a.tensor) == (index, "store", "y")]
    return tuple(float(v) for a in sorted(stores, key=lambda a: a.first) for v in a.values or ())


def _compared(
    printed: Sequence[float], found: Sequence[float], digits: int
) -> tuple[str, str, str, str]:
    """What is printed, what was found with a digit more, the worst difference, and a verdict."""
    worst = max((b - a for a, b in zip(printed, found, strict=True)), key=abs)
    agrees = "yes" if abs(worst) <= 10.0**-digits * (1 + 1e-9) else "no"
    difference = round(worst, digits + 1) + 0.0  # no -0
    own = " ".join(f"{value:.{digits + 1}f}" for value in found)
    stated = " ".join(f"{value:.{digits}f}" for value in printed)
    return stated, own, f"{difference:+.{digits + 1}f}", agrees
