"""Time and bandwidth across dtypes: small multiples over N at M = 4096, one a dtype."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from matplotlib.axes import Axes

from analysis import style
from analysis.figure import flagged, slug
from analysis.figures.a_fig2 import WIDTHS
from analysis.lines import lines, variant_order
from analysis.load import Records
from analysis.palette import MUTED
from analysis.plate import Plate
from analysis.roofs import copy_roof, shade_l2
from analysis.selection import Query, Selection, select
from analysis.sheet import Sheet

DTYPES = ("float32", "float16", "bfloat16")
BESIDE = ("naive_script", "three_pass", "hybrid_whole", "hybrid_capped")
BOTTOM, HEIGHT, LEFT, ROOM = 0.205, 0.56, 0.073, 0.765  # shares of the canvas


@dataclass(frozen=True)
class Dtypes:
    """One quantity across dtypes.

    Attributes:
        id: The beginning of its files' names.
        title: What it shows, in a few words.
        y: The column drawn.
        label: Of the y axis.
        scale: Of the y axis, matplotlib's name.
        caption: One sentence: what it shows.
    """

    id: str
    title: str
    y: str
    label: str
    scale: str
    caption: str

    @property
    def needs(self) -> str:
        """Which rows it cannot do without, in one line."""
        return (
            f"{self.id} needs timed softmax rows of two or more of {', '.join(DTYPES)}, "
            "each at two or more N of one M, best M = 4096"
        )

    def plates(self, evidence: Records, frame: pd.DataFrame) -> list[Plate]:
        """A picture for each GPU that has two dtypes."""
        found = {gpu: views_of(frame, gpu) for gpu in sorted(frame["gpu"].unique())}
        return [self._plate(gpu, views) for gpu, views in found.items() if len(views) > 1]

    def _plate(self, gpu: str, views: Sequence[Selection]) -> Plate:
        first = views[0]
        subtitle = f"{first.card.name}  ·  M = {first.at}"
        seen = pd.concat([view.recorded for view in views])
        small = style.provenance(seen, first.card.name, first.timer, first.cache, flagged(*views))
        return Plate(f"{self.id}-{slug(gpu)}", self.title, subtitle, small,
                     lambda sheet: _draw(sheet, views, self), (7.2, 3.8), gpu)  # fmt: skip


def views_of(frame: pd.DataFrame, gpu: str) -> list[Selection]:
    """A view a dtype, of one M and one protocol: those of the first dtype that has any."""
    query = [Query(4096, dtype, sizes=WIDTHS, without=BESIDE) for dtype in DTYPES]
    views = [view for w in query if (view := select(frame, gpu, w)) and view.dtype == w.dtype]
    alike = [(view.at, view.timer, view.cache) for view in views]
    return [view for view, place in zip(views, alike, strict=True) if place == alike[0]]


def _draw(sheet: Sheet, views: Sequence[Selection], figure: Dtypes) -> None:
    width = ROOM / len(views)
    panels: list[Axes] = []
    for i, view in enumerate(views):
        place = (LEFT + i * width, BOTTOM, width - 0.018, HEIGHT)
        ax = sheet.add_axes(place, sharey=panels[0] if panels else None)
        panels.append(ax)
        ax.set_yscale(figure.scale)
        style.power_axis(ax, view, ticks=5)
        ax.set_xlim(right=view.sizes[-1] * 1.3)  # a narrow panel's last marker needs the room
        lines(ax, view, y=figure.y)
        copy_roof(ax, view, y=figure.y)
    if figure.scale == "linear":
        panels[0].set_ylim(0, None)
    for ax, view in zip(panels, views, strict=True):
        shade_l2(ax, view, height=0.945, told="fits in L2")
        style.value_axis(ax, "")
        ax.text(0, 1.03, view.dtype, transform=ax.transAxes, fontsize=8.5, fontweight="bold")
        ax.tick_params(labelleft=ax is panels[0])
    sheet.text(LEFT, 0.845, figure.label, fontsize=8, color=MUTED)
    _legend(sheet, panels)


def _legend(sheet: Sheet, panels: Sequence[Axes]) -> None:
    drawn = {
        str(line.get_label()): line
        for ax in panels
        for line in ax.get_lines()
        if not str(line.get_label()).startswith("_") and line.get_label() != "above roof"
    }
    names = sorted(drawn, key=variant_order)
    right = (LEFT + ROOM - 0.01, 0.785)
    sheet.legend([drawn[name] for name in names], names, loc="upper left", frameon=False,
                 fontsize=8, handlelength=1.6, bbox_to_anchor=right)  # fmt: skip


DTYPES_TIME = Dtypes(
    "dtypes_time",
    "Softmax time across dtypes",
    "time_us",
    "time, µs (lower is better)",
    "log",
    "Time against row width at M = 4096 in each dtype; half the bytes an element should halve it.",
)
DTYPES_BANDWIDTH = Dtypes(
    "dtypes_bandwidth",
    "Softmax bandwidth across dtypes",
    "effective_gbps",
    "effective bandwidth, GB/s = 2MN bytes / time",
    "linear",
    "Bandwidth against row width at M = 4096 in each dtype: a row stops fitting on chip at twice "
    "the width where an element has half the bytes.",
)
