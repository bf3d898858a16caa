"""C-ex: the worked example by a plain reference, block by block, beside what C prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from analysis.format import Table
from analysis.published import Example, sources

HEADS = ("row", "quantity", "published", "recomputed", "difference", "agrees")


@dataclass(frozen=True)
class ExampleRow:
    """One row of the example in float32.

    Attributes:
        blocks: The running maximum and the running sum after each block.
        added: What each block added to the sum, once the sum before it was rescaled.
        outputs: The softmax of the row.
    """

    blocks: tuple[tuple[float, float], ...]
    added: tuple[float, ...]
    outputs: tuple[float, ...]

    @classmethod
    def of(cls, given: Sequence[float], block: int) -> ExampleRow:
        """A row in two passes, in blocks of so many elements, as online softmax goes."""
        row = np.asarray(given, np.float32)
        maximum, total = np.float32(-np.inf), np.float32(0)
        blocks, added = [], []
        for start in range(0, row.size, block):
            part = row[start : start + block]
            new = max(maximum, part.max())
            sum_of_part = np.exp(part - new).sum(dtype=np.float32)
            maximum, total = new, total * np.exp(maximum - new) + sum_of_part
            blocks.append((float(maximum), float(total)))
            added.append(float(sum_of_part))
        outputs = np.exp(row - maximum) / total
        return cls(tuple(blocks), tuple(added), tuple(map(float, outputs)))


@cache
def printed() -> Example:
    """What C prints."""
    example = sources()["C"].example
    assert example is not None
    return example


@cache
def example_rows() -> tuple[ExampleRow, ...]:
    """The rows of the worked example, in its blocks."""
    return tuple(ExampleRow.of(row, printed().block) for row in printed().input)


def confirmed(part: str) -> tuple[float, str]:
    """The share of one part's printed numbers that are right, within one unit of the last digit.

    Args:
        part: ``maxima``, ``sums``, ``block_sums``, ``outputs`` or ``row_sums``. Printed sums of
            rows are compared with the outputs printed beside them.

    Returns:
        The share, and in words how many are right and which one is the first that is not.
    """
    rows, digits = example_rows(), printed().decimals
    right: dict[str, Any] = {
        "maxima": [row.blocks[-1][0] for row in rows],
        "sums": [row.blocks[-1][1] for row in rows],
        "block_sums": [rows[0].added],  # of the first row alone
        "outputs": [row.outputs for row in rows],
        "row_sums": [sum(outputs) for outputs in printed().outputs],
    }
    found = np.array(right[part])
    stated = np.array(getattr(printed(), part)).reshape(found.shape)
    wrong = np.argwhere(np.abs(stated - found) > 10.0**-digits * (1 + 1e-9))
    text = f"{found.size - len(wrong)} of {found.size} printed numbers"
    if len(wrong):
        at = tuple(wrong[0])
        text += f"; row {at[0] + 1} prints {stated[at]:g}, it is {found[at]:.{digits}f}"
    return 1 - len(wrong) / found.size, text


def example_table() -> Table:
    """The example recomputed, a line per number that C prints."""
    example, rows = printed(), example_rows()
    digits, lines = example.decimals, list[tuple[str, ...]]()
    for index, row in enumerate(rows):
        name = str(index + 1)
        for number, (maximum, total) in enumerate(row.blocks):
            own = f"{maximum:.1f}, {total:.6f}"
            lines.append((name, f"m, d after block {number + 1}", "", own, "", ""))
            if index == 0:
                pair = [example.block_sums[number]], [row.added[number]]
                lines.append((name, f"sum of block {number + 1}", *_compared(*pair, digits)))
        for quantity, stated, found, decimals in (
            ("maximum", [example.maxima[index]], [row.blocks[-1][0]], 1),
            ("sum", [example.sums[index]], [row.blocks[-1][1]], digits),
            ("outputs", example.outputs[index], row.outputs, digits),
            ("sum of outputs", [example.row_sums[index]], [sum(row.outputs)], digits),
        ):
            lines.append((name, quantity, *_compared(stated, found, decimals)))
    sums = ", ".join(f"{sum(row):.{digits}f}" for row in example.outputs)
    note = (
        "m and d are the running maximum and the running sum after each block, in float32. A "
        "number agrees within one unit of its last printed digit. C's printed outputs add up to "
        f"{sums}, row by row."
    )
    title = f"C-ex: {len(rows)}×{len(example.input[0])} in blocks of {example.block}, recomputed"
    return Table(title, HEADS, lines, (note,))


def _compared(
    stated: Sequence[float], found: Sequence[float], digits: int
) -> tuple[str, str, str, str]:
    """What is printed, what was found with a digit more, the worst difference, and a verdict."""
    worst = max((b - a for a, b in zip(stated, found, strict=True)), key=abs)
    agrees = "yes" if abs(worst) <= 10.0**-digits * (1 + 1e-9) else "no"
    difference = round(worst, digits + 1) + 0.0  # no -0
    own = " ".join(f"{value:.{digits + 1}f}" for value in found)
    text = " ".join(f"{value:.{digits}f}" for value in stated)
    return text, own, f"{difference:+.{digits + 1}f}", agrees
