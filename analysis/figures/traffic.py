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
A_NOTE = "low: one element per row; the article drew ten trips, without two such loads and a store"
B_NOTE = "m, d: the kernel's maximum and sum after each chunk"


def one_row(trace: Trace) -> list[Access]:
    """The accesses to the first row, in order; all rows go through the same."""
    first = min(access.row for access in trace.accesses)
    return [access for access in trace.accesses if access.row == first]


def trips(trace: Trace) -> str:
    """How often a row goes to or from memory: loads or stores of one tensor in one pass."""
    accesses = one_row(trace)
    touched: dict[tuple[int, str, str], set[int]] = defaultdict(set)
    for a in accesses:
        touched[a.sweep, a.kind, a.tensor].update(range(a.first, min(a.last + 1, trace.cols)))
    whole = sum(len(columns) == trace.cols for columns in touched.values())
    single = sum(a.first == a.last for a in accesses)
    text = f"{kernel_name(trace.kernel)}: {whole} trips"
    return f"{text} of a whole row, {single} of one element" if single else text


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
        widths = [max(len(one_row(trace)), 3.0) for trace in traces]
        left, room = 0.085, (0.965 - 0.07 * len(traces)) / sum(widths)
        for trace, width in zip(traces, widths, strict=True):
            _draw_row(canvas.add_axes((left, 0.225, width * room, 0.475)), trace)
            left += width * room + 0.07
        handles = [Patch(color=color, label=kind) for kind, color in COLORS.items()]
        look: dict[str, Any] = {"ncols": 2, "frameon": False, "fontsize": 7.5, "handlelength": 1.2}
        canvas.legend(handles=handles, loc="upper right", bbox_to_anchor=(0.985, 0.98), **look)

    first = traces[0]
    subtitle = DOT.join([first.dtype, f"one row of N = {first.cols}", "from counted traces"])
    source = DOT.join(f"{trace.kernel} (source {trace.source[:8]})" for trace in traces)
    return [Page(name, title, subtitle, [source, TRACED, note], draw, (6.6, 3.2))]


def _draw_row(ax: Axes, trace: Trace) -> None:
    """Order of access across, columns up; each access a bar over the columns it touches."""
    accesses = one_row(trace)
    for sweep, group in groupby(enumerate(accesses), key=lambda one: one[1].sweep):
        places = [i for i, _ in group]
        at: dict[str, Any] = {"ha": "center", "va": "bottom", "fontsize": 7, "color": MUTED}
        ax.text(sum(places) / len(places) + 0.5, trace.cols * 1.03, f"pass {sweep + 1}", **at)
        ax.axvline(places[0], color=FAINT, lw=1.2 * (places[0] > 0), zorder=0)
    for i, a in enumerate(accesses):
        size, state = a.last - a.first + 1, a.state or {}
        ax.add_patch(Rectangle((i + 0.09, a.first), 0.82, size, color=COLORS[a.kind], lw=0))
        first_pass = a.kind == "load" and a.sweep == accesses[0].sweep
        kept = {s: state.get(name) for s, name in STATISTICS.items() if first_pass}
        words = [f"{s} = {float(v):.3g}" for s, v in kept.items() if isinstance(v, float | str)]
        inside, text = size / trace.cols > 0.2, "\n".join([a.tensor, *words])
        height = (a.first + a.last + 1) / 2 if inside else a.last + 1.12
        look: dict[str, Any] = {"ha": "center", "va": "center" if inside else "bottom"}
        look |= {"color": "white" if inside else INK, "rotation": 0 if words else 90}
        ax.text(i + 0.5, height, text, fontsize=6.2, **look)
    ax.set_xlim(0, len(accesses))
    ax.set_ylim(0, trace.cols)
    ax.set_xticks([])
    ax.set_yticks([0, trace.cols], ["0", f"N = {trace.cols}"], fontsize=7)
    ax.set_xlabel("order of access →", fontsize=8)
    write(ax, 0, 1.15, trips(trace), color=INK)
    sns.despine(ax=ax, left=True)


A_FIG1 = "a_fig1", "Trips to memory: naive and fused", A_NOTE
B_FIG1 = "b_fig1", "The two passes of online softmax", B_NOTE
TRAFFIC_FIGURES = (
    Figure(
        "a_fig1",
        "a_fig1 needs rows and traces (traces.jsonl) of naive and fused",
        partial(_pages, ["naive", "fused"], *A_FIG1),
        f"Figure 1 of {name_of('A')} from traces of the real kernels: the trips to memory that one "
        "row makes in naive and in fused softmax.",
        "A",
    ),
    Figure(
        "b_fig1",
        "b_fig1 needs rows and a trace (traces.jsonl) of online",
        partial(_pages, ["online"], *B_FIG1),
        f"Figure 1 of {name_of('B')} from a trace of the real kernel: online softmax loads a row's "
        "chunks once for the statistics and once more to normalise and store.",
        "B",
    ),
)
