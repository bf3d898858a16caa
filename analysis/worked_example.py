"""C-ex: the worked example by a plain reference, block by block, beside what C prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from analysis.format import Table
from analysis.published import sources

HEADS = ("row", "quantity", "published", "recomputed", "difference", "agrees")


@dataclass(frozen=True)
class Line:
    """Numbers that C prints of one row, or none, beside what they are in float32."""

    row: int
    quantity: str
    found: Sequence[float]
    stated: Sequence[float] = ()
    digits: int = 3  # printed

    @property
    def wrong(self) -> list[int]:
        """Which printed numbers are off by more than one unit of their last digit."""
        apart = np.abs(np.subtract(self.stated, self.found[: len(self.stated)]))
        return [int(i) for i in np.flatnonzero(apart > 10.0**-self.digits * (1 + 1e-9))]

    def cells(self) -> tuple[str, ...]:
        """The line of the table; the worst difference, and a digit more of what was found."""
        if not self.stated:
            maximum, total = self.found
            return (str(self.row), self.quantity, "", f"{maximum:.1f}, {total:.6f}", "", "")
        worst = max((b - a for a, b in zip(self.stated, self.found, strict=True)), key=abs)
        more = self.digits + 1
        text, own = (
            " ".join(f"{value:.{digits}f}" for value in values)
            for values, digits in ((self.stated, self.digits), (self.found, more))
        )
        difference = f"{round(worst, more) + 0.0:+.{more}f}"  # no -0
        return (str(self.row), self.quantity, text, own, difference, "no" if self.wrong else "yes")


def blocks_of(given: Sequence[float], block: int) -> list[tuple[float, float, float]]:
    """The running maximum, the running sum and the block's own sum after each block of a row."""
    row, maximum, total, found = np.asarray(given, np.float32), np.float32(-np.inf), 0.0, []
    for start in range(0, row.size, block):
        part = row[start : start + block]
        new = max(maximum, part.max())
        added = np.exp(part - new).sum(dtype=np.float32)
        maximum, total = new, total * np.exp(maximum - new) + added
        found.append((float(maximum), float(total), float(added)))
    return found


@cache
def compared() -> tuple[Line, ...]:
    """Every number that C prints, row by row; of the first row the sums of its blocks too."""
    example, lines = sources()["C"].example, list[Line]()
    assert example is not None
    for index, given in enumerate(example.input):
        blocks, row = blocks_of(given, example.block), index + 1
        for number, (maximum, total, added) in enumerate(blocks):
            lines.append(Line(row, f"m, d after block {number + 1}", (maximum, total)))
            if index == 0:
                name = f"sum of block {number + 1}"
                lines.append(Line(row, name, [added], [example.block_sums[number]]))
        maximum, total, _ = blocks[-1]
        outputs = np.exp(np.asarray(given, np.float32) - maximum) / np.float32(total)
        printed = example.outputs[index]
        lines += [
            Line(row, "maximum", [maximum], [example.maxima[index]], 1),
            Line(row, "sum", [total], [example.sums[index]]),
            Line(row, "outputs", outputs.tolist(), printed),
            Line(row, "sum of outputs", [float(outputs.sum())], [example.row_sums[index]]),
            Line(row, "sum of printed outputs", [sum(printed)], [example.row_sums[index]]),
        ]
    return tuple(lines)


def confirmed(quantity: str) -> tuple[float, str]:
    """The share of the printed numbers of one quantity that are right.

    Returns:
        The share, and in words how many are right and which one is the first that is not.
    """
    lines = [one for one in compared() if one.quantity.rstrip("0123456789 ") == quantity]
    count = sum(len(one.stated) for one in lines)
    wrong = [(one, place) for one in lines for place in one.wrong]
    text = f"{count - len(wrong)} of {count} printed numbers"
    if wrong:
        one, at = wrong[0]
        text += f"; row {one.row} prints {one.stated[at]:g}, it is {one.found[at]:.{one.digits}f}"
    return 1 - len(wrong) / count, text


def example_table() -> Table:
    """The example recomputed, a line per number that C prints."""
    note = (
        "m and d are the running maximum and the running sum after each block, in float32. A "
        "number agrees within one unit of its last printed digit."
    )
    title = "C-ex: the worked example, recomputed"
    return Table(title, HEADS, [one.cells() for one in compared()], (note,))
