"""C-viz: online softmax over a small tensor, one block a step, computed by a plain reference.

Source C steps through a 2×8 tensor in blocks of 2. Every number that a step shows is computed here,
in numpy; the template writes all steps into the page, and the script only shows one of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from analysis.estimate import Floats
from analysis.published import sources

HERE = Path(__file__).parent
ROWS, BLOCK = 2, 2  # of source C; its worked example has three rows
STATISTICS, NORMALISE = "pass 1 of 2: maximum and sum", "pass 2 of 2: normalise"
HEADS = ("maximum", "sum", "Σ p", "min p", "max p", "entropy")


@dataclass(frozen=True)
class Step:
    """What is known after one block; rows and columns count from 0.

    Attributes:
        phase: Which pass over the row it belongs to.
        text: What the step does, in a sentence.
        row: The current row, and ``columns`` its block's first column and the one after its last.
        maxima: The running maximum of each row, shape [M]; NaN for a row not begun.
        sums: The running sums of exponentials, likewise.
        output: The probabilities stored so far, shape [M, N]; NaN where nothing is stored.
        reads: How many elements were read so far, and ``writes`` how many were written.
    """

    phase: str
    text: str
    row: int
    columns: tuple[int, int]
    maxima: Floats
    sums: Floats
    output: Floats
    reads: int
    writes: int

    @cached_property
    def statistics(self) -> list[list[str]]:
        """For each row the texts under `HEADS`; empty where a number is not known yet.

        The entropy −Σ p ln p is in nats, and known once the row is complete.
        """
        lines = []
        for maximum, total, stored in zip(self.maxima, self.sums, self.output, strict=True):
            p = stored[~np.isnan(stored)]
            known = [p.sum(), p.min(), p.max()] if p.size else [math.nan] * 3
            entropy = -float((p * np.log(p)).sum()) if p.size == stored.size else math.nan
            lines.append([digits(maximum, 1), *map(digits, [total, *known, entropy])])
        return lines

    @property
    def stored(self) -> list[list[tuple[str, str]]]:
        """The cells of the output by row: the text, and ``now``, ``written`` or empty."""
        return [
            [(digits(value), "" if math.isnan(value) else self._state(i, j, "written"))
             for j, value in enumerate(line)]
            for i, line in enumerate(self.output)
        ]  # fmt: skip

    def read(self, x: Floats) -> list[list[tuple[str, str]]]:
        """The cells of the input x by row: the text, and ``now``, ``read`` or empty."""
        return [
            [(digits(value, 1), self._state(i, j, "read" if self._begun(i, j) else ""))
             for j, value in enumerate(line)]
            for i, line in enumerate(x)
        ]  # fmt: skip

    def _begun(self, row: int, column: int) -> bool:
        again = self.phase == NORMALISE or column < self.columns[0]
        return row < self.row or (row == self.row and again)

    def _state(self, row: int, column: int, before: str) -> str:
        here = row == self.row and self.columns[0] <= column < self.columns[1]
        return "now" if here else before


def example() -> Floats:
    """The input: the first rows of source C's worked example, shape [2, 8]."""
    found = sources()["C"].example
    assert found is not None
    return np.array(found.input[:ROWS])


def steps(x: Floats, block: int = BLOCK) -> list[Step]:
    """Online softmax of each row of x, one row after the other.

    Args:
        x: The input, shape [M, N].
        block: Columns a step; the last block of a row may be narrower.

    Returns:
        The state before any block, then a step for each block of each pass.
    """
    rows, cols = x.shape
    unknown = np.full(rows, math.nan)
    made = [Step("before the first pass", "The input is in memory.", -1, (0, 0), unknown,
                 unknown, np.full(x.shape, math.nan), 0, 0)]  # fmt: skip
    for row in range(rows):
        for first in range(0, cols, block):
            made.append(_accumulate(made[-1], x, row, first, min(first + block, cols)))
        for first in range(0, cols, block):
            made.append(_normalise(made[-1], x, row, first, min(first + block, cols)))
    return made


def _accumulate(before: Step, x: Floats, row: int, first: int, end: int) -> Step:
    """The first pass: a block raises the maximum, rescales the sum and adds to it."""
    maxima, sums, values = before.maxima.copy(), before.sums.copy(), x[row, first:end]
    old, new = (maxima[row] if first else -math.inf), values.max()
    maxima[row] = max(old, new)
    scale = math.exp(old - maxima[row])
    sums[row] = (sums[row] * scale if first else 0) + np.exp(values - maxima[row]).sum()
    was, now = digits(old, 1), digits(maxima[row], 1)
    change = f"The maximum stays {now}"
    if not first:
        change = f"The maximum is {now}"
    elif new > old:
        change = (
            f"The maximum rises from {was} to {now}, so the sum so far is multiplied by "
            f"exp({was} − {now}) = {digits(scale)}"
        )
    text = f"Row {row + 1} reads columns {first + 1} to {end}. {change}; "
    text += f"the sum is now {digits(sums[row])}."
    return replace(before, phase=STATISTICS, text=text, row=row, columns=(first, end),
                   maxima=maxima, sums=sums, reads=before.reads + values.size)  # fmt: skip


def _normalise(before: Step, x: Floats, row: int, first: int, end: int) -> Step:
    """The second pass: a block is read again, and its probabilities are written."""
    output, values = before.output.copy(), x[row, first:end]
    output[row, first:end] = np.exp(values - before.maxima[row]) / before.sums[row]
    text = (
        f"Row {row + 1} reads columns {first + 1} to {end} again and writes "
        f"exp(x − {digits(before.maxima[row], 1)}) / {digits(before.sums[row])}."
    )
    return replace(before, phase=NORMALISE, text=text, row=row, columns=(first, end),
                   output=output, reads=before.reads + values.size,
                   writes=before.writes + values.size)  # fmt: skip


def digits(value: float, count: int = 3) -> str:
    """A number with so many decimals and a true minus; empty for NaN."""
    return "" if math.isnan(value) else f"{value:.{count}f}".replace("-", "−")
