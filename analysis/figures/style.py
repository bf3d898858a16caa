"""How every picture looks: a colour and a marker per variant, one typeface, axes, their labels."""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import to_hex, to_rgb
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullLocator

from analysis.published import OPERATION

INK = "#22262b"
MUTED = "#6b7280"
FAINT = "#e8eaee"
BLUSH = "#fbe9e4"
MARGIN = 0.116  # inches left of a page's title
DOT = "  ·  "  # between the parts of a subtitle or of the small print
SIZES = MappingProxyType({"cols": "row width N, elements", "rows": "rows M"})
CACHES = MappingProxyType({"cold": "cold cache", "warm": "warm cache"})

# matplotlib's letter, or corners, 1 for a star, and degrees: a symbol would have to be text
Marker = str | tuple[int, int, int]


@dataclass(frozen=True)
class LineStyle:
    """How a variant is drawn: a colour and a matplotlib marker, empty for a line without."""

    color: str
    marker: Marker

    @property
    def size(self) -> float:
        """Points across, so that markers of every form weigh the same to the eye."""
        if isinstance(self.marker, tuple):
            return 7.4 if self.marker[1] else 6.6
        return {"*": 8.0, "P": 6.6, "X": 6.4, "d": 6.0, "D": 4.7, "s": 5.0}.get(self.marker, 5.6)

    @property
    def text_color(self) -> str:
        """Its colour a step towards ink, for text that stays legible where it is light."""
        (r, g, b), (x, y, z) = to_rgb(self.color), to_rgb(INK)
        return to_hex((0.62 * r + 0.38 * x, 0.62 * g + 0.38 * y, 0.62 * b + 0.38 * z))

    def dots(self, scale: float = 1.0, hollow: bool = False, **more: Any) -> dict[str, Any]:
        """What `Axes.plot` takes to draw its markers and no line; hollow ones are not wins."""
        face, edge = ("white", self.color) if hollow else (self.color, "white")
        form = {"marker": self.marker, "ms": scale * self.size}
        return {"ls": "", **form, "mfc": face, "mec": edge} | more


# Chosen by a search: under full sight and the three kinds of colour blindness any two stay 10 apart
# in CIELAB, and those that one figure draws 16; each stays near the hue that it always had. Each
# marker is used once, so that a figure survives a grey print. Markers that are similar belong to
# variants that no preset draws together.
STYLES: Mapping[str, LineStyle] = MappingProxyType(
    {
        "naive": LineStyle("#4a2a00", "s"),
        "naive_script": LineStyle("#c2a070", "D"),
        "torch": LineStyle("#e36a0a", "o"),
        "compiled": LineStyle("#feb41e", "^"),
        "three_pass": LineStyle("#fb74b4", "v"),
        "hybrid": LineStyle("#a1558a", "p"),
        "hybrid_whole": LineStyle("#4743cf", "<"),
        "hybrid_capped": LineStyle("#8538ad", ">"),
        "online": LineStyle("#329879", "X"),
        "fused": LineStyle("#3f78e2", "P"),
        "fused_row": LineStyle("#2bb1ef", "*"),
        "online_l2": LineStyle("#7cdd7c", (4, 1, 45)),
        "online_in_place": LineStyle("#12636c", (6, 1, 0)),
        "fused_multirow": LineStyle("#3e04ff", (5, 1, 180)),
        "cluster": LineStyle("#964b4b", (4, 1, 0)),
        "cluster_in_place": LineStyle("#9c6fb2", (4, 0, 0)),
        "cooperative": LineStyle("#e92bae", (3, 1, 270)),
        "auto": LineStyle("#c71f19", (8, 1, 0)),
        "compiled_max": LineStyle("#6c2b24", (5, 0, 180)),
        "liger": LineStyle("#8e924e", (3, 1, 180)),
        "flag_gems": LineStyle("#62dcb8", (3, 1, 90)),
        "quack": LineStyle("#b0ce60", (4, 0, 45)),
        "compiled_softmax": LineStyle("#580dcf", (7, 0, 0)),
        "helion": LineStyle("#7bb5c1", (5, 0, 0)),
        "copy": LineStyle("#3a3f47", "d"),
        "copy_triton": LineStyle("#8b929c", "h"),
    }
)
# Variants that look like another one, which no figure draws beside them: it is of one operation.
ALIKE: Mapping[str, str] = MappingProxyType(
    {
        "backward": "fused",
        "ce_backward_in_place": "online_in_place",
        "attention_naive_folded": "naive_script",
        "attention_torch_flash": "hybrid",
        "attention_flash": "fused",
    }
)
FURTHER_COLORS = ("#a50f3c", "#4d9221", "#5e3fbe", "#1b9aaa", "#e0526e", "#8a8d0f")
FURTHER_MARKERS: tuple[Marker, ...] = (
    *("H", "8"), (3, 1, 0), (7, 1, 0), (10, 1, 0), (6, 1, 30), (5, 1, 90)
)  # fmt: skip


