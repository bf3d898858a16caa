"""How every picture looks: a colour and a marker per variant, one typeface, axes, their labels."""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import matplotlib
import seaborn as sns
import yaml
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import to_hex, to_rgb
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullLocator

from analysis.published import OPERATION

HERE = Path(__file__).parent
INK, MUTED, FAINT, BLUSH = "#22262b", "#6b7280", "#e8eaee", "#fbe9e4"
MARGIN = 0.116  # inches left of a page's title
DOT = "  ·  "  # between the parts of a subtitle or of the small print
SIZES = MappingProxyType({"cols": "row width N, elements", "rows": "rows M"})
CACHES = MappingProxyType({"cold": "cold cache", "warm": "warm cache"})
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
        """The arguments of `Axes.plot` that draw its markers without a line."""
        face, edge = ("white", self.color) if hollow else (self.color, "white")
        form = {"marker": self.marker, "ms": scale * self.size}
        return {"ls": "", **form, "mfc": face, "mec": edge} | more


def _marker(read: str | list[int]) -> Any:
    return read if isinstance(read, str) else tuple(read)


_READ: Mapping[str, Any] = yaml.safe_load((HERE / "styles.yaml").read_text(encoding="utf-8"))
STYLES: Mapping[str, LineStyle] = MappingProxyType(
    {name: LineStyle(color, _marker(marker)) for name, (color, marker) in _READ["styles"].items()}
)


def style_of(kernel: str) -> LineStyle:
    """The style of a variant, whichever others are drawn beside it.

    A variant that `STYLES` does not list gets one from its name alone, so it keeps it too.
    """
    known = _like(kernel)
    if known in STYLES:
        return STYLES[known]
    number, colors, markers = zlib.crc32(kernel.encode()), _READ["colors"], _READ["markers"]
    return LineStyle(colors[number % len(colors)], _marker(markers[number // 64 % len(markers)]))


@cache
def _like(kernel: str) -> str:
    """The variant that a kernel looks like: ``ce_quack`` looks like `quack`.

    Of several variants whose names end it the longest counts.
    """
    if kernel in _READ["alike"]:
        return str(_READ["alike"][kernel])
    known = [name for name in STYLES if kernel.endswith(f"_{name}") and kernel not in STYLES]
    return max(known, key=len, default=kernel)


def variant_order(variant: str) -> tuple[int, str]:
    """Sorts variants as `STYLES` lists their kernels, any others after them."""
    kernel = _like(re.split("[ ,]", variant)[0])
    return (list(STYLES).index(kernel) if kernel in STYLES else len(STYLES), variant)


def theme() -> Any:
    """Settings for ``matplotlib.rc_context``."""
    own = matplotlib.rc_params_from_file(HERE / "house.mplstyle", use_default_template=False)
    return dict(sns.axes_style("ticks")) | dict(own)


def write(ax: Axes, x: float, y: float, text: str, size: float = 8.0, **more: Any) -> None:
    """Writes a text, by default a quiet one, at shares of the axes."""
    ax.text(x, y, text, transform=ax.transAxes, fontsize=size, **{"color": MUTED} | more)


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
