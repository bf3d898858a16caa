"""How every picture looks: its page, a colour and a marker per variant, axes and their labels."""

import math
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from pathlib import Path
from types import MappingProxyType
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import seaborn as sns
import yaml
from matplotlib import figure
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullLocator

from analysis.load import Inputs, rows_hash
from analysis.published import OPERATION
from analysis.selection import TIMER_NAMES
from experiments.data.files import write_file

HERE = Path(__file__).parent
Canvas = figure.Figure
INK, MUTED, FAINT, BLUSH = "#22262b", "#6b7280", "#e8eaee", "#fbe9e4"
DOT = "  ·  "  # between the parts of a subtitle or of the small print
SIZES = MappingProxyType({"cols": "row width N, elements", "rows": "rows M"})
CACHES = MappingProxyType({"cold": "cold cache", "warm": "warm cache"})
DPI = 240  # dots an inch
WIDTH = 6.6  # inches: the lines, and room for their names beside them
MARGIN = 0.116  # inches left of a page's title
LEFT, WIDE = 0.078, 0.567  # of the axes; labels stand right of them
ABOVE, BELOW, BETWEEN = 0.67, 0.81, 0.56  # inches above, below and between axes
ALONE, STACKED = 2.42, 1.85  # inches: the height of a panel
ROOM, MOST_NAMES = 30, 16  # characters and lines that fit right of the axes
# Points: marker sizes, chosen so that markers of all forms look equally large.
ACROSS = {"*": 8.0, "P": 6.6, "X": 6.4, "d": 6.0, "D": 4.7, "s": 5.0}
Marker = str | tuple[int, int, int]  # of matplotlib


@dataclass(frozen=True)
class Page:
    """One picture."""

    name: str  # of its files, without suffix
    title: str  # its subject in a few words
    subtitle: str  # GPU, dtype and shape
    small: Sequence[str]  # the small print, at most three lines
    draw: Callable[[Canvas], None]  # adds the axes, and leaves room above and below for the texts
    size: tuple[float, float]  # inches
    operation: str = OPERATION

    def render(self, texts: bool = True) -> Canvas:
        """Draws the picture on a new canvas, with title and small print; call it in `theme`."""
        canvas = Canvas(figsize=self.size, facecolor="white")
        if texts:
            left, inch = MARGIN / self.size[0], 1 / self.size[1]
            canvas.text(left, 1 - 0.21 * inch, self.title, fontsize=11, fontweight="bold")
            canvas.text(left, 1 - 0.39 * inch, self.subtitle, fontsize=8.5, color=MUTED)
            for i, line in enumerate(reversed(self.small)):
                canvas.text(left, (0.065 + 0.107 * i) * inch, line, fontsize=5.6, color=MUTED)
        self.draw(canvas)
        return canvas

    def files(self, out: Path) -> list[Path]:
        """Writes ``<name>.svg`` and ``.png``, the same bytes every time; returns their paths."""
        texts: dict[str, Any] = {"Title": f"{self.name}: {self.title}"}
        texts["Description"] = "\n".join([self.subtitle, *self.small])
        made = []
        with matplotlib.rc_context(theme()):
            canvas = self.render()
            for kind, undated in (("svg", {"Date": None}), ("png", {})):
                file = BytesIO()
                canvas.savefig(file, format=kind, dpi=DPI, metadata=texts | undated)
                made.append(write_file(out / f"{self.name}.{kind}", file.getvalue()))
        return made


@dataclass(frozen=True)
class Figure:
    """A figure of the catalogue that is not lines over a size."""

    id: str  # the beginning of its files' names
    needs: str  # the rows or records that it cannot do without, in one line
    pages: Callable[[Inputs], list[Page]]  # none where the rows do not allow any
    caption: str  # one sentence on its content, and on the source's figure that it draws again
    source: str = ""  # the letter of that source, if any


def stacked_size(count: int) -> tuple[float, float]:
    """The size of a page with this many panels above each other, inches."""
    each = ALONE if count == 1 else STACKED
    return WIDTH, ABOVE + BELOW + count * each + (count - 1) * BETWEEN


def stacked(canvas: Canvas, count: int) -> list[Axes]:
    """The axes of ``count`` panels on a page of `stacked_size`, from the top."""
    height, each = canvas.get_figheight(), ALONE if count == 1 else STACKED
    bottoms = [BELOW + i * (each + BETWEEN) for i in reversed(range(count))]
    return [canvas.add_axes((LEFT, one / height, WIDE, each / height)) for one in bottoms]


def provenance(rows: pd.DataFrame, card: str, timer: str, cache: str) -> list[str]:
    """The origin of ``rows`` of one card and protocol, two lines of small print."""
    environments = list({id(one): one for one in rows["environment"]}.values())

    def values_of(name: str) -> str:
        values = [str(one[name]) for one in environments if one.get(name) is not None]
        return "/".join(dict.fromkeys("".join(filter(str.isprintable, v))[:12] for v in values))

    known = [(name, values_of(name)) for name in ("torch", "triton", "driver")]
    versions = [f"{name} {value}" for name, value in known if value]
    protocol = f"median, 95 % interval; {TIMER_NAMES.get(timer, timer)}, {CACHES[cache]}"
    edited = " (edited)" if "True" in values_of("dirty") else ""
    commit = f"commit {values_of('commit') or 'unknown'}{edited}"
    return [
        DOT.join([card, protocol, *versions]),
        DOT.join([commit, f"rows {rows_hash(rows)} ({len(rows)})"]),
    ]


