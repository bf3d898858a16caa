"""Small multiples: the same lines over N in one panel per dtype, or one panel per kind of GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pandas as pd
from matplotlib.axes import Axes

from analysis.figures.draw import (
    Panel,
    draw_panel,
    flagged,
    lines,
    roof,
    shade_l2,
)
from analysis.figures.page import Canvas, Figure, Page, provenance
from analysis.figures.specs import BANDWIDTH, D_FIG1, WIDTHS
from analysis.figures.style import (
    DOT,
    INK,
    MUTED,
    marker_legend,
    ratio_axis,
    size_axis,
    slug,
    value_axis,
    variant_order,
    write,
)
from analysis.load import Records
from analysis.selection import Query, Selection, select

DTYPES = ("float32", "float16", "bfloat16")
OVER_ROOF = "time_over_roof"
NOT_DRAWN = ("naive_script", "three_pass", "hybrid_whole", "hybrid_capped")
BOTTOM, HEIGHT, LEFT, ROOM = 0.205, 0.56, 0.073, 0.765  # of the dtypes' panels, canvas shares
GPU_LEFT, GPU_PANEL, GPU_GAP, GPU_RIGHT = 0.52, 2.9, 0.14, 0.12  # of the GPUs' panels, inches
GPU_HEIGHT, ABOVE, BELOW = 3.9, 1.14, 0.8  # inches; above and below are what words take


def _by_dtype(name: str, title: str, y: str, label: str, scale: str, caption: str) -> Figure:
    """Column ``y`` over N in a panel per dtype, on one axis of this label and scale."""

    def pages(records: Records, frame: pd.DataFrame) -> list[Page]:
        found = [_dtypes_of(frame, gpu) for gpu in sorted(frame["gpu"].unique())]
        return [page(several) for several in found if len(several) > 1]

    def page(several: Sequence[Selection]) -> Page:
        first = several[0]
        subtitle = DOT.join([first.card.name, f"M = {first.at}"])
        draw = partial(_draw_dtypes, several=several, y=y, label=label, scale=scale)
        return Page(f"{name}-{slug(first.gpu)}", title, subtitle, _small_print(several), draw,
                    (7.2, 3.8), first.gpu)  # fmt: skip

    needs = (
        f"{name} needs timed softmax rows of two or more of {', '.join(DTYPES)}, "
        "each at two or more N of one M, best M = 4096"
    )
    return Figure(name, needs, pages, caption)


def _draw_dtypes(
    canvas: Canvas, several: Sequence[Selection], y: str, label: str, scale: str
) -> None:
    width = ROOM / len(several)
    panels: list[Axes] = []
    for i, shown in enumerate(several):
        place = (LEFT + i * width, BOTTOM, width - 0.018, HEIGHT)
        ax = canvas.add_axes(place, sharey=panels[0] if panels else None)
        panels.append(ax)
        ax.set_yscale(scale, **({"base": 2} if scale == "log" else {}))
        size_axis(ax, shown.sizes, shown.query.over, most=5)
        ax.set_xlim(right=shown.sizes[-1] * 1.3)  # a narrow panel's last marker needs the room
        lines(ax, shown, y)
        if y == OVER_ROOF:
            ax.axhline(1, color=INK, lw=1.6, label=f"{shown.roof} roof", zorder=2.8)
        else:
            roof(ax, shown, y)
    if scale == "linear":
        panels[0].set_ylim(0, None)
    for ax, shown in zip(panels, several, strict=True):
        shade_l2(ax, shown, height=0.945, caption="fits in L2")
        if scale == "log":
            ratio_axis(ax, "")
        else:
            value_axis(ax, "")
        write(ax, 0, 1.03, shown.dtype, 8.5, color=INK, fontweight="bold")
        ax.tick_params(labelleft=ax is panels[0])
    canvas.text(LEFT, 0.845, label, fontsize=8, color=MUTED)
    drawn = {str(line.get_label()): line for ax in panels for line in ax.get_lines()}
    names = [name for name in drawn if not name.startswith("_") and name != "above roof"]
    names.sort(key=variant_order)
    right = (LEFT + ROOM - 0.01, 0.785)
    canvas.legend([drawn[name] for name in names], names, loc="upper left", frameon=False,
                  fontsize=8, handlelength=1.6, bbox_to_anchor=right)  # fmt: skip


def _dtypes_of(frame: pd.DataFrame, gpu: str) -> list[Selection]:
    """A selection per dtype, of one M and one protocol: those of the first dtype that has any."""
    queries = [Query(4096, dtype, sizes=WIDTHS, without=NOT_DRAWN) for dtype in DTYPES]
    found = [(query.dtype, select(frame, gpu, query)) for query in queries]
    several = [shown for dtype, shown in found if shown and shown.dtype == dtype]
    return [
        replace(shown, points=_over_roof(shown.points))
        for shown in several
        if _place(shown) == _place(several[0])
    ]


def _over_roof(points: pd.DataFrame) -> pd.DataFrame:
    """With `OVER_ROOF`: the time over that of moving as many bytes at the roof, and its interval.

    The interval is the variant's own; the roof was timed beside it, in the same round.
    """
    over = 1 / points["fraction_of_roof"]
    low, high = (over * points[f"time_{end}_us"] / points["time_us"] for end in ("low", "high"))
    names = (OVER_ROOF, f"{OVER_ROOF}_low", f"{OVER_ROOF}_high")
    return points.assign(**dict(zip(names, (over, low, high), strict=True)))


def _place(shown: Selection) -> tuple[int, str, str]:
    """What panels on one axis share: the fixed size and the protocol."""
    return shown.at, shown.timer, shown.cache


def _gpu_pages(records: Records, frame: pd.DataFrame) -> list[Page]:
    """D-fig1 of all kinds of GPU whose rows allow it at one shape, dtype and protocol."""
    found = [select(frame, gpu, D_FIG1.query) for gpu in sorted(frame["gpu"].unique())]
    several = [shown for shown in found if shown is not None]
    # panels on one axis must show the same; most often all do
    places = [(shown.dtype, *_place(shown)) for shown in several]
    most = max(places, key=places.count, default=None)
    alike = [shown for shown, place in zip(several, places, strict=True) if place == most]
    if len(alike) < 2:
        return []
    width = GPU_LEFT + GPU_RIGHT + GPU_PANEL * len(alike) + GPU_GAP * (len(alike) - 1)
    subtitle = DOT.join([alike[0].dtype, f"M = {alike[0].at}", BANDWIDTH])
    return [Page("d_fig1_gpus", D_FIG1.title, subtitle, _small_print(alike),
                 partial(_draw_gpus, several=alike, width=width), (width, GPU_HEIGHT))]  # fmt: skip


def _draw_gpus(canvas: Canvas, several: Sequence[Selection], width: float) -> None:
    bottom, tall = BELOW / GPU_HEIGHT, 1 - (ABOVE + BELOW) / GPU_HEIGHT
    for i, shown in enumerate(several):
        left = (GPU_LEFT + i * (GPU_PANEL + GPU_GAP)) / width
        ax = canvas.add_axes((left, bottom, GPU_PANEL / width, tall))
        size_axis(ax, shown.sizes, shown.query.over, most=7)
        draw_panel(ax, shown, Panel("effective_gbps", shown.card.name))
        ax.texts[-1].set(fontsize=9, color=INK, fontweight="bold")
        ax.tick_params(axis="y", labelleft=i == 0)
    top = max(ax.get_ylim()[1] for ax in canvas.axes)
    for ax in canvas.axes:
        ax.set_ylim(0, top)
    points = pd.concat([shown.own for shown in several])
    drawn = sorted(points.loc[points["time_us"] > 0, "kernel"].unique(), key=variant_order)
    marker_legend(canvas, drawn, (width, GPU_HEIGHT))
    canvas.text(1 - GPU_RIGHT / width, 1 - 0.39 / GPU_HEIGHT, f"solid: copy roof{DOT}dashed: "
                "datasheet", fontsize=7.2, color=MUTED, ha="right")  # fmt: skip


def _small_print(several: Sequence[Selection]) -> list[str]:
    first, rows = several[0], pd.concat([shown.recorded for shown in several])
    cards = " / ".join(dict.fromkeys(shown.card.name for shown in several))
    return provenance(rows, cards, first.timer, first.cache, flagged(*several))


DTYPES_TIME = _by_dtype(
    "dtypes_time",
    "Softmax time over the copy's across dtypes",
    OVER_ROOF,
    "time / time of the fastest copy of the same matrix (lower is better)",
    "log",
    "Time over that of a copy of the same matrix against row width at M = 4096, in each dtype: "
    "where half the bytes per element halve the time, the lines are the same.",
)
DTYPES_BANDWIDTH = _by_dtype(
    "dtypes_bandwidth",
    "Softmax bandwidth across dtypes",
    "effective_gbps",
    BANDWIDTH,
    "linear",
    "Bandwidth against row width at M = 4096 in each dtype: a row stops fitting on chip at twice "
    "the width where an element has half the bytes.",
)
D_FIG1_GPUS = Figure(
    "d_fig1_gpus",
    "d_fig1_gpus needs the rows of d_fig1 of two or more kinds of GPU",
    _gpu_pages,
    "D-fig1 on every kind of GPU that the rows are of, one panel per kind, on one axis of GB/s.",
)
