"""What kernels move: modelled, counted and seen by hardware counters; and in which order.

A-fig1 and B-fig1 show the order in which the real kernels touch a row, from their traces; the
sources drew it by hand.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator

from analysis.figures.page import Canvas, Figure, Page
from analysis.figures.style import DOT, FAINT, INK, MUTED, slug, style_of, variant_order, write
from analysis.load import Inputs, Records, kernel_name
from analysis.published import OPERATION, name_of
from experiments.data.cards import card_of
from experiments.data.records import Access, Count, Counters, Trace
from experiments.data.rows import ITEM_BYTES

KINDS = ("reads", "writes")
AGREES = 0.01  # asked of counters, and more than they vary by
SLACK_BYTES = 2**20  # at small shapes: launch parameters and code that counters see as well
NOMINAL = "nominal"  # how the verdict on a count of PyTorch's operations begins
LIBRARY = ("torch", "inductor", "torchscript")  # they choose algorithms, or fuse operations
LEVELS: Mapping[str, Mapping[str, Any]] = {
    "modelled": {"marker": "|", "ms": 11.0, "mec": INK, "mew": 1.6},
    "counted": {"marker": "o", "ms": 7.5, "mfc": "none", "mec": MUTED, "mew": 0.9},
    NOMINAL: {"marker": "s", "ms": 6.6, "mfc": "none", "mec": MUTED, "mew": 0.9},
    "L2": {"marker": "D", "ms": 4.2, "mfc": "white", "mec": INK, "mew": 0.8},
    "DRAM": {"marker": "o", "ms": 4.6, "mec": "white", "mew": 0.4},
}
STATISTICS = (("m", "maximum"), ("d", "total"))  # B's symbols for the kernel's own variables
COLORS = {"load": style_of("fused").color, "store": style_of("torch").color}
PAIRS_NOTE = "writes lag at DRAM, where lines stay dirty in L2: judge on reads"
TRACED_NOTE = "every request of one row, as the unchanged kernel made it, counted without a GPU"
A_NOTE = (
    f"low: one element per row; {name_of('A')} drew ten trips, without two such loads and the "
    "int64 store"
)
B_NOTE = "m, d: the kernel's maximum and sum after each chunk"


class Level(NamedTuple):
    """Reads or writes of one variant and shape at one level."""

    variant: str  # the kernel's label
    rows: int
    cols: int
    dtype: str
    gpu: str  # whose counters saw it; empty for what no machine changes
    level: str  # ``modelled``, ``counted``, ``L2`` (between L2 and the SMs) or ``DRAM``
    kind: str  # ``reads`` or ``writes``
    size: int | None  # bytes, None where it cannot be counted
    model: int  # the model's bytes
    verdict: str  # ``exact``, ``agrees``, or why not in a few words; empty for the model itself

    @property
    def matrix(self) -> int:
        """The bytes of one matrix of M×N elements, the unit of the figure."""
        return self.rows * self.cols * ITEM_BYTES[self.dtype]


def levels_of(records: Records, backends: Mapping[str, str]) -> list[Level]:
    """What counts and counters saw of each variant and shape, and the model beside them.

    Args:
        records: Counts and counters.
        backends: By kernel its backend, as rows say.
    """
    several: tuple[Count | Counters, ...] = (*records.counts, *records.counters)
    known = (one for one in several if one.rows and one.cols)
    return [*dict.fromkeys(
        level for one in known for kind in KINDS
        for level in _levels_of(one, kind, backends.get(kernel_name(one.kernel), ""))
    )]  # fmt: skip


def _levels_of(record: Count | Counters, kind: str, backend: str) -> Iterator[Level]:
    gpu = record.gpu if isinstance(record, Counters) else ""
    place = record.kernel, record.rows, record.cols, record.dtype, gpu
    model = _model_bytes(record, kind)
    yield Level(*place, "modelled", kind, model, model, "")
    if isinstance(record, Counters):
        reads = {"L2": record.l2_to_sm_bytes, "DRAM": record.dram_read_bytes}
        for level, seen in (
            reads if kind == "reads" else {"DRAM": record.dram_write_bytes}
        ).items():
            if seen is not None:
                verdict = measured_verdict(level, kind, seen, record, backend)
                yield Level(*place, level, kind, seen, model, verdict)
    elif record.method == "none":
        reason = (record.reason or "not countable").split(":")[0]
        yield Level(*place, "counted", kind, None, model, reason)
    else:
        size = sum(t.load_bytes if kind == "reads" else t.store_bytes for t in record.tensors)
        yield Level(*place, "counted", kind, size, model, counted_verdict(kind, record))


def _model_bytes(record: Count | Counters, kind: str) -> int:
    own = getattr(record, f"model_{kind[:-1]}_bytes", None)  # of counts whose dtypes differ
    elements = record.model_reads if kind == "reads" else record.model_writes
    return elements * ITEM_BYTES[record.dtype] if own is None else int(own)


def counted_beside(levels: Iterable[Level], model: Level) -> Level | None:
    """The count of the variant of ``model`` whose case and size are nearest to it.

    A kernel with cases (one pass or three, by N) is counted in each; counting takes small shapes.
    """
    place = ("counted", model.variant, model.dtype, model.kind)
    alike = [one for one in levels if (one.level, one.variant, one.dtype, one.kind) == place]
    units = model.model / model.matrix
    return min(
        alike,
        key=lambda one: (round(abs(one.model / one.matrix - units), 1), -one.rows * one.cols),
        default=None,
    )


def counted_verdict(kind: str, count: Count) -> str:
    """Whether what was requested is the model's, exactly or nominally (`Count.nominal`).

    int64 indices in excess have that name. Elements are compared, not bytes: eager operations keep
    statistics of 16-bit rows in 32 bit.
    """
    differences = [text for text in (count.difference or "").split("; ") if text.startswith(kind)]
    model = count.model_reads if kind == "reads" else count.model_writes
    moved = [(t.dtype, t.loads if kind == "reads" else t.stores) for t in count.tensors]
    size = sum(elements for _, elements in moved)
    indices = sum(elements for dtype, elements in moved if dtype == "int64")
    only_indices = bool(indices) and size - indices == model
    if count.nominal and only_indices:
        return f"{NOMINAL}, int64 indices"
    if not differences or size == model:
        return NOMINAL if count.nominal else "exact"
    return "int64 indices" if only_indices else differences[0]


def measured_verdict(level: str, kind: str, size: int, seen: Counters, backend: str) -> str:
    """Whether counters saw the model's bytes, else why not in a few words."""
    model = _model_bytes(seen, kind)
    if abs(size - model) <= AGREES * model:
        return "agrees"
    if size < model and kind == "writes":
        return "dirty lines unwritten"
    if size < model and backend not in LIBRARY:
        return "L2 served re-reads" if level == "DRAM" else "L1 served re-reads"
    if (seen.local_load_bytes or 0) + (seen.local_store_bytes or 0) > 0:
        return "spills"
    if 0 < size - model <= SLACK_BYTES:
        return "launch and code"
    return "another algorithm" if backend in LIBRARY else "unexplained"


