"""Traffic of every variant as modelled, as counted, and as L2 and DRAM saw it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator

from analysis.cells import Cell, cells, counted_beside
from analysis.figure import slug
from analysis.lines import variant_order
from analysis.load import Records
from analysis.palette import FAINT, INK, MUTED, look_of
from analysis.plate import Plate
from analysis.sheet import mark
from analysis.traffic.figure import EvidenceFigure, counters_told, records_hash
from experiments.data.cards import card_of

PANELS = 3  # far above L2, around it, below it
COVERED = 0.75  # of the variants that the fullest shape has; no variant runs at every shape
Shape = tuple[int, int, str]
MARKS = {
    "modelled": {"marker": "|", "ms": 11.0, "mec": INK, "mew": 1.6},
    "counted": {"marker": "o", "ms": 7.5, "mfc": "none", "mec": MUTED, "mew": 0.9},
    "L2": {"marker": "D", "ms": 4.2, "mfc": "white", "mec": INK, "mew": 0.8},
    "DRAM": {"marker": "o", "ms": 4.6, "mec": "white", "mew": 0.4},
}
NOTE = "each pair of lines: reads above, writes (pale) below; writes lag at DRAM, judge on reads"


def _plates(evidence: Records, frame: pd.DataFrame) -> list[Plate]:
    found = cells(evidence, backends(frame))
    plates = []
    for gpu in sorted({c.gpu for c in found} - {""}) or [""] * bool(found):
        mine = [c for c in found if c.gpu == gpu]
        shapes = shown(mine)
        title = "Traffic: modelled, counted, measured" if gpu else "Traffic: modelled, counted"
        named = card_of(gpu).name if gpu else "any machine"
        subtitle = f"{named}  ·  {shapes[0][2]}  ·  in units of MN elements"
        seen = [c for c in evidence.counters if c.gpu == gpu]
        told = [f"counted without a GPU: {records_hash(evidence.counts)} ({len(evidence.counts)})"]
        told += [f"{named}, {counters_told(seen)}"] * bool(seen)

        def draw(canvas: Canvas, mine: list[Cell] = mine, shapes: list[Shape] = shapes) -> None:
            _panels(canvas, mine, found, shapes)

        name = f"traffic-{slug(gpu)}" if gpu else "traffic"
        small = ["  ·  ".join(told), NOTE]
        plates.append(Plate(name, title, subtitle, small, draw, (7.2, 5.0), gpu))
    return plates


def shown(mine: Sequence[Cell]) -> list[Shape]:
    """Up to three shapes of one dtype: of those with the most variants, largest to smallest."""
    variants: dict[Shape, set[str]] = defaultdict(set)
    for cell in mine:
        variants[cell.rows, cell.cols, cell.dtype].add(cell.variant)
    dtype = max(variants, key=lambda s: (len(variants[s]), s[2], s[0] * s[1]))[2]
    alike = [s for s in variants if s[2] == dtype]
    many = COVERED * max(len(variants[s]) for s in alike)
    largest = sorted((s for s in alike if len(variants[s]) >= many), key=lambda s: -s[0] * s[1])
    if len(largest) <= PANELS:
        return largest
    return [largest[0], largest[len(largest) // 2], largest[-1]]


def backends(frame: pd.DataFrame) -> Mapping[str, str]:
    """Backend by kernel, as rows say."""
    return dict(zip(frame["kernel"], frame["backend"], strict=True))


def _panels(
    canvas: Canvas, mine: Sequence[Cell], everything: Sequence[Cell], shapes: Sequence[Shape]
) -> None:
    present = {c.variant for c in mine if (c.rows, c.cols, c.dtype) in shapes}
    variants = sorted(present, key=lambda v: variant_order(v.replace(",", " ")))
    width = 0.82 / len(shapes)
    for i, (rows, cols, dtype) in enumerate(shapes):
        ax = canvas.add_axes((0.145 + i * (width + 0.015), 0.17, width - 0.015, 0.635))
        _frame(ax, variants, labelled=i == 0)
        here = [c for c in mine if (c.rows, c.cols, c.dtype) == (rows, cols, dtype)]
        counted = [counted_beside(everything, c) for c in here if c.level == "modelled"]
        for cell in dict.fromkeys([*here, *(c for c in counted if c is not None)]):
            _mark(ax, cell, variants.index(cell.variant))
        ax.text(0, 1.02, f"{rows} × {cols}", transform=ax.transAxes, fontsize=8, color=MUTED)
        if i == len(shapes) - 1:
            _legend(canvas, ax)


def _frame(ax: Axes, variants: Sequence[str], labelled: bool) -> None:
    ax.set_ylim(len(variants) - 0.5, -0.5)
    ax.set_yticks(range(len(variants)), variants if labelled else [""] * len(variants))
    for place in range(0, len(variants), 2):
        ax.axhspan(place - 0.5, place + 0.5, color=FAINT, alpha=0.55, lw=0, zorder=0)
    for label, variant in zip(ax.get_yticklabels(), variants, strict=True):
        label.set_color(look_of(variant.split(",")[0]).text_color)
    ax.set_xlim(-0.25, 5.6)
    ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    ax.grid(axis="x", color="white", lw=0.9)
    ax.set_axisbelow(True)
    ax.set_xlabel("MN", fontsize=8)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)


def _mark(ax: Axes, cell: Cell, place: int) -> None:
    if cell.units is None:
        return
    style = dict(MARKS[cell.level])
    if cell.level == "DRAM":
        style["mfc"] = look_of(cell.variant.split(",")[0]).color
    y = place + (-0.2 if cell.kind == "reads" else 0.22)
    alpha = 1.0 if cell.kind == "reads" else 0.5
    order = 3 + list(MARKS).index(cell.level) / 10
    right = ax.get_xlim()[1]
    if cell.units > right:
        ax.set_xlim(-0.25, cell.units * 1.08)
    ax.plot(cell.units, y, ls="", alpha=alpha, zorder=order, **style)  # type: ignore[arg-type]
    mark(ax, [cell.units], [y], [asdict(cell) | {"units": cell.units}])


def _legend(canvas: Canvas, ax: Axes) -> None:
    handles = [
        ax.plot([], [], ls="", label=level, **({"mfc": MUTED} | style))[0]  # type: ignore[arg-type]
        for level, style in MARKS.items()
    ]
    canvas.legend(handles=handles, loc="upper right", bbox_to_anchor=(0.985, 0.975), ncols=4,
                  frameon=False, fontsize=7.5, handletextpad=0.1, columnspacing=1.2)  # fmt: skip


COMPARISON = EvidenceFigure(
    "traffic",
    "traffic needs counts.jsonl or counters.jsonl",
    _plates,
    "What every variant moves, in units of MN elements: as its model says, as counted by executing "
    "it, and as L2's and DRAM's counters saw it.",
)
