"""What sources state without a size: a bandwidth or a ratio, as a dashed line or a band."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from matplotlib.axes import Axes

from analysis.margin import Name
from analysis.palette import Look, look_of
from analysis.published import Level, sources
from analysis.selection import Selection

DASH = (0, (1.5, 1.5))
NO_NAMES: Mapping[str, str] = MappingProxyType({})


def bandwidths(
    ax: Axes, view: Selection, *letters: str, names: Mapping[str, str] = NO_NAMES
) -> list[Name]:
    """Draws the GB/s that sources claim, where the view holds the shape and dtype meant.

    Args:
        ax: Where to.
        view: The rows beside it.
        letters: The sources.
        names: Kernels that go by another name here.
    """
    drawn = []
    for letter in letters:
        source = sources()[letter]
        if not view.exact or source.dtype != view.dtype:
            continue
        for level in source.levels:
            if level.quantity == "effective_gbps":
                kernel = names.get(level.kernel, level.kernel)
                text = f"{letter}: {kernel} {_ends(level)}"
                drawn.append(_level(ax, view, kernel, level.low, level.high, text))
    return drawn


def ratios(ax: Axes, view: Selection, *letters: str, over: Iterable[str]) -> list[Name]:
    """Draws the ratios that sources claim over these kernels, for the dtype that they mean."""
    bases, names = set(over), []
    for source in (sources()[letter] for letter in letters):
        if view.exact and source.dtype == view.dtype:
            for ratio in source.ratios:
                if ratio.over in bases:
                    ends = ratio.low, ratio.high
                    names.append(_level(ax, view, ratio.kernel, *ends, ratio.said))
    return names


def reachable(ax: Axes, names: Sequence[Name]) -> list[Name]:
    """Names of what stands above the axes' top, said so: published numbers of a faster card."""
    top = ax.get_ylim()[1]
    return [
        replace(name, text=f"{name.text} ↑", y=top, whole=False) if name.y > top else name
        for name in names
    ]


def _level(ax: Axes, view: Selection, kernel: str, low: float, high: float, text: str) -> Name:
    color = look_of(kernel).color
    if low < high:
        ax.axhspan(low, high, color=color, alpha=0.13, lw=0, zorder=0.2, label=text)
        for end in (low, high):
            ax.axhline(end, color=color, lw=0.7, ls=DASH, alpha=0.8, zorder=2.2)
    else:
        ax.axhline(low, color=color, lw=1.1, ls=DASH, alpha=0.9, zorder=2.2, label=text)
    return Name(text, view.sizes[-1], (low + high) / 2, Look(color, ""))


def _ends(level: Level) -> str:
    if level.low < level.high:
        return f"{level.low:,g}–{level.high:,g}"
    return f"{level.low:,g}" + ("+" if level.of == "floor" else "")
