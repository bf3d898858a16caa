"""How a verdict looks: a colour, a form, and its line in the legend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.comparison.verdicts import Compared
from analysis.palette import INK
from analysis.sheet import Sheet


@dataclass(frozen=True)
class Look:
    """Differences stand out, and differ by form as well as by colour."""

    color: str
    marker: str
    size: float
    hollow: bool = False


LOOKS = {
    "same": Look("#7d8794", "o", 2.4),
    "unclear": Look("#a08a4a", "o", 2.8, hollow=True),
    "faster": Look("#1f6fb4", "v", 4.4),
    "slower": Look("#d55e00", "^", 4.4),
    "failed": Look("#a50f3c", "X", 5.2),
    "fixed": Look("#00795c", "P", 5.2),
}


def legend(sheet: Sheet, found: Sequence[Compared], left: float, top: float, inch: float) -> None:
    """Writes how many points have each verdict, in one line that begins at (left, top)."""
    ax = sheet.add_axes((0, 0, 1, 1), zorder=5)
    ax.set_axis_off()
    ax.set(xlim=(0, 1), ylim=(0, 1))
    ax.patch.set_alpha(0)
    at = left
    for verdict in reversed(LOOKS):
        count = sum(one.verdict == verdict for one in found)
        if not count:
            continue
        look = LOOKS[verdict]
        face = "white" if look.hollow else look.color
        ax.plot([at + 0.04 * inch], [top], ls="", marker=look.marker, ms=look.size + 1, mfc=face,
                mec=look.color, mew=0.7)  # fmt: skip
        text = f"{verdict} {count:,}"
        ax.text(at + 0.13 * inch, top, text, fontsize=7.5, va="center", color=INK)
        at += (0.33 + 0.062 * len(text)) * inch
