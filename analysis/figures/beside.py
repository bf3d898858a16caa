"""D-fig1 of several kinds of GPU: a panel a kind, beside each other, on one axis of GB/s."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from matplotlib.axes import Axes

from analysis import style
from analysis.figure import flagged
from analysis.figures.bandwidth import LABEL, bandwidth
from analysis.figures.d_fig1 import D_FIG1
from analysis.figures.limits_dots import legend
from analysis.lines import variant_order
from analysis.load import Records
from analysis.palette import INK, MUTED
from analysis.plate import Plate
from analysis.selection import Selection, select
from analysis.sheet import Sheet

LEFT, PANEL, GAP, RIGHT = 0.52, 2.9, 0.14, 0.12  # inches across
HEIGHT, ABOVE, BELOW = 3.9, 1.14, 0.8  # inches; above and below are what words take
DOT = "  ·  "


@dataclass(frozen=True)
class Beside:
    """One picture of all kinds of GPU whose rows allow D-fig1 at one shape, dtype and protocol."""

    id: str = "d_fig1_gpus"
    caption: str = (
        "D-fig1 on every kind of GPU that the rows are of, a panel a kind, on one axis of GB/s."
    )
    needs: str = "d_fig1_gpus needs the rows of d_fig1 of two or more kinds of GPU"

    def plates(self, evidence: Records, frame: pd.DataFrame) -> list[Plate]:
        """One picture, none where there are not two kinds of GPU measured alike."""
        found = [select(frame, gpu, D_FIG1.query) for gpu in sorted(frame["gpu"].unique())]
        views = [view for view in found if view is not None]
        # panels on one axis must show the same; most often all do
        alike = max(
            ([v for v in views if _place(v) == _place(one)] for one in views), key=len, default=[]
        )
        return [_plate(self.id, alike)] if len(alike) > 1 else []


def _place(view: Selection) -> tuple[int, str, str, str]:
    return view.at, view.dtype, view.timer, view.cache


def _plate(name: str, views: Sequence[Selection]) -> Plate:
    first, cards = views[0], " / ".join(view.card.name for view in views)
    size = (LEFT + RIGHT + PANEL * len(views) + GAP * (len(views) - 1), HEIGHT)
    rows = pd.concat([view.recorded for view in views])
    small = style.provenance(rows, cards, first.timer, first.cache, flagged(*views))
    told = DOT.join([first.dtype, f"M = {first.at}", LABEL])
    return Plate(name, D_FIG1.title, told, small, lambda sheet: _draw(sheet, views, size), size)


def _draw(sheet: Sheet, views: Sequence[Selection], size: tuple[float, float]) -> None:
    width, height = size
    panels: list[Axes] = []
    for i, view in enumerate(views):
        left = (LEFT + i * (PANEL + GAP)) / width
        tall = 1 - (ABOVE + BELOW) / height
        ax = sheet.add_axes((left, BELOW / height, PANEL / width, tall))
        style.power_axis(ax, view, ticks=7)
        bandwidth(ax, view)
        ax.texts[-1].set_text(view.card.name)  # the axis is named once, below the title
        ax.texts[-1].set(fontsize=9, color=INK, fontweight="bold")
        panels.append(ax)
    top = max(ax.get_ylim()[1] for ax in panels)
    for ax in panels:
        ax.set_ylim(0, top)
        if ax is not panels[0]:
            ax.tick_params(axis="y", labelleft=False)
    drawn = {str(v) for view in views for v in view.points["kernel"][view.points["time_us"] > 0]
             if not str(v).startswith("copy")}  # fmt: skip
    legend(sheet, sorted(drawn, key=variant_order), size)
    roofs = "solid: copy roof  ·  dashed: datasheet"
    sheet.text(1 - RIGHT / width, 1 - 0.39 / height, roofs, fontsize=7.2, color=MUTED, ha="right")


D_FIG1_GPUS = Beside()
