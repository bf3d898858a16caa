"""The order in which kernels touch a row, from traces of the real kernels.

A-fig1 and B-fig1, which the sources drew by hand.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from itertools import groupby
from typing import Any

import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle

from analysis.figures.page import Canvas, Figure, Page
from analysis.figures.style import DOT, FAINT, INK, MUTED, style_of, write
from analysis.load import Inputs, kernel_name
from analysis.published import name_of
from experiments.data.records import Access, Trace

STATISTICS = {"m": "maximum", "d": "total"}  # B's symbols for the kernel's own variables
COLORS = {"load": style_of("fused").color, "store": style_of("torch").color}
TRACED = "every request of one row, as the unchanged kernel made it, counted without a GPU"


def _pages(kernels: Sequence[str], name: str, title: str, note: str, inputs: Inputs) -> list[Page]:
    """A panel for each of these kernels that the rows have; none if a trace is lacking."""
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
        places = canvas.subplots(
            1, len(traces), width_ratios=widths, squeeze=False, gridspec_kw=grid
        )
        for ax, trace in zip(places[0], traces, strict=True):
            _draw_row(ax, trace)
        handles = [Patch(color=color, label=kind) for kind, color in COLORS.items()]
        look: dict[str, Any] = {"ncols": 2, "frameon": False, "fontsize": 7.5, "handlelength": 1.2}
        canvas.legend(handles=handles, loc="upper right", bbox_to_anchor=(0.985, 0.98), **look)

    first = traces[0]
    subtitle = DOT.join([first.dtype, f"one row of N = {first.cols}", "from counted traces"])
    source = DOT.join(f"{trace.kernel} (source {trace.source[:8]})" for trace in traces)
    return [Page(name, title, subtitle, [source, TRACED, note], draw, (6.6, 3.2))]


def _one_row(trace: Trace) -> list[Access]:
    """The accesses to the first row, in order; all rows go through the same."""
    first = min(access.row for access in trace.accesses)
    return [access for access in trace.accesses if access.row == first]


def _draw_row(ax: Axes, trace: Trace) -> None:
    """Order of access across, columns up; each access a bar over the columns it touches."""
    accesses, touched = _one_row(trace), defaultdict[tuple[int, str, str], set[int]](set)
    centre: dict[str, Any] = {"ha": "center", "va": "bottom"}
    for sweep, group in groupby(enumerate(accesses), key=lambda one: one[1].sweep):
        places = [i for i, _ in group]
        middle = sum(places) / len(places) + 0.5
        ax.text(middle, trace.cols * 1.03, f"pass {sweep + 1}", fontsize=7, color=MUTED, **centre)
        ax.axvline(places[0], color=FAINT, lw=1.2 * (places[0] > 0), zorder=0)
    for i, a in enumerate(accesses):
        size, state = a.last - a.first + 1, a.state or {}
        touched[a.sweep, a.kind, a.tensor].update(range(a.first, min(a.last + 1, trace.cols)))
        ax.add_patch(Rectangle((i + 0.09, a.first), 0.82, size, color=COLORS[a.kind], lw=0))
        first_pass = a.kind == "load" and a.sweep == accesses[0].sweep
        kept = {s: state.get(name) for s, name in STATISTICS.items() if first_pass}
        words = [f"{s} = {float(v):.3g}" for s, v in kept.items() if isinstance(v, float | str)]
        look = {"color": INK, "rotation": 0 if words else 90, **centre}
        height = a.last + 1.12
        if size / trace.cols > 0.2:  # within its bar
            height, look = (a.first + a.last + 1) / 2, look | {"color": "white", "va": "center"}
        ax.text(i + 0.5, height, "\n".join([a.tensor, *words]), fontsize=6.2, **look)
    ax.set(xlim=(0, len(accesses)), ylim=(0, trace.cols), xticks=[])
    ax.set_yticks([0, trace.cols], ["0", f"N = {trace.cols}"], fontsize=7)
    ax.set_xlabel("order of access →", fontsize=8)
    whole = sum(len(columns) == trace.cols for columns in touched.values())
    single = sum(a.first == a.last for a in accesses)
    trips = f"{kernel_name(trace.kernel)}: {whole} trips"
    trips += f" of a whole row, {single} of one element" * bool(single)
    write(ax, 0, 1.15, trips, color=INK)
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
