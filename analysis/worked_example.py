"""C-ex: the worked example by the kernel's own statistics, block by block, beside what C prints."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from analysis.format import Table
from analysis.load import Records, kernel_name
from analysis.published import Example, sources
from experiments.data.records import Access, Trace

HEADS = ("row", "quantity", "published", "the kernel's own", "difference", "agrees")


@dataclass(frozen=True)
class ExampleRow:
    """One row of the worked example, as a recorded call of the real kernel left it.

    Attributes:
        blocks: The kernel's own running maximum and sum after each block.
        outputs: What it stored.
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


def example_values(evidence: Records) -> tuple[ExampleRow, ...] | None:
    """The rows of the worked example; None without a trace of its very input in its blocks."""
    example = sources()["C"].example
    if example is None:
        return None
    for trace in _traces_of(evidence, example):
        named = kernel_name(trace.kernel), trace.params.get("block_size")
        if named == (example.kernel, example.block):
            rows = [_row(trace, index) for index in range(trace.rows)]
            return tuple(row for row in rows if row) if all(rows) else None
    return None


def example_table(evidence: Records) -> Table | None:
    """The example recomputed, a line a number that C prints; None where it is not recorded."""
    if (example := sources()["C"].example) is None or (rows := example_values(evidence)) is None:
        return None
    lines: list[tuple[str, ...]] = []
    for index, row in enumerate(rows):
        printed = _Printed(str(index + 1), example.decimals)
        for number, (maximum, total) in enumerate(row.blocks, start=1):
            kept = f"{maximum:.1f}, {total:.6f}"
            lines.append((printed.row, f"m, d after block {number}", "", kept, "", ""))
            if index == 0:
                said, found = example.block_sums[number - 1], row.added[number - 1]
                lines.append(printed.line(f"sum of block {number}", [said], [found]))
        lines += [
            printed.line("maximum", [example.maxima[index]], [row.maximum], decimals=1),
            printed.line("sum", [example.sums[index]], [row.total]),
            printed.line("outputs", example.outputs[index], row.outputs),
            printed.line("sum of outputs", [example.row_sums[index]], [sum(row.outputs)]),
        ]
    title = f"C-ex: {len(rows)}×{len(example.input[0])} in blocks of {example.block}, worked again"
    return Table(title, HEADS, lines, [_note(example), _others(evidence, example, rows)])


def _traces_of(evidence: Records, example: Example) -> list[Trace]:
    given = [list(row) for row in example.input]
    return [trace for trace in evidence.traces if trace.input == given]


def _row(trace: Trace, index: int) -> ExampleRow | None:
    accesses = [access for access in trace.accesses if access.row == index]
    kept = [_own(access) for access in accesses if access.sweep == 0]
    blocks = tuple(pair for pair in kept if pair is not None)
    outputs = _outputs(trace, index)
    return ExampleRow(blocks, outputs) if blocks and outputs else None


def _own(access: Access) -> tuple[float, float] | None:
    state = access.state or {}
    maximum, total = state.get("maximum"), state.get("total")
    if isinstance(maximum, float) and isinstance(total, float):
        return maximum, total
    return None


def _outputs(trace: Trace, index: int) -> tuple[float, ...]:
    stores = [a for a in trace.accesses if (a.row, a.kind, a.tensor) == (index, "store", "y")]
    return tuple(float(v) for a in sorted(stores, key=lambda a: a.first) for v in a.values or ())


def _note(example: Example) -> str:
    sums = ", ".join(f"{sum(row):.{example.decimals}f}" for row in example.outputs)
    return (
        f"m and d are variables of the unchanged `{example.kernel}` kernel, read after each block "
        "as Triton's interpreter ran it. A number agrees within one unit of its last printed "
        f"digit. C's printed outputs add up to {sums}, row by row."
    )


def _others(evidence: Records, example: Example, rows: Sequence[ExampleRow]) -> str:
    whole = [len(row.outputs) for row in rows]
    found = [[_outputs(t, i) for i in range(t.rows)] for t in _traces_of(evidence, example)]
    calls = [outputs for outputs in found if [len(row) for row in outputs] == whole]
    apart = [
        abs(mine - theirs)
        for outputs in calls
        for row, other in zip(rows, outputs, strict=True)
        for mine, theirs in zip(row.outputs, other, strict=True)
    ]
    return (
        f"The outputs of all {len(calls)} recorded calls on this input (every countable variant, "
        f"each size of block) differ from these by at most {max(apart):.1e}."
    )


@dataclass(frozen=True)
class _Printed:
    row: str
    decimals: int

    def line(
        self, name: str, said: Sequence[float], found: Sequence[float], decimals: int | None = None
    ) -> tuple[str, ...]:
        shown = self.decimals if decimals is None else decimals
        worst = max((b - a for a, b in zip(said, found, strict=True)), key=abs)
        agrees = "yes" if abs(worst) <= 10.0**-shown * (1 + 1e-9) else "no"
        told = [" ".join(f"{v:.{d}f}" for v in vs) for vs, d in ((said, shown), (found, shown + 1))]
        difference = round(worst, shown + 1) + 0.0  # no -0
        return self.row, name, *told, f"{difference:+.{shown + 1}f}", agrees