def style_of(kernel: str) -> LineStyle:
    """The style of a variant, whichever others are drawn beside it.

    A variant that `STYLES` does not list gets one from its name alone, so it keeps it too.
    """
    known = _like(kernel)
    if known in STYLES:
        return STYLES[known]
    number = zlib.crc32(kernel.encode())
    color = FURTHER_COLORS[number % len(FURTHER_COLORS)]
    return LineStyle(color, FURTHER_MARKERS[number // 64 % len(FURTHER_MARKERS)])


@cache
def _like(kernel: str) -> str:
    """Whose style a kernel has: that of `ALIKE`, else ``ce_quack`` looks like `quack`.

    Of several variants whose names end it the longest counts.
    """
    if kernel in ALIKE:
        return ALIKE[kernel]
    known = [name for name in STYLES if kernel.endswith(f"_{name}") and kernel not in STYLES]
    return max(known, key=len, default=kernel)


def variant_order(variant: str) -> tuple[int, str]:
    """Sorts variants as `STYLES` lists their kernels, any others after them."""
    kernel = _like(re.split("[ ,]", variant)[0])
    return (list(STYLES).index(kernel) if kernel in STYLES else len(STYLES), variant)


def theme() -> Any:
    """Settings for ``matplotlib.rc_context``; the salt makes the ids of an SVG repeatable."""
    return dict(sns.axes_style("ticks")) | {
        "svg.hashsalt": "softmax-roofline",
        "font.family": "DejaVu Sans",  # matplotlib brings it
        "font.size": 8.5,
        "text.parse_math": False,  # a dollar in a recorded name is a dollar
        "axes.edgecolor": MUTED,
        "axes.labelcolor": INK,
        "axes.labelsize": 8.5,
        "axes.linewidth": 0.7,
        "text.color": INK,
        "xtick.color": MUTED,
        "ytick.color": MUTED,
        "xtick.labelcolor": INK,
        "ytick.labelcolor": INK,
        "xtick.labelsize": 8,
        "ytick.labelsize": 8,
        "xtick.major.size": 3,
        "ytick.major.size": 0,
        "grid.color": FAINT,
        "grid.linewidth": 0.7,
    }


def write(ax: Axes, x: float, y: float, text: str, size: float = 8.0, **more: Any) -> None:
    """Writes a text, by default a quiet one, at shares of the axes."""
    more = {"color": MUTED} | more
    ax.text(x, y, text, transform=ax.transAxes, fontsize=size, **more)


def ticks(axis: Axis, places: Iterable[float], text: Callable[[float], str]) -> None:
    """Puts ticks at ``places`` alone, each labelled by ``text``."""
    axis.set_major_locator(FixedLocator(list(places)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(lambda value, _: text(value))


def size_axis(ax: Axes, sizes: Sequence[int], over: str, most: int = 11) -> None:
    """A log2 x axis over ``sizes`` (ascending), with up to ``most`` ticks at powers of two.

    ``over`` is the column it shows, ``"cols"`` (N) or ``"rows"`` (M).
    """
    low, high = sizes[0], sizes[-1]
    ax.set_xscale("log", base=2)
    ax.set_xlim(low * (low / high) ** 0.03, high * (high / low) ** 0.015)  # room for a marker
    exponents = range(math.ceil(math.log2(max(low, 1))), math.floor(math.log2(high)) + 1)
    step = 1 + (len(exponents) - 1) // most
    ticks(ax.xaxis, [2.0**e for e in exponents[::step]], size_label)
    ax.set_xlabel(SIZES[over])


def value_axis(ax: Axes, label: str) -> None:
    """The y axis: named above it, a quiet grid, no spine to compete with the lines."""
    if ax.get_yscale() == "linear":
        ax.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    else:
        low, high = ax.get_ylim()
        ax.yaxis.set_major_locator(LogLocator(subs=(1,) if high > 300 * low else (1, 2, 5)))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    ax.set_ylabel("")
    write(ax, 0, 1.025, label)
    ax.grid(axis="y", zorder=0)
    ax.set_axisbelow(True)
    sns.despine(ax=ax, left=True)


def ratio_axis(ax: Axes, label: str) -> None:
    """A log2 y axis of ratios: twice as fast stands as far above 1 as half as fast below."""
    low, high = ax.get_ylim()
    ax.set_ylim(min(low, 0.93), max(high, 1.08))
    value_axis(ax, label)
    whole = [n for e in range(8) for n in (2**e, 3 * 2**e)]
    places = [*(1 / n for n in whole), *whole]
    ticks(ax.yaxis, places, lambda v: f"1/{1 / v:.0f}×" if v < 1 else f"{v:.0f}×")


def size_label(value: float) -> str:
    """A size as the field writes it: 512, 4K, 1M (binary)."""
    for unit, letter in ((2**20, "M"), (2**10, "K")):
        if value >= unit and value % unit == 0:
            return f"{value / unit:g}{letter}"
    return f"{value:g}"


def slug(gpu: str) -> str:
    """A device's name as part of a file name; a name without a Latin letter becomes a number."""
    name = re.sub(r"[^a-z0-9]+", "-", gpu.lower()).strip("-")
    return name or f"gpu-{zlib.crc32(gpu.encode()):08x}"


def file_name(stem: str, operation: str, *more: str) -> str:
    """A file's name without suffix: its operation is named but where it is softmax."""
    return "-".join([stem, *[slug(operation)] * (operation != OPERATION), *more])