# What every variant of softmax moves.


def _traffic(inputs: Inputs) -> list[Page]:
    """A picture for each GPU whose counters saw the softmax kernels that the rows have."""
    frame = inputs.main
    mine = frame[frame["operation"].eq(OPERATION) | frame["roof"].eq(frame["operation"])]
    backends = dict(zip(mine["kernel"], mine["backend"], strict=True))
    both = {OPERATION, *frame.loc[frame["operation"] == OPERATION, "roof"]}
    if OPERATION not in set(frame["operation"]):
        return []

    def of_these(one: Count | Counters) -> bool:
        return one.operation in both and kernel_name(one.kernel) in backends

    records = Records(tuple(filter(of_these, inputs.records.counts)), (),
                      tuple(filter(of_these, inputs.records.counters)))  # fmt: skip
    found, pages = levels_of(records, backends), []
    for gpu in sorted({one.gpu for one in records.counters}) or [""] * bool(records.counts):
        levels = [one for one in found if one.gpu == gpu]
        if all(one.size is None or one.level == "modelled" for one in levels):
            continue  # the model alone, of shapes that no kernel takes
        variants: dict[tuple[int, int, str], set[str]] = defaultdict(set)
        for one in levels:
            variants[one[1:4]].add(one.variant)
        shape = max(variants, key=lambda at: (len(variants[at]), at[2], at[0] * at[1]))
        small = [f"{len(records.counts)} counts without a GPU, "
                 f"{len(records.counters)} of hardware counters (ncu)", PAIRS_NOTE]  # fmt: skip
        here = [one for one in levels if one[1:4] == shape]
        counted = [counted_beside(found, one) for one in here if one.level == "modelled"]
        shown = [*dict.fromkeys([*here, *filter(None, counted)])]
        card = card_of(gpu).name if gpu else "any machine"
        name = "-".join(["traffic", *[slug(gpu)] * bool(gpu)])
        title = f"Traffic: modelled, counted{', measured' if gpu else ''}"
        subtitle = DOT.join([card, f"{shape[0]} × {shape[1]} {shape[2]}"])
        size = (7.2, 1.5 + 0.26 * max(len(variants[shape]), 3))
        draw = partial(_draw_traffic, levels=shown)
        pages.append(Page(name, title, subtitle, small, draw, size, gpu))
    return pages


