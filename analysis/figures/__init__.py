"""Every picture that rows and records allow, in the order of the sources.

A-fig1 and B-fig1, which the sources drew by hand, are drawn here from traces of the real kernels:
the order in which they touch a row. Other modules have the other figures.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from analysis.__main__ import finish, only
from analysis.figures.kernels import SHARE_FIGURES
from analysis.figures.limits import HEADLINE, LIMITS
from analysis.figures.lines import LineFigure
from analysis.figures.specs import LINE_FIGURES
from analysis.figures.style import DOT, FAINT, INK, MUTED, Canvas, Figure, Page, style_of, write
from analysis.load import Inputs, kernel_name, read_inputs
from analysis.published import name_of
from experiments.data.files import RowsError
from experiments.data.records import Trace

SYMBOLS = {"m": "maximum", "d": "total"}  # B's symbols for the kernel's own variables
COLORS = {"load": style_of("fused").color, "store": style_of("torch").color}
TRACED = "every request of one row, as the unchanged kernel made it, counted without a GPU"


def _pages(kernels: Sequence[str], name: str, title: str, note: str, inputs: Inputs) -> list[Page]:
    """A panel for each of these kernels; no page if rows or a trace of any is missing."""
    known = {
        kernel_name(one.kernel): one
        for one in sorted(inputs.records.traces, key=lambda one: one.rows)
        if one.accesses and kernel_name(one.kernel) in set(inputs.main["kernel"])
    }
    if not set(kernels) <= known.keys():
        return []
    traces = [known[kernel] for kernel in kernels]

    def draw(canvas: Canvas) -> None:
        widths = [max(len(_one_row(trace)), 3) for trace in traces]
        grid: dict[str, Any] = {"left": 0.085, "right": 0.965, "bottom": 0.225, "top": 0.7}
        axes = canvas.subplots(1, len(traces), width_ratios=widths, squeeze=False, gridspec_kw=grid)
        for ax, trace in zip(axes[0], traces, strict=True):
            _draw_row(ax, trace)
        handles = [Patch(color=color, label=kind) for kind, color in COLORS.items()]
        look: dict[str, Any] = {"ncols": 2, "frameon": False, "fontsize": 7.5, "handlelength": 1.2}
        canvas.legend(handles=handles, loc="upper right", bbox_to_anchor=(0.985, 0.98), **look)

    first = traces[0]
    subtitle = DOT.join([first.dtype, f"one row of N = {first.cols}", "from counted traces"])
    source = DOT.join(f"{trace.kernel} (source {trace.source[:8]})" for trace in traces)
    return [Page(name, title, subtitle, [source, TRACED, note], draw, (6.6, 3.2))]


def _one_row(trace: Trace) -> pd.DataFrame:
    """The accesses to the first row, in order; every row has the same ones."""
    every = pd.DataFrame(map(vars, trace.accesses))
    row: pd.DataFrame = every[every["row"] == every["row"].min()].reset_index(drop=True)
    return row.assign(size=row["last"].clip(upper=trace.cols - 1) - row["first"] + 1)


def _draw_row(ax: Axes, trace: Trace) -> None:
    """Draws each access as a bar: x is its place in the order, y the columns it touches."""
    row, top = _one_row(trace), 1.03 * trace.cols
    for sweep, mine in row.groupby("sweep"):
        at, text = mine.index.to_numpy().mean(), f"pass {int(str(sweep)) + 1}"
        ax.text(at, top, text, ha="center", va="bottom", fontsize=7, color=MUTED)
        ax.axvline(mine.index[0] - 0.5, color=FAINT, lw=1.2 * (mine.index[0] > 0), zorder=0)
    texts = row["tensor"].copy()
    for i in row.index[(row["kind"] == "load") & (row["sweep"] == row["sweep"].min())]:
        known = {s: (row["state"][i] or {}).get(name) for s, name in SYMBOLS.items()}
        numbers = {s: float(v) for s, v in known.items() if isinstance(v, float | str)}
        texts[i] += "".join(f"\n{s} = {v:.3g}" for s, v in numbers.items())
    angle = 0 if texts.str.contains("\n").any() else 90
    look: dict[str, Any] = {"fontsize": 6.2, "rotation": angle}
    bars = ax.bar(row.index, row["size"], 0.82, row["first"], color=row["kind"].map(COLORS))
    inside = row["size"] > 0.2 * trace.cols
    ax.bar_label(bars, texts.where(inside, ""), label_type="center", color="white", **look)
    ax.bar_label(bars, texts.mask(inside, ""), padding=2, color=INK, **look)
    ax.set(xlim=(-0.5, len(row) - 0.5), ylim=(0, trace.cols), xticks=[])
    ax.set_yticks([0, trace.cols], ["0", f"N = {trace.cols}"], fontsize=7)
    ax.set_xlabel("order of access →", fontsize=8)
    whole = row.groupby(["sweep", "kind", "tensor"])["size"].sum().eq(trace.cols).sum()
    single = row["size"].eq(1).sum()
    few = f" of a whole row, {single} of one element" if single else ""
    write(ax, 0, 1.15, f"{kernel_name(trace.kernel)}: {whole} trips{few}", color=INK)
    sns.despine(ax=ax, left=True)


def _figure(name: str, kernels: Sequence[str], title: str, note: str, caption: str) -> Figure:
    needs = f"{name} needs rows and traces (traces.jsonl) of {' and '.join(kernels)}"
    pages = partial(_pages, kernels, name, title, note)
    source = name[0].upper()
    return Figure(name, needs, pages, f"Figure 1 of {name_of(source)} from {caption}", source)


TRAFFIC_FIGURES = (
    _figure(
        "a_fig1",
        ["naive", "fused"],
        "Trips to memory: naive and fused",
        "low: one element per row; the article drew ten trips, without two such loads and a store",
        "traces of the real kernels: the trips to memory that one row makes in naive and in fused "
        "softmax.",
    ),
    _figure(
        "b_fig1",
        ["online"],
        "The two passes of online softmax",
        "m, d: the kernel's maximum and sum after each chunk",
        "a trace of the real kernel: online softmax loads a row's chunks once for the statistics "
        "and once more to normalise and store.",
    ),
)

Picture = tuple[Figure | LineFigure, Page]
# The sources' figures by source and number, then this project's own.
FIGURES: tuple[Figure | LineFigure, ...] = tuple(
    sorted(
        (*LINE_FIGURES, HEADLINE, LIMITS, *SHARE_FIGURES, *TRAFFIC_FIGURES),
        key=lambda figure: (not figure.source, figure.id if figure.source else ""),
    )
)


def pictures(inputs: Inputs, figures: Iterable[Figure | LineFigure] = FIGURES) -> Iterator[Picture]:
    """The pictures that the inputs allow."""
    return ((one, page) for one in figures for page in one.pages(inputs))


def run(options: argparse.Namespace) -> int:
    """Draws every figure that the rows and records allow, and prints the paths."""
    asked = only(options.only, [one.id for one in FIGURES])
    inputs = read_inputs(options.rows, options.out, "figures", options.ours)
    figures = [one for one in FIGURES if not asked or one.id in asked]
    drawn = list(pictures(inputs, figures))
    missing = [one.needs for one in figures if one.id not in {made.id for made, _ in drawn}]
    if not drawn:
        raise RowsError(f"{inputs.rows}: no figure can be drawn: {'; '.join(missing)}")
    finish((path for _, page in drawn for path in page.files(inputs.out)), missing)
    return 0
