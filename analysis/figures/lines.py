"""Lines over a size: the variants, their bounds, and the numbers that the sources printed."""

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter

from analysis.figures import style
from analysis.load import Inputs
from analysis.published import name_of, sources
from analysis.selection import Query, Selection, select
from experiments.data.cards import datasheet_of

DASHES = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)))
DASHED, PALE_DASH, LEVEL_DASH = (0, (5, 2)), (0, (3, 2)), (0, (1.5, 1.5))
TIME_US, GBPS, ROOF_SHARE = "time_us", "effective_gbps", "fraction_of_roof"
LABELS = {
    TIME_US: "time, µs (lower is better)",
    GBPS: "effective bandwidth, GB/s: {moved} elements / time (higher is better)",
    ROOF_SHARE: "share of the roof (higher is better)",
}
MARK_ALL = 16  # points a line may have before their markers hide it
MOST_LINES = 32  # a panel has no room for the names of more


@dataclass(frozen=True)
class LineFigure:
    """A figure of lines over N or M: a picture for each GPU whose rows allow it.

    Unless ``log``, a bandwidth axis starts at 0. It is scaled to the rows and the datasheet, so
    that a source's numbers of a faster card do not squeeze it. A time axis is logarithmic and holds
    all numbers except the datasheet's floor.
    """

    id: str  # its file name, e.g. ``d_fig1``, by which its source's printed series is found
    title: str  # its subject in a few words
    query: Query  # the rows it draws
    y: str = GBPS  # the column drawn: one of `LABELS`
    log: bool = False  # whether a bandwidth axis is logarithmic
    levels: tuple[str, ...] = ()  # sources whose bandwidths without a size are drawn as levels
    note: str = ""  # a last line of small print, if the source's numbers are drawn
    caption: str = ""  # one sentence on its content, and on the source's figure it draws again
    source: str = ""  # the letter of that source, if any

    @property
    def needs(self) -> str:
        """The rows it cannot do without, in one line."""
        over, fixed = ("N", "M") if self.query.over == "cols" else ("M", "N")
        best = f"best {fixed} = {self.query.at} {self.query.dtype}"
        usual = f"timed {self.query.operation} rows of one {fixed} and dtype at two or more {over}"
        return f"{self.id} needs {usual}, {best}"

    def pages(self, inputs: Inputs) -> list[style.Page]:
        """A picture for each GPU whose rows allow it."""
        found = [select(inputs.main, gpu, self.query) for gpu in inputs.by_gpu]
        return [self.page(shown) for shown in found if shown and shown.own[self.y].notna().any()]

    def page(self, shown: Selection) -> style.Page:
        """The picture of some rows."""
        fixed, card = "M" if shown.query.over == "cols" else "N", datasheet_of(shown.gpu).name
        small = style.provenance(shown.recorded, card, shown.timer, shown.cache)
        if shown.own["above_roof"].any():
            small[-1] += f"{style.DOT}crossed out: faster than the roof, not a win"
        small += [self.note] if self.note and shown.exact else []
        subtitle = style.DOT.join([card, shown.dtype, f"{fixed} = {shown.at}"])
        name, operation = f"{self.id}-{style.slug(shown.gpu)}", self.query.operation
        draw, size = partial(self._draw, shown=shown), style.stacked_size(1)
        return style.Page(name, self.title, subtitle, small, draw, size, operation)

    def _draw(self, canvas: style.Canvas, shown: Selection) -> None:
        [ax] = style.stacked(canvas, 1)
        style.size_axis(ax, shown.sizes, shown.query.over)
        if self.log or self.y == TIME_US:
            ax.set_yscale("log")
        first, last = (_datasheet, self._claims) if self.y == GBPS else (self._claims, _datasheet)
        draw_lines(ax, shown, self.y)
        _roof(ax, shown, self.y)
        first(ax, shown, self.y)
        if self.y == ROOF_SHARE:  # the datasheet's line may leave the axes where launches bind
            ax.set_ylim(0, max(1.25, 1.04 * float(np.nanmax(shown.own[self.y]))))
        else:
            ax.set_ylim(ax.get_ylim()[0] if ax.get_yscale() == "log" else 0, ax.get_ylim()[1])
        last(ax, shown, self.y)
        _shade_l2(ax, shown)
        style.value_axis(ax, LABELS[self.y].format(moved=_matrices(shown)))
        if self.y == ROOF_SHARE:
            ax.yaxis.set_major_locator(MaxNLocator(8, steps=[1, 2, 5, 10]))
            ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        style.legend(ax)

    def _claims(self, ax: Axes, shown: Selection, y: str) -> None:
        """Draws the sources' numbers; they compare only with rows of their own shape and dtype.

        A printed series has open markers on pale dashes. A bandwidth of this dtype without a size
        is a dotted line, or a band between two.
        """
        if not shown.exact:
            return
        # C's `hybrid` ran as `hybrid_whole`: if rows have that, its numbers are drawn as that
        whole = {"hybrid": "hybrid_whole"} if "hybrid_whole" in set(shown.points["kernel"]) else {}
        if self.source and (printed := sources()[self.source].series.get(self.id)):
            for name, values in printed.kernels.items():
                kernel = whole.get(name, name)
                form = style.style_of(kernel)
                look = form.dots(hollow=True, mew=0.9, ls=PALE_DASH, color=form.color, zorder=2.6)
                look["label"] = f"{name_of(self.source)}: {kernel}"
                ax.plot(printed.sizes, values, lw=0.9, alpha=0.75, **look)
        for letter in (one for one in self.levels if sources()[one].dtype == shown.dtype):
            for one in sources()[letter].levels if y == GBPS else ():
                kernel = whole.get(one.kernel, one.kernel)
                ends = f"–{one.high:,g}" if one.low < one.high else "+" * (one.of == "floor")
                text = f"{name_of(letter)}: {kernel} {one.low:,g}{ends}"
                color = style.style_of(kernel).color
                ax.axhspan(one.low, one.high, color=color, alpha=0.13, lw=0, zorder=0.2)
                for i, end in enumerate(sorted({one.low, one.high})):
                    look = {"label": f"_{text}" if i else text, "ls": LEVEL_DASH, "zorder": 2.2}
                    _line(ax, shown, end, color=color, lw=1.0, alpha=0.8, **look)


