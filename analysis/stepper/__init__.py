"""C-viz: online softmax over a small tensor, one block a step, computed by a plain reference.

Source C steps through a 2×8 tensor in blocks of 2. Every number that a step shows is computed here,
in numpy; the template writes all steps into the page, and the script only shows one of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from analysis.estimate import Floats
from analysis.published import sources

ROWS, BLOCK = 2, 2  # of source C; its worked example has three rows
STATISTICS, NORMALISE = "pass 1 of 2: maximum and sum", "pass 2 of 2: normalise"
HEADS = ("maximum", "sum", "Σ p", "min p", "max p", "entropy")


@dataclass(frozen=True)
class Step:
    """The knowledge after one block of one pass; rows and columns count from 0.

    Attributes:
        x: The input, shape [M, N].
        phase: The pass that the block belongs to.
        row: The current row; -1 before the first.
        columns: The block's first column and the one after its last.
    """

    x: Floats
    phase: str = "before the first pass"
    row: int = -1
    columns: tuple[int, int] = (0, 0)

    def done(self, row: int, phase: str) -> int:
        """How many columns of a row a pass is through with."""
        cols = self.x.shape[1]
        if row != self.row:
            return cols if row < self.row else 0
        if phase == self.phase:
            return self.columns[1]
        return cols if phase == STATISTICS else 0

    @cached_property
    def known(self) -> tuple[Floats, Floats]:
        """The running maximum and the running sum of each row, NaN for a row not begun."""
        maxima, sums = np.full((2, len(self.x)), math.nan)
        for i, row in enumerate(self.x):
            if seen := self.done(i, STATISTICS):
                maxima[i] = row[:seen].max()
                sums[i] = np.exp(row[:seen] - maxima[i]).sum()
        return maxima, sums

    @cached_property
    def output(self) -> Floats:
        """The probabilities stored so far, shape [M, N]; NaN where nothing is stored."""
        maxima, sums = self.known
        made = np.exp(self.x - maxima[:, None]) / sums[:, None]
        for i, row in enumerate(made):
            row[self.done(i, NORMALISE) :] = math.nan
        return np.asarray(made)

    @property
    def moved(self) -> tuple[int, int]:
        """How many elements were read so far, and how many were written."""
        first, second = (
            sum(self.done(i, phase) for i in range(len(self.x)))
            for phase in (STATISTICS, NORMALISE)
        )
        return first + second, second

    @property
    def text(self) -> str:
        """The step in a sentence or two."""
        if self.row < 0:
            return "The input is in memory."
        first, end = self.columns
        (maxima, sums), row = self.known, self.x[self.row]
        now, total = digits(maxima[self.row], 1), digits(sums[self.row])
        start = f"Row {self.row + 1} reads columns {first + 1} to {end}"
        if self.phase == NORMALISE:
            return f"{start} again and writes exp(x − {now}) / {total}."
        change = f"The maximum stays {now}" if first else f"The maximum is {now}"
        if first and (old := row[:first].max()) < maxima[self.row]:
            scale = f"exp({digits(old, 1)} − {now}) = {digits(math.exp(old - maxima[self.row]))}"
            change = f"The maximum rises from {digits(old, 1)} to {now}, so the sum so far is "
            change += f"multiplied by {scale}"
        return f"{start}. {change}; the sum is now {total}."

    @property
    def statistics(self) -> list[list[str]]:
        """For each row the texts under `HEADS`; empty where a number is not known yet.

        The entropy −Σ p ln p is in nats, and known once the row is complete.
        """
        lines = []
        for maximum, total, stored in zip(*self.known, self.output, strict=True):
            p = stored[~np.isnan(stored)]
            known = [p.sum(), p.min(), p.max()] if p.size else [math.nan] * 3
            entropy = -float((p * np.log(p)).sum()) if p.size == stored.size else math.nan
            lines.append([digits(maximum, 1), *map(digits, [total, *known, entropy])])
        return lines

    def cells(self, values: Floats, phase: str, count: int) -> list[list[tuple[str, str]]]:
        """The input or the output by row: each number, and ``now``, ``done`` or nothing.

        Args:
            values: Shape [M, N].
            phase: The pass that is through with a number that is ``done``.
            count: Decimals.
        """
        first, end = self.columns
        found = []
        for i, line in enumerate(values):
            states = ["done" if j < self.done(i, phase) else "" for j in range(line.size)]
            if i == self.row:
                states[first:end] = ["now"] * (end - first)
            found.append([*zip([digits(one, count) for one in line], states, strict=True)])
        return found


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
    return [Step(x)] + [
        Step(x, phase, row, (first, min(first + block, cols)))
        for row in range(rows)
        for phase in (STATISTICS, NORMALISE)
        for first in range(0, cols, block)
    ]


def digits(value: float, count: int = 3) -> str:
    """A number with so many decimals and a true minus; empty for NaN."""
    return "" if math.isnan(value) else f"{value:.{count}f}".replace("-", "−")