def _draw_traffic(canvas: Canvas, levels: Sequence[Level]) -> None:
    """A panel of reads and one of writes, a line per variant, in the line a marker per level."""
    variants = sorted({one.variant for one in levels}, key=variant_order)
    left = max(0.145, (0.1 + 0.068 * max(map(len, variants))) / canvas.get_figwidth())
    width, height = (0.965 - left) / len(KINDS), canvas.get_figheight()
    for i, kind in enumerate(KINDS):
        place = (left + i * (width + 0.015), 0.7 / height, width - 0.015, 1 - 1.4 / height)
        ax = canvas.add_axes(place)
        ax.set_ylim(len(variants) - 0.5, -0.5)
        ax.set_yticks(range(len(variants)), [""] * len(variants) if i else variants)
        ax.hlines(range(len(variants)), 0, 1, FAINT, transform=ax.get_yaxis_transform(), zorder=0)
        for one in levels:
            level = NOMINAL if one.verdict.startswith(NOMINAL) else one.level
            look = dict(LEVELS[level])
            if level == "DRAM":
                look["mfc"] = style_of(kernel_name(one.variant)).color
            if one.size is not None and one.kind == kind:
                ax.plot(one.size / one.matrix, variants.index(one.variant), ls="",
                        zorder=3 + list(LEVELS).index(level) / 10,
                        label=f"{one.variant} {one.level} {kind}", **look)  # fmt: skip
        ax.set_xlim(-0.25, max(5.6, ax.get_xlim()[1]))
        ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        ax.set_xlabel(f"{kind}, MN elements (lower is better)", fontsize=7.5)
        sns.despine(ax=ax, left=True)
    dots = [Line2D([], [], ls="", label="counted, nominal" if level == NOMINAL else level,
                   **{"mfc": MUTED, **look}) for level, look in LEVELS.items()]  # fmt: skip
    _legend(canvas, dots)


def _legend(canvas: Canvas, handles: Sequence[Any]) -> None:
    canvas.legend(handles=handles, loc="upper right", bbox_to_anchor=(0.985, 0.98), frameon=False,
                  ncols=len(handles), fontsize=7.5, handletextpad=0.3, columnspacing=1.2,
                  borderpad=0, handlelength=1.2)  # fmt: skip


# The order in which kernels touch a row.


def one_row(trace: Trace) -> list[Access]:
    """The accesses to the first row, in order; what one row goes through, all do."""
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


