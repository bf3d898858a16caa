"""C-ex: the worked example by a plain reference, block by block, beside C's numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from analysis.published import sources

HEADS = ("row", "quantity", "published", "recomputed", "difference", "agrees")


@dataclass(frozen=True)
class Line:
    """Numbers that C prints of one row, or none, beside the same in float32."""

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
        """The line of the table; the worst difference, and a digit more than is printed."""
        if not self.stated:
            maximum, total = self.found
            return (str(self.row), self.quantity, "", f"{maximum:.1f}, {total:.6f}", "", "")
        more = self.digits + 1
        worst = max(np.subtract(self.found, self.stated), key=abs)
        text = " ".join(f"{one:.{self.digits}f}" for one in self.stated)
        own = " ".join(f"{one:.{more}f}" for one in self.found)
        difference = f"{round(float(worst), more) + 0.0:+.{more}f}"  # no -0
        return (str(self.row), self.quantity, text, own, difference, "no" if self.wrong else "yes")


@cache
def compared() -> tuple[Line, ...]:
    """Every number that C prints, row by row; of the first row the sums of its blocks too."""
    example, lines = sources()["C"].example, list[Line]()
    assert example is not None
    size = example.block
    for index, given in enumerate(example.input):
        row, number = np.asarray(given, np.float32), index + 1
        for i, end in enumerate(range(size, row.size + 1, size)):
            maximum = row[:end].max()
            powers = np.exp(row[:end] - maximum)
            known = [float(maximum), float(powers.sum())]
            lines.append(Line(number, f"m, d after block {i + 1}", known))
            if index == 0:
                own, sums = float(powers[end - size :].sum()), [example.block_sums[i]]
                lines.append(Line(number, f"sum of block {i + 1}", [own], sums))
        maximum, total = known
        outputs, printed = (
            np.exp(row - np.float32(maximum)) / np.float32(total),
            example.outputs[index],
        )
        lines += [
            Line(number, "maximum", [maximum], [example.maxima[index]], 1),
            Line(number, "sum", [total], [example.sums[index]]),
            Line(number, "outputs", outputs.tolist(), printed),
            Line(number, "sum of outputs", [float(outputs.sum())], [example.row_sums[index]]),
            Line(number, "sum of printed outputs", [sum(printed)], [example.row_sums[index]]),
        ]
    return tuple(lines)


def confirmed(quantity: str) -> tuple[float, str]:
    """The share of the printed numbers of one quantity that are right.

    Returns:
        The share, and in words how many are right and the first that is not.
    """
    lines = [one for one in compared() if one.quantity.rstrip("0123456789 ") == quantity]
    count = sum(len(one.stated) for one in lines)
    wrong = [(one, place) for one in lines for place in one.wrong]
    text = f"{count - len(wrong)} of {count} printed numbers"
    if wrong:
        one, at = wrong[0]
        text += f"; row {one.row} prints {one.stated[at]:g}, it is {one.found[at]:.{one.digits}f}"
    return 1 - len(wrong) / count, text
