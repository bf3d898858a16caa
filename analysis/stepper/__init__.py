"""C-viz: online softmax over a small tensor, one block a step, computed by a plain reference.

Source C steps through a 2×8 tensor in blocks of 2. Every number that a step shows is computed here,
in numpy; the template writes all steps into the page, and the script only shows one of them.
"""

import math
from dataclasses import dataclass
from itertools import product

import numpy as np

from analysis.estimate import Floats
from analysis.published import sources

ROWS, BLOCK = 2, 2  # of source C; its worked example has three rows
STATISTICS, NORMALISE = "pass 1 of 2: maximum and sum", "pass 2 of 2: normalise"
TABLE_HEADS = ("maximum", "sum", "Σ p", "min p", "max p", "entropy")


@dataclass(frozen=True)
class Step:
    """The state after one block of one pass; rows and columns count from 0."""

    text: str  # the step in a sentence or two
    phase: str  # the pass that the block belongs to
    row: int  # -1 before the first
    columns: tuple[int, int]  # the block's first and the one after its last
    known: Floats  # the running maximum and sum of each row, NaN for a row not begun, shape [M, 2]
    reads: Floats  # how often each element was read, shape [M, N]
    output: Floats  # the probabilities stored so far, else NaN, shape [M, N]

    @property
    def statistics(self) -> list[list[float]]:
        """For each row the numbers under `TABLE_HEADS`; NaN where one is not known yet.

        The entropy −Σ p ln p is in nats, and known once the row is complete.
        """
        lines = []
        for known, stored in zip(self.known, self.output, strict=True):
            p = stored[np.isfinite(stored)]
            found = [p.sum(), p.min(), p.max()] if p.size else [math.nan] * 3
            entropy = -(p * np.log(p)).sum() if p.size == stored.size else math.nan
            lines.append([float(one) for one in (*known, *found, entropy)])
        return lines


def example() -> Floats:
    """The input: the first rows of source C's worked example, shape [2, 8]."""
    return np.array(sources()["C"].example["input"][:ROWS], float)


def steps(x: Floats, block: int = BLOCK) -> list[Step]:
    """Online softmax of each row of x, shape [M, N], one row after the other.

    Returns:
        The state before any block, then a step for each block of each pass. A block has ``block``
        columns; the last of a row may have fewer.
    """
    known, output = np.full((len(x), 2), math.nan), np.full(x.shape, math.nan)
    reads = np.zeros(x.shape)
    state = known, reads, output
    begin = "The input is in memory.", "before the first pass", -1, (0, 0)
    found = [Step(*begin, *map(np.copy, state))]
    places = product(range(len(x)), (STATISTICS, NORMALISE), range(0, x.shape[1], block))
    for row, phase, first in places:
        columns = first, min(first + block, x.shape[1])
        part = x[row, slice(*columns)]
        text = f"Row {row + 1} reads columns {first + 1} to {columns[1]}"
        if phase == STATISTICS:
            old, total = known[row] if first else (-math.inf, 0.0)
            new = max(old, part.max())
            total = total * math.exp(old - new) + np.exp(part - new).sum()
            known[row] = new, total
            change = f"The maximum {'is' if old < new else 'stays'} {digits(new, 1)}"
            if -math.inf < old < new:
                scale = f"exp({digits(old, 1)} − {digits(new, 1)}) = {digits(math.exp(old - new))}"
                change = f"The maximum rises from {digits(old, 1)} to {digits(new, 1)}"
                change += f", so the sum so far is multiplied by {scale}"
            text += f". {change}; the sum is now {digits(total)}."
        else:
            maximum, total = known[row]
            output[row, slice(*columns)] = np.exp(part - maximum) / total
            text += f" again and writes exp(x − {digits(maximum, 1)}) / {digits(total)}."
        reads[row, slice(*columns)] += 1
        found.append(Step(text, phase, row, columns, *map(np.copy, state)))
    return found


def digits(value: float, count: int = 3) -> str:
    """A number with ``count`` decimals and a true minus sign; empty for NaN."""
    return "" if math.isnan(value) else f"{value:.{count}f}".replace("-", "−")