def _row_figure(name: str, title: str, kernels: Sequence[Sequence[str]], note: str,
                size: tuple[float, float], inputs: Inputs) -> list[Page]:  # fmt: skip
    """A panel for each kernel, or for the other name that its like has; none if one is lacking."""
    known = [
        next(filter(None, (_trace(inputs, kernel) for kernel in one)), None) for one in kernels
    ]
    traces = [one for one in known if one is not None]
    if len(traces) < len(kernels):
        return []

    def draw(canvas: Canvas) -> None:
        left, gap = 0.085, 0.07
        room = 0.895 - gap * (len(traces) - 1)
        widths = np.array([len(one_row(trace)) + 0.6 for trace in traces])
        shares = np.clip(room * widths / widths.sum(), 0.18, room)
        for trace, share in zip(traces, shares * room / shares.sum(), strict=True):
            _draw_row(canvas.add_axes((left, 0.225, share, 0.475)), trace)
            left += share + gap
        _legend(canvas, [Patch(color=color, label=kind) for kind, color in COLORS.items()])

    first = traces[0]
    subtitle = DOT.join([first.dtype, f"one row of N = {first.cols}", "from counted traces"])
    source = DOT.join(f"{trace.kernel} (source {trace.source[:8]})" for trace in traces)
    return [Page(name, title, subtitle, [source, TRACED_NOTE, note], draw, size)]


def _draw_row(ax: Axes, trace: Trace) -> None:
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
        size = a.last - a.first + 1
        ax.add_patch(Rectangle((i + 0.09, a.first), 0.82, size, color=COLORS[a.kind], lw=0))
        kept = [(letter, (a.state or {}).get(name)) for letter, name in STATISTICS]
        kept *= a.kind == "load" and a.sweep == accesses[0].sweep
        state = [f"{s} = {float(v):.3g}" for s, v in kept if isinstance(v, float | str)]
        inside = size / trace.cols > 0.2
        ax.text(i + 0.5, (a.first + a.last + 1) / 2 if inside else a.last + 1.12,
                "\n".join([a.tensor, *state]), ha="center", va="center" if inside else "bottom",
                fontsize=6.2, rotation=0 if state else 90,
                color="white" if inside else INK)  # fmt: skip
    ax.set_xlim(0, len(accesses))
    ax.set_ylim(0, trace.cols)
    ax.set_xticks([])
    ax.set_yticks([0, trace.cols], ["0", f"N = {trace.cols}"], fontsize=7)
    ax.set_xlabel("order of access →", fontsize=8)
    write(ax, 0, 1.15, trips(trace), color=INK)
    sns.despine(ax=ax, left=True)


def _trace(inputs: Inputs, kernel: str) -> Trace | None:
    """The trace of a kernel that the rows have: of several the one of most rows."""
    if kernel not in set(inputs.main["kernel"]):
        return None
    traces = (t for t in inputs.records.traces if kernel_name(t.kernel) == kernel and t.accesses)
    return max(traces, key=lambda trace: trace.rows, default=None)


TRAFFIC_FIGURES = (
    Figure(
        "traffic",
        "traffic needs softmax rows, and counts.jsonl or counters.jsonl of their kernels",
        _traffic,
        "What every variant of softmax moves, in units of MN elements: as its model says, as "
        "counted by executing it, and as L2's and DRAM's counters saw it.",
    ),
    Figure(
        "a_fig1",
        "a_fig1 needs rows and traces (traces.jsonl) of naive and fused",
        partial(
            _row_figure,
            "a_fig1",
            "Trips to memory: naive and fused",
            [["naive"], ["fused", "fused_row"]],
            A_NOTE,
            (6.6, 3.2),
        ),
        f"Figure 1 of {name_of('A')} from traces of the real kernels: the trips to memory that one "
        "row makes in naive and in fused softmax.",
        "A",
    ),
    Figure(
        "b_fig1",
        "b_fig1 needs rows and a trace (traces.jsonl) of online",
        partial(
            _row_figure,
            "b_fig1",
            "The two passes of online softmax",
            [["online"]],
            B_NOTE,
            (5.8, 3.2),
        ),
        f"Figure 1 of {name_of('B')} from a trace of the real kernel: online softmax loads a row's "
        "chunks once for the statistics and once more to normalise and store.",
        "B",
    ),
)
