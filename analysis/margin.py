"""Names of lines, written beside their ends in the right margin instead of a legend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes

from analysis.palette import Look

LEADER, MARK, TEXT = 1.035, 1.055, 1.08  # where they begin, in widths of the axes
LONGEST = 28  # letters; more of them could not be read in the room there is


@dataclass(frozen=True)
class Name:
    """A line's name at its last point.

    Attributes:
        text: What is written.
        x: Where the line ends, in data coordinates.
        y: How high it ends there.
        look: Of the line; an empty marker for a line without.
        hollow: Whether the marker is drawn open.
        whole: Whether the line reaches the end of the axis; only then a leader joins them.
    """

    text: str
    x: float
    y: float
    look: Look
    hollow: bool = False
    whole: bool = True


def write_names(ax: Axes, names: Sequence[Name], gap: float = 0.062) -> None:
    """Writes every name near its line's end, as near as ``gap`` (share of the height) allows."""
    to_axes = ax.transData + ax.transAxes.inverted()
    ends = [to_axes.transform((name.x, name.y)) for name in names]
    heights = spread([float(end[1]) for end in ends], gap)
    for name, end, height in zip(names, ends, heights, strict=True):
        look = name.look
        across: dict[str, Any] = {"transform": ax.transAxes, "clip_on": False}
        if name.whole:
            ax.plot(
                [end[0], LEADER], [end[1], height], color=look.color, lw=0.5, alpha=0.6, **across
            )
        if look.marker:
            face, edge = ("white", look.color) if name.hollow else (look.color, "white")
            ax.plot([MARK], [height], ls="", marker=look.marker, ms=look.size, mfc=face,
                    mec=edge, mew=0.8, **across)  # fmt: skip
        text = name.text if len(name.text) <= LONGEST else name.text[: LONGEST - 1] + "…"
        size = 8 * min(1.0, 18 / len(text))  # a name with its tunables still has to fit
        start = TEXT if look.marker else LEADER + 0.012
        ax.text(start, height, text, va="center", fontsize=size, color=look.text_color, **across)


def spread(wanted: Sequence[float], gap: float) -> list[float]:
    """The nearest heights (least squares) in the same order that lie at least ``gap`` apart.

    They stay within 0 and 1 where they all fit. Heights less the gaps below them need only be
    non-decreasing, which is isotonic regression: neighbours out of order share their mean.
    """
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    blocks: list[list[float]] = []
    for rank, i in enumerate(order):
        blocks.append([wanted[i] - rank * gap])
        while len(blocks) > 1 and _mean(blocks[-2]) > _mean(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    room = max(0.0, 1 - gap * (len(wanted) - 1))
    levels = [min(max(_mean(block), 0.0), room) for block in blocks for _ in block]
    heights = [0.0] * len(wanted)
    for rank, i in enumerate(order):
        heights[i] = levels[rank] + rank * gap
    return heights


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
