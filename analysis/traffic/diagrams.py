"""A-fig1 and B-fig1: the order in which the real kernels touch a row, from their traces."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import Rectangle
from matplotlib.ticker import NullLocator

from analysis.load import Records, kernel_name
from analysis.palette import FAINT, INK, MUTED, look_of
from analysis.plate import Plate
from analysis.traffic.figure import EvidenceFigure, records_hash
from experiments.data.records import Access, Trace

LOAD, STORE = look_of("fused").color, look_of("torch").color
STATISTICS = (("m", "maximum"), ("d", "total"))  # B's letters for the kernel's own variables
METHOD = "every request of one row, as the unchanged kernel made it, counted without a GPU"


def one_row(trace: Trace) -> list[Access]:
    """The accesses to the first row, in order; what one row goes through, all do."""
    first = min((access.row for access in trace.accesses), default=0)
    return [access for access in trace.accesses if access.row == first]


def whole_trips(accesses: Sequence[Access], cols: int) -> int:
    """Trips of a whole row to or from memory: loads or stores of one tensor in one pass."""
    touched: dict[tuple[int, str, str], set[int]] = {}
    for a in accesses:
        touched.setdefault((a.sweep, a.kind, a.tensor), set()).update(range(a.first, a.last + 1))
    return sum(len(columns) == cols for columns in touched.values())


def _a_fig1(evidence: Records, _: pd.DataFrame) -> list[Plate]:
    naive, fused = _of(evidence, "naive"), _of(evidence, "fused") or _of(evidence, "fused_row")
    if naive is None or fused is None:
        return []
    pair = [naive, fused]

    def draw(canvas: Canvas) -> None:
        widths = [len(one_row(trace)) + 0.6 for trace in pair]
        left, gap, room = 0.085, 0.07, 0.895 - 0.07
        for trace, width in zip(pair, widths, strict=True):
            share = max(room * width / sum(widths), 0.18)
            share = min(share, room - 0.18)
            ax = canvas.add_axes((left, 0.225, share, 0.475))
            _diagram(ax, trace, _trips_told(trace))
            left += share + gap

    subtitle = f"{naive.dtype}  ·  one row of N = {naive.cols}  ·  from counted traces"
    note = "low: one element a row; A drew ten trips, without two such loads and the int64 store"
    small = [_small(pair), METHOD, note]
    return [Plate("a_fig1", "Trips to memory: naive and fused", subtitle, small, draw, (6.6, 3.2))]


def _trips_told(trace: Trace) -> str:
    accesses = one_row(trace)
    whole = whole_trips(accesses, trace.cols)
    single = sum(a.first == a.last for a in accesses)
    told = f"{kernel_name(trace.kernel)}: {whole} trips"
    return told + (f" of a whole row, {single} of one element" if single else "")


def _b_fig1(evidence: Records, _: pd.DataFrame) -> list[Plate]:
    online = _of(evidence, "online")
    if online is None:
        return []

    def draw(canvas: Canvas) -> None:
        ax = canvas.add_axes((0.085, 0.225, 0.895, 0.475))
        _diagram(ax, online, "the kernel's maximum m and sum d after each chunk", statistics=True)

    subtitle = (
        f"{online.kernel.replace(',', '  ·  ')}  ·  {online.dtype}  ·  one row of N = {online.cols}"
    )
    small = [_small([online]), METHOD]
    return [Plate("b_fig1", "The two passes of online softmax", subtitle, small, draw, (5.8, 3.2))]


def _diagram(ax: Axes, trace: Trace, title: str, statistics: bool = False) -> None:
    """Order of access across, columns up; each access a bar over the columns it touches."""
    accesses, start = one_row(trace), 0
    for sweep, group in groupby(accesses, key=lambda access: access.sweep):
        count = len(list(group))
        if start:
            ax.axvline(start, color=FAINT, lw=1.2, zorder=0)
        ax.text(start + count / 2, trace.cols * 1.03, f"pass {sweep + 1}", fontsize=7, color=MUTED,
                ha="center", va="bottom")  # fmt: skip
        start += count
    for i, a in enumerate(accesses):
        color = LOAD if a.kind == "load" else STORE
        ax.add_patch(Rectangle((i + 0.09, a.first), 0.82, a.last - a.first + 1, color=color, lw=0))
        told = [a.tensor]
        if statistics and a.kind == "load" and a.sweep == accesses[0].sweep:
            kept = [(letter, (a.state or {}).get(name)) for letter, name in STATISTICS]
            told += [f"{s} = {float(v):.3g}" for s, v in kept if isinstance(v, float | str)]
        inside = (a.last - a.first + 1) / trace.cols > 0.2
        ax.text(i + 0.5, (a.first + a.last + 1) / 2 if inside else a.last + 1.12, "\n".join(told),
                ha="center", va="center" if inside else "bottom", fontsize=6.2,
                rotation=0 if statistics else 90, color="white" if inside else INK)  # fmt: skip
    ax.set_xlim(0, len(accesses))
    ax.set_ylim(0, trace.cols)
    ax.xaxis.set_major_locator(NullLocator())
    ax.set_yticks([0, trace.cols], ["0", f"N = {trace.cols}"], fontsize=7)
    ax.set_xlabel("order of access →", fontsize=8)
    ax.text(0, 1.15, title, transform=ax.transAxes, fontsize=8, color=INK, ha="left")
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)


def _of(evidence: Records, kernel: str) -> Trace | None:
    found = [t for t in evidence.traces if kernel_name(t.kernel) == kernel and t.accesses]
    return max(found, key=lambda trace: trace.rows, default=None)  # the seeded one of four rows


def _small(traces: Sequence[Trace]) -> str:
    sources = [f"{t.kernel} (source {t.source[:8]})" for t in traces]
    told = [*sources, f"traces {records_hash(traces)}", "blue: load, orange: store"]
    return "  ·  ".join(told)


A_FIG1 = EvidenceFigure(
    "a_fig1",
    "a_fig1 needs traces of naive and fused: traces.jsonl",
    _a_fig1,
    "A's figure 1 from traces of the real kernels: the trips to memory that one row makes in naive "
    "and in fused softmax.",
)
B_FIG1 = EvidenceFigure(
    "b_fig1",
    "b_fig1 needs a trace of online: traces.jsonl",
    _b_fig1,
    "B's figure 1 from a trace of the real kernel: online softmax loads a row's chunks once for "
    "the statistics and once more to normalise and store.",
)
