"""Small multiples: the same lines over N in a panel per dtype, or in a panel per kind of GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd
from matplotlib.axes import Axes

from analysis.figures.draw import copy_roof, draw_panel, flagged, lines, shade_l2
from analysis.figures.page import Canvas, Page, provenance
from analysis.figures.specs import BANDWIDTH, D_FIG1, TIME, WIDTHS
from analysis.figures.style import (
    DOT,
    INK,
    MUTED,
    marker_legend,
    size_axis,
    slug,
    value_axis,
    variant_order,
)
from analysis.load import Records
from analysis.selection import Query, Selection, select

DTYPES = ("float32", "float16", "bfloat16")
NOT_DRAWN = ("naive_script", "three_pass", "hybrid_whole", "hybrid_capped")
BOTTOM, HEIGHT, LEFT, ROOM = 0.205, 0.56, 0.073, 0.765  # of the dtypes' panels, canvas shares
GPU_LEFT, GPU_PANEL, GPU_GAP, GPU_RIGHT = 0.52, 2.9, 0.14, 0.12  # of the GPUs' panels, inches
GPU_HEIGHT, ABOVE, BELOW = 3.9, 1.14, 0.8  # inches; above and below are what words take


@dataclass(frozen=True)
class ByDtype:
    """One quantity over N in a panel per dtype, on one axis.

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

    def plates(self, records: Records, frame: pd.DataFrame) -> list[Page]:
        """A picture for each GPU that has two dtypes."""
        found = {gpu: _dtypes_of(frame, gpu) for gpu in sorted(frame["gpu"].unique())}
        return [self._page(gpu, several) for gpu, several in found.items() if len(several) > 1]

    def _page(self, gpu: str, several: Sequence[Selection]) -> Page:
        first = several[0]
        subtitle = DOT.join([first.card.name, f"M = {first.at}"])
        rows = pd.concat([shown.recorded for shown in several])
        small = provenance(rows, first.card.name, first.timer, first.cache, flagged(*several))
        return Page(f"{self.id}-{slug(gpu)}", self.title, subtitle, small,
                    lambda canvas: self._draw(canvas, several), (7.2, 3.8), gpu)  # fmt: skip

    def _draw(self, canvas: Canvas, several: Sequence[Selection]) -> None:
        width = ROOM / len(several)
        panels: list[Axes] = []
        for i, shown in enumerate(several):
            place = (LEFT + i * width, BOTTOM, width - 0.018, HEIGHT)
            ax = canvas.add_axes(place, sharey=panels[0] if panels else None)
            panels.append(ax)
            ax.set_yscale(self.scale)
            size_axis(ax, shown.sizes, shown.query.over, ticks=5)
            ax.set_xlim(right=shown.sizes[-1] * 1.3)  # a narrow panel's last marker needs the room
            lines(ax, shown, y=self.y)
            copy_roof(ax, shown, y=self.y)
        if self.scale == "linear":
            panels[0].set_ylim(0, None)
        for ax, shown in zip(panels, several, strict=True):
            shade_l2(ax, shown, height=0.945, caption="fits in L2")
            value_axis(ax, "")
            ax.text(0, 1.03, shown.dtype, transform=ax.transAxes, fontsize=8.5, fontweight="bold")
            ax.tick_params(labelleft=ax is panels[0])
        canvas.text(LEFT, 0.845, self.label, fontsize=8, color=MUTED)
        drawn = {
            str(line.get_label()): line
            for ax in panels
            for line in ax.get_lines()
            if not str(line.get_label()).startswith("_") and line.get_label() != "above roof"
        }
        names = sorted(drawn, key=variant_order)
        right = (LEFT + ROOM - 0.01, 0.785)
        canvas.legend([drawn[name] for name in names], names, loc="upper left", frameon=False,
                      fontsize=8, handlelength=1.6, bbox_to_anchor=right)  # fmt: skip


def _dtypes_of(frame: pd.DataFrame, gpu: str) -> list[Selection]:
    """A selection per dtype, of one M and one protocol: those of the first dtype that has any."""
    queries = [Query(4096, dtype, sizes=WIDTHS, without=NOT_DRAWN) for dtype in DTYPES]
    several = [
        shown
        for query in queries
        if (shown := select(frame, gpu, query)) and shown.dtype == query.dtype
    ]
    alike = [(shown.at, shown.timer, shown.cache) for shown in several]
    return [shown for shown, place in zip(several, alike, strict=True) if place == alike[0]]