@dataclass(frozen=True)
class LineStyle:
    """How a variant is drawn: a colour and a matplotlib marker."""

    color: str
    marker: Marker

    @property
    def size(self) -> float:
        """The size of the marker, points."""
        if isinstance(self.marker, tuple):
            return 7.4 if self.marker[1] else 6.6
        return ACROSS.get(self.marker, 5.6)

    def dots(self, scale: float = 1.0, hollow: bool = False, **more: Any) -> dict[str, Any]:
        """The arguments of `Axes.plot` that draw its markers without a line."""
        face, edge = ("white", self.color) if hollow else (self.color, "white")
        form = {"marker": self.marker, "ms": scale * self.size}
        return {"ls": "", **form, "mfc": face, "mec": edge} | more


def _read(color: str, marker: str | list[int]) -> LineStyle:
    return LineStyle(color, marker if isinstance(marker, str) else tuple(marker))  # type: ignore


_FILE: Mapping[str, Any] = yaml.safe_load((HERE / "styles.yaml").read_text(encoding="utf-8"))
STYLES: Mapping[str, LineStyle] = MappingProxyType(
    {name: _read(*style) for name, style in _FILE["styles"].items()}
)


def style_of(kernel: str) -> LineStyle:
    """The style of a variant, the same in every figure.

    If `STYLES` does not list a variant, its name decides its style.
    """
    known, colors, markers = _like(kernel), _FILE["colors"], _FILE["markers"]
    number = zlib.crc32(kernel.encode())
    other = colors[number % len(colors)], markers[number // 64 % len(markers)]
    return STYLES[known] if known in STYLES else _read(*other)


@cache
def _like(kernel: str) -> str:
    """The listed variant that a kernel looks like: ``ce_quack`` looks like `quack`."""
    known = [name for name in STYLES if kernel.endswith(f"_{name}") and kernel not in STYLES]
    return str(_FILE["alike"].get(kernel, max(known, key=len, default=kernel)))


def variant_order(variant: str) -> tuple[int, str]:
    """The sort key of variants: as `STYLES` lists their kernels, any others after them."""
    kernel = _like(re.split("[ ,]", variant)[0])
    return (list(STYLES).index(kernel) if kernel in STYLES else len(STYLES), variant)


def ordered(frame: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """Lines sorted by these columns, then by their variants as figures list them."""
    order = frame.assign(_order=frame["variant"].map(variant_order))
    return frame.loc[order.sort_values([*columns, "_order"], kind="stable").index]


def protocol(timer: str, cache: str) -> str:
    """How times were taken, in words."""
    return f"{TIMER_NAMES.get(timer, timer)}, {CACHES.get(cache, cache)}"


def theme() -> Any:
    """Settings for ``matplotlib.rc_context``."""
    own = matplotlib.rc_params_from_file(HERE / "house.mplstyle", use_default_template=False)
    return dict(sns.axes_style("ticks")) | dict(own)


def write(ax: Axes, x: float, y: float, text: str, size: float = 8.0, **more: Any) -> None:
    """Writes a text, by default a muted one; x and y are shares of the axes."""
    ax.text(x, y, text, transform=ax.transAxes, fontsize=size, **{"color": MUTED} | more)


def legend(ax: Axes) -> None:
    """Lists the lines' names right of the axes, in the order of their right ends, from the top.

    A line that ends above the axes, such as numbers of a faster card, gets an arrow.
    """
    ends = {}
    for line in ax.get_lines():
        known = np.asarray(line.get_ydata(), dtype=float)
        if (known := known[np.isfinite(known)]).size and not str(line.get_label()).startswith("_"):
            ends[line] = float(known[-1])
    order, top = sorted(ends, key=lambda line: -ends[line]), ax.get_ylim()[1]
    names = [str(line.get_label()) + " ↑" * bool(ends[line] > top) for line in order]
    size = 8 * min(1.0, MOST_NAMES / max(1, len(names)), *(ROOM / len(name) for name in names))
    place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.06)}
    ax.legend(order, names, fontsize=size, handlelength=1.6, frameon=False, **place)


def ticks(axis: Axis, places: Iterable[float], text: Callable[[float], str]) -> None:
    """Puts ticks only at ``places``, each labelled by ``text``."""
    axis.set_major_locator(FixedLocator(list(places)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(lambda value, _: text(value))


def size_axis(ax: Axes, sizes: Sequence[int], over: str) -> None:
    """A log2 x axis over ``sizes`` (ascending), with up to eleven ticks at powers of two.

    ``over`` is the column it shows, ``"cols"`` (N) or ``"rows"`` (M).
    """
    low, high = sizes[0], sizes[-1]
    ax.set_xscale("log", base=2)
    ax.set_xlim(low * (low / high) ** 0.03, high * (high / low) ** 0.015)  # room for a marker
    exponents = range(math.ceil(math.log2(max(low, 1))), math.floor(math.log2(high)) + 1)
    step = 1 + (len(exponents) - 1) // 11
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
    """A file's name without suffix; it has the operation, unless that is softmax."""
    return "-".join([stem, *[slug(operation)] * (operation != OPERATION), *more])