def draw_lines(ax: Axes, shown: Selection, y: str) -> None:
    """Draws column ``y`` of every variant of the operation against a size.

    A line breaks where its variant has no valid time. The 95 % interval stands on every point.
    Points above the roof are taken out of the line, drawn open and crossed out.
    """
    own, x, drawn = shown.own, np.array(shown.sizes, dtype=float), Counter[str]()
    for variant in sorted(own["variant"].unique(), key=style.variant_order)[:MOST_LINES]:
        line = own[own["variant"] == variant].set_index(shown.query.over).reindex(shown.sizes)
        value = line[y].where(line["status"] == "ok").to_numpy(dtype=float)
        count = np.isfinite(value).sum()
        if not count:
            continue
        kernel = variant.split(" ")[0]
        form, dash = style.style_of(kernel), DASHES[drawn[kernel] % len(DASHES)]
        drawn[kernel] += 1
        above = line["above_roof"].eq(True).to_numpy()
        sparse = None if count <= MARK_ALL else 0.05  # distance of markers, as a share of the axes
        look = form.dots(ls=dash, lw=1.4, color=form.color, mew=0.6, zorder=3)
        ax.plot(x, np.where(above, np.nan, value), label=variant, markevery=sparse, **look)
        # the interval of the time, or of the rate computed from it
        ends = (line[end] / line[TIME_US] for end in ("time_low_us", "time_high_us"))
        low, high = (value * end if y == TIME_US else value / end for end in ends)
        ax.vlines(x, low, high, color=form.color, lw=1.0, zorder=2.5)
        if above.any():
            look = form.dots(hollow=True, mew=0.9)
            ax.plot(x[above], value[above], label="_above roof", zorder=3.2, **look)
            ax.plot(x[above], value[above], "x", ms=3.2, mec=style.INK, mew=0.7, zorder=3.3)


def _line(ax: Axes, shown: Selection, values: pd.Series | float, **look: Any) -> None:
    """Draws a line without markers over all sizes, where it has values."""
    ax.plot(shown.sizes, pd.Series(values, shown.sizes), **look)


def _roof(ax: Axes, shown: Selection, y: str) -> None:
    """Draws the measured bound: the best of any kernel of the roof at the same shape."""
    longest = y == ROOF_SHARE and shown.own["arithmetic_us"].notna().any()
    text = "longest roof" if longest else f"{shown.own['roof'].iloc[0]} roof"
    others = shown.points[shown.points["operation"] != shown.query.operation]
    best = others.groupby(shown.query.over)[y]
    known = 1.0 if y == ROOF_SHARE else best.max() if y == GBPS else best.min()
    _line(ax, shown, known, label=text, color=style.INK, lw=1.6, zorder=2.8)


def _datasheet(ax: Axes, shown: Selection, y: str) -> None:
    """Draws the datasheet's memory bandwidth, and shades times that would exceed it."""
    peak, own = datasheet_of(shown.gpu).peak_gbps, shown.own
    if peak is None:
        return
    known: pd.Series | float = float(peak)
    if y == ROOF_SHARE and own["arithmetic_us"].isna().all():
        known = peak / own.groupby(shown.query.over)["roof_gbps"].max()
    elif y == TIME_US and shown.moved:
        known = pd.Series(shown.sizes, shown.sizes, dtype=float) * shown.moved / peak / 1e3
        ax.fill_between(known.index, known, 1e-9, color=style.BLUSH, lw=0, zorder=0.1)
        style.write(ax, 0.985, 0.03, "faster than the card's memory", 6.5, ha="right")
    elif y != GBPS:
        return
    text = f"datasheet {peak:,.0f} GB/s"
    _line(ax, shown, known, label=text, color=style.MUTED, lw=1.0, ls=DASHED, zorder=2)


def _shade_l2(ax: Axes, shown: Selection) -> None:
    """Shades the sizes at which inputs and outputs fit in the card's L2; its label avoids lines."""
    size, each = datasheet_of(shown.gpu).l2_bytes, shown.moved
    if size is None or not each or size / each < shown.sizes[0]:
        return
    left, right = ax.get_xlim()
    edge = min(size / each, right)
    ax.axvspan(left, edge, color=style.FAINT, alpha=0.7, lw=0, zorder=0, label="fits in L2")
    text = f"{_matrices(shown)} fits in L2 ({size / 2**20:g} MiB)"
    drawn = ax.transData.transform(np.vstack([line.get_xydata() for line in ax.lines]))
    x, y = ax.transAxes.inverted().transform(drawn).T
    height = 0.02 if ((x < 0.3) & (y > 0.8) & (y < 0.95)).any() else 0.87
    style.write(ax, 0.012, height, text, 6.5, va="bottom")


def _matrices(shown: Selection) -> str:
    """The matrices that have to be moved: 2MN where one is read and one written."""
    return f"{shown.passes if shown.passes > 1 else ''}MN"
