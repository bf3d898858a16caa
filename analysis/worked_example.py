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
    printed, lines = sources()["C"].example, list[Line]()
    for row, given in enumerate(np.array(printed["input"], np.float32)):
        maximum, total = np.float32(-np.inf), np.float32(0)
        for i, part in enumerate(given.reshape(-1, printed["block"])):
            old, maximum = maximum, max(maximum, part.max())
            total = total * np.exp(old - maximum) + np.exp(part - maximum).sum()
            known = [float(maximum), float(total)]
            lines.append(Line(row + 1, f"m, d after block {i + 1}", known))
            if row == 0:
                own, sums = [float(np.exp(part - given.max()).sum())], [printed["block_sums"][i]]
                lines.append(Line(1, f"sum of block {i + 1}", own, sums))
        outputs = (np.exp(given - maximum) / total).tolist()
        stated, one = printed["outputs"][row], [printed["row_sums"][row]]
        lines += [
            Line(row + 1, "maximum", [float(maximum)], [printed["maxima"][row]], 1),
            Line(row + 1, "sum", [float(total)], [printed["sums"][row]]),
            Line(row + 1, "outputs", outputs, stated),
            Line(row + 1, "sum of outputs", [sum(outputs)], one),
            Line(row + 1, "sum of printed outputs", [sum(stated)], one),
        ]
    return tuple(lines)