@dataclass(frozen=True)
class ByGpu:
    """D-fig1 of all kinds of GPU whose rows allow it at one shape, dtype and protocol."""

    id: str = "d_fig1_gpus"
    caption: str = (
        "D-fig1 on every kind of GPU that the rows are of, a panel a kind, on one axis of GB/s."
    )
    needs: str = "d_fig1_gpus needs the rows of d_fig1 of two or more kinds of GPU"

    def plates(self, records: Records, frame: pd.DataFrame) -> list[Page]:
        """One picture, none where there are not two kinds of GPU measured alike."""
        found = [select(frame, gpu, D_FIG1.query) for gpu in sorted(frame["gpu"].unique())]
        several = [shown for shown in found if shown is not None]
        # panels on one axis must show the same; most often all do
        places = [(shown.at, shown.dtype, shown.timer, shown.cache) for shown in several]
        most = max(places, key=places.count, default=None)
        alike = [shown for shown, place in zip(several, places, strict=True) if place == most]
        return [self._page(alike)] if len(alike) > 1 else []

    def _page(self, several: Sequence[Selection]) -> Page:
        first, cards = several[0], " / ".join(shown.card.name for shown in several)
        width = GPU_LEFT + GPU_RIGHT + GPU_PANEL * len(several) + GPU_GAP * (len(several) - 1)
        rows = pd.concat([shown.recorded for shown in several])
        small = provenance(rows, cards, first.timer, first.cache, flagged(*several))
        subtitle = DOT.join([first.dtype, f"M = {first.at}", BANDWIDTH])
        return Page(self.id, D_FIG1.title, subtitle, small,
                    lambda canvas: self._draw(canvas, several, width),
                    (width, GPU_HEIGHT))  # fmt: skip

    def _draw(self, canvas: Canvas, several: Sequence[Selection], width: float) -> None:
        panels: list[Axes] = []
        for i, shown in enumerate(several):
            left = (GPU_LEFT + i * (GPU_PANEL + GPU_GAP)) / width
            tall = 1 - (ABOVE + BELOW) / GPU_HEIGHT
            ax = canvas.add_axes((left, BELOW / GPU_HEIGHT, GPU_PANEL / width, tall))
            size_axis(ax, shown.sizes, shown.query.over, ticks=7)
            [panel] = D_FIG1.panels
            draw_panel(ax, shown, replace(panel, label=shown.card.name, levels=()))
            ax.texts[-1].set(fontsize=9, color=INK, fontweight="bold")
            panels.append(ax)
        top = max(ax.get_ylim()[1] for ax in panels)
        for ax in panels:
            ax.set_ylim(0, top)
            if ax is not panels[0]:
                ax.tick_params(axis="y", labelleft=False)
        points = pd.concat([shown.points for shown in several])
        timed = set(points["kernel"][points["time_us"] > 0].astype(str))
        drawn = sorted((v for v in timed if not v.startswith("copy")), key=variant_order)
        marker_legend(canvas, drawn, (width, GPU_HEIGHT))
        roofs = "solid: copy roof  ·  dashed: datasheet"
        canvas.text(1 - GPU_RIGHT / width, 1 - 0.39 / GPU_HEIGHT, roofs, fontsize=7.2, color=MUTED,
                    ha="right")  # fmt: skip


DTYPES_TIME = ByDtype(
    "dtypes_time",
    "Softmax time across dtypes",
    "time_us",
    TIME,
    "log",
    "Time against row width at M = 4096 in each dtype; half the bytes an element should halve it.",
)
DTYPES_BANDWIDTH = ByDtype(
    "dtypes_bandwidth",
    "Softmax bandwidth across dtypes",
    "effective_gbps",
    BANDWIDTH,
    "linear",
    "Bandwidth against row width at M = 4096 in each dtype: a row stops fitting on chip at twice "
    "the width where an element has half the bytes.",
)
D_FIG1_GPUS = ByGpu()
