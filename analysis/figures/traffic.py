"""The traffic of kernels: modelled, counted and seen by hardware counters; and its order.

A-fig1 and B-fig1 show the order in which the real kernels touch a row, from their traces; the
sources drew it by hand.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator

from analysis.figures.page import Canvas, Figure, Page
from analysis.figures.style import DOT, FAINT, INK, MUTED, slug, style_of, variant_order, write
from analysis.load import Inputs, Records, kernel_name
from analysis.published import OPERATION, name_of
from analysis.selection import records_of
from experiments.data.cards import card_of
from experiments.data.records import Access, Count, Counters, Trace
from experiments.data.rows import ITEM_BYTES

KINDS = ("reads", "writes")
AGREES = 0.01  # asked of counters, and more than they vary by
SLACK_BYTES = 2**20  # at small shapes: launch parameters and code that counters see as well
NOMINAL = "nominal"  # how the verdict on a count of PyTorch's operations begins
LIBRARY = ("torch", "inductor", "torchscript")  # they choose algorithms, or fuse operations
PLACE = ["variant", "rows", "cols", "dtype", "gpu"]
COLUMNS = [*PLACE, "level", "kind", "bytes", "model_bytes", "verdict", "units_of_mn"]
HOLLOW = {"mfc": "none", "mec": MUTED, "mew": 0.9}
LEVELS: Mapping[str, Mapping[str, Any]] = {
    "modelled": {"marker": "|", "ms": 11.0, "mec": INK, "mew": 1.6},
    "counted": {"marker": "o", "ms": 7.5, **HOLLOW},
    "counted, nominal": {"marker": "s", "ms": 6.6, **HOLLOW},
    "L2": {"marker": "D", "ms": 4.2, "mfc": "white", "mec": INK, "mew": 0.8},
    "DRAM": {"marker": "o", "ms": 4.6, "mec": "white", "mew": 0.4},
}
STATISTICS = {"m": "maximum", "d": "total"}  # B's symbols for the kernel's own variables
COLORS = {"load": style_of("fused").color, "store": style_of("torch").color}
DIRTY = "writes lag at DRAM, where lines stay dirty in L2: judge on reads"
TRACED = "every request of one row, as the unchanged kernel made it, counted without a GPU"
A_NOTE = "low: one element per row; the article drew ten trips, without two such loads and a store"
B_NOTE = "m, d: the kernel's maximum and sum after each chunk"


def levels_of(records: Records, backends: Mapping[str, str]) -> pd.DataFrame:
    """The bytes that counts and counters saw of each variant and shape, and the model's.

    Args:
        records: Counts and counters.
        backends: By kernel its backend, as rows say.

    Returns:
        `COLUMNS`. ``gpu`` is empty where no machine changes the number. ``level`` is ``modelled``,
        ``counted``, ``L2`` (between L2 and the SMs) or ``DRAM``. ``bytes`` is NaN where it cannot
        be counted. ``verdict`` is ``exact``, ``agrees``, or says in a few words why not.
    """
    lines = []
    several: tuple[Count | Counters, ...] = (*records.counts, *records.counters)
    for one in several:
        gpu = one.gpu if isinstance(one, Counters) else ""
        matrix = one.rows * one.cols * ITEM_BYTES[one.dtype]
        for kind in KINDS if matrix else ():
            model = _model_bytes(one, kind)
            for level, size, verdict in _seen(one, kind, backends.get(kernel_name(one.kernel), "")):
                place = one.kernel, one.rows, one.cols, one.dtype, gpu, level, kind
                lines.append(
                    [*place, size, model, verdict, None if size is None else size / matrix]
                )
    return pd.DataFrame(lines, columns=COLUMNS).drop_duplicates(ignore_index=True)


def _seen(
    record: Count | Counters, kind: str, backend: str
) -> Iterator[tuple[str, int | None, str]]:
    """The levels of one record: each with its bytes and a verdict."""
    yield "modelled", _model_bytes(record, kind), ""
    if isinstance(record, Count):
        if record.method == "none":
            yield "counted", None, (record.reason or "not countable").split(":")[0]
            return
        size = sum(t.load_bytes if kind == "reads" else t.store_bytes for t in record.tensors)
        yield "counted", size, counted_verdict(kind, record)
        return
    dram = record.dram_read_bytes if kind == "reads" else record.dram_write_bytes
    for level, seen in (("L2", record.l2_to_sm_bytes), ("DRAM", dram)):
        if seen is not None and (level == "DRAM" or kind == "reads"):
            yield level, seen, measured_verdict(level, kind, seen, record, backend)


def _model_bytes(record: Count | Counters, kind: str) -> int:
    own = getattr(record, f"model_{kind[:-1]}_bytes", None)  # of counts whose dtypes differ
    elements = record.model_reads if kind == "reads" else record.model_writes
    return elements * ITEM_BYTES[record.dtype] if own is None else int(own)


def beside_counts(levels: pd.DataFrame) -> pd.DataFrame:
    """The levels at each place, with the count of the same variant that is nearest to it.

    A kernel with cases (one pass or three, by N) is counted in each; counting takes small shapes.
    """
    units = levels["model_bytes"] / levels["rows"] / levels["cols"]
    every = levels.assign(
        _units=units / levels["dtype"].map(ITEM_BYTES), _size=levels["rows"] * levels["cols"]
    )
    counted = every[every["level"] == "counted"].sort_values(
        "_size", ascending=False, kind="stable"
    )
    alike = dict(list(counted.groupby(["variant", "dtype", "kind"])))
    found = []
    for one in records_of(every[every["level"] != "counted"]):
        found.append(one)
        near = alike.get((one["variant"], one["dtype"], one["kind"]))
        if one["level"] == "modelled" and near is not None:
            nearest = (near["_units"] - one["_units"]).abs().round(1).idxmin()
            found.append(near.loc[nearest].to_dict() | {name: one[name] for name in PLACE})
    return pd.DataFrame(found, columns=COLUMNS)


def counted_verdict(kind: str, count: Count) -> str:
    """Whether the requests are the model's, exactly or nominally (`Count.nominal`).

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


def _traffic(inputs: Inputs) -> list[Page]:
    """A picture for each GPU whose counters saw the softmax kernels that the rows have."""
    frame = inputs.main
    if OPERATION not in set(frame["operation"]):
        return []
    mine = frame[frame["operation"].eq(OPERATION) | frame["roof"].eq(frame["operation"])]
    backends = dict(zip(mine["kernel"], mine["backend"], strict=True))
    operations = {OPERATION, *frame.loc[frame["operation"] == OPERATION, "roof"]}

    def of_these(one: Count | Counters) -> bool:
        return one.operation in operations and kernel_name(one.kernel) in backends

    counts = tuple(filter(of_these, inputs.records.counts))
    counters = tuple(filter(of_these, inputs.records.counters))
    levels = beside_counts(levels_of(Records(counts, (), counters), backends))
    counted = f"{len(counts)} counts without a GPU, {len(counters)} of hardware counters (ncu)"
    pages = []
    for gpu in sorted({one.gpu for one in counters}) or [""] * bool(counts):
        here = levels[levels["gpu"] == gpu]
        if here.loc[here["level"] != "modelled", "bytes"].isna().all():
            continue  # the model alone, of shapes that no kernel takes
        known = here.groupby(PLACE[1:4])["variant"].nunique()
        variants: dict[Any, int] = known.to_dict()
        shape = max(variants, key=lambda at: (variants[at], at[2], at[0] * at[1]))
        shown = here[(here[PLACE[1:4]] == list(shape)).all(axis=1)]
        name = "-".join(["traffic", *[slug(gpu)] * bool(gpu)])
        title = f"Traffic: modelled, counted{', measured' if gpu else ''}"
        card = card_of(gpu).name if gpu else "any machine"
        subtitle = DOT.join([card, f"{shape[0]} × {shape[1]} {shape[2]}"])
        size = (7.2, 1.5 + 0.26 * max(variants[shape], 3))
        draw = partial(_draw_traffic, levels=shown)
        pages.append(Page(name, title, subtitle, [counted, DIRTY], draw, size, gpu))
    return pages


def _draw_traffic(canvas: Canvas, levels: pd.DataFrame) -> None:
    """A panel of reads and one of writes, a line per variant, in the line a marker per level."""
    variants = sorted(levels["variant"].unique(), key=variant_order)
    left = max(0.145, (0.1 + 0.068 * max(map(len, variants))) / canvas.get_figwidth())
    width, height = (0.965 - left) / len(KINDS), canvas.get_figheight()
    for i, kind in enumerate(KINDS):
        place = (left + i * (width + 0.015), 0.7 / height, width - 0.015, 1 - 1.4 / height)
        ax = canvas.add_axes(place)
        ax.set_ylim(len(variants) - 0.5, -0.5)
        ax.set_yticks(range(len(variants)), [""] * len(variants) if i else variants)
        ax.hlines(range(len(variants)), 0, 1, FAINT, transform=ax.get_yaxis_transform(), zorder=0)
        for one in records_of(levels[levels["kind"].eq(kind) & levels["bytes"].notna()]):
            nominal = one["verdict"].startswith(NOMINAL)
            level = "counted, nominal" if nominal else one["level"]
            look = {"mfc": style_of(kernel_name(one["variant"])).color, **LEVELS[level]}
            label = f"{one['variant']} {one['level']} {kind}"
            at = one["units_of_mn"], variants.index(one["variant"])
            ax.plot(*at, ls="", label=label, zorder=3 + list(LEVELS).index(level) / 10, **look)
        ax.set_xlim(-0.25, max(5.6, ax.get_xlim()[1]))
        ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        ax.set_xlabel(f"{kind}, MN elements (lower is better)", fontsize=7.5)
        sns.despine(ax=ax, left=True)
    marks = {level: {"mfc": MUTED, **look} for level, look in LEVELS.items()}
    _legend(canvas, [Line2D([], [], ls="", label=one, **look) for one, look in marks.items()])


def _legend(canvas: Canvas, handles: Sequence[Any]) -> None:
    place: dict[str, Any] = {"loc": "upper right", "bbox_to_anchor": (0.985, 0.98)}
    place |= {"ncols": len(handles), "handletextpad": 0.3, "columnspacing": 1.2}
    spaces: dict[str, Any] = {"borderpad": 0, "handlelength": 1.2}
    canvas.legend(handles=handles, frameon=False, fontsize=7.5, **place, **spaces)


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


def _row_pages(
    kernels: Sequence[Sequence[str]], name: str, title: str, note: str, inputs: Inputs
) -> list[Page]:
    """A panel for each kernel, or for the other name that its like has; none if one is lacking."""
    known = [
        next(filter(None, (_trace(inputs, kernel) for kernel in one)), None) for one in kernels
    ]
    traces = [one for one in known if one is not None]
    if len(traces) < len(kernels):
        return []

    def draw(canvas: Canvas) -> None:
        widths = [max(len(one_row(trace)), 3.0) for trace in traces]
        left, room = 0.085, (0.965 - 0.07 * len(traces)) / sum(widths)
        for trace, width in zip(traces, widths, strict=True):
            _draw_row(canvas.add_axes((left, 0.225, width * room, 0.475)), trace)
            left += width * room + 0.07
        _legend(canvas, [Patch(color=color, label=kind) for kind, color in COLORS.items()])

    first = traces[0]
    subtitle = DOT.join([first.dtype, f"one row of N = {first.cols}", "from counted traces"])
    source = DOT.join(f"{trace.kernel} (source {trace.source[:8]})" for trace in traces)
    return [Page(name, title, subtitle, [source, TRACED, note], draw, (6.6, 3.2))]


def _trace(inputs: Inputs, kernel: str) -> Trace | None:
    """The trace of a kernel that the rows have: of several the one of most rows."""
    if kernel not in set(inputs.main["kernel"]):
        return None
    traces = (t for t in inputs.records.traces if kernel_name(t.kernel) == kernel and t.accesses)
    return max(traces, key=lambda trace: trace.rows, default=None)


def _draw_row(ax: Axes, trace: Trace) -> None:
    """Order of access across, columns up; each access a bar over the columns it touches."""
    accesses = one_row(trace)
    for sweep, group in groupby(enumerate(accesses), key=lambda one: one[1].sweep):
        places = [i for i, _ in group]
        middle = (places[0] + places[-1] + 1) / 2
        at: dict[str, Any] = {"ha": "center", "va": "bottom", "fontsize": 7, "color": MUTED}
        ax.text(middle, trace.cols * 1.03, f"pass {sweep + 1}", **at)
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
        "traffic",
        "traffic needs softmax rows, and counts.jsonl or counters.jsonl of their kernels",
        _traffic,
        "The traffic of every variant of softmax, in units of MN elements: as its model says, as "
        "counted by executing it, and as L2's and DRAM's counters saw it.",
    ),
    Figure(
        "a_fig1",
        "a_fig1 needs rows and traces (traces.jsonl) of naive and fused",
        partial(_row_pages, [["naive"], ["fused", "fused_row"]], *A_FIG1),
        f"Figure 1 of {name_of('A')} from traces of the real kernels: the trips to memory that one "
        "row makes in naive and in fused softmax.",
        "A",
    ),
    Figure(
        "b_fig1",
        "b_fig1 needs rows and a trace (traces.jsonl) of online",
        partial(_row_pages, [["online"]], *B_FIG1),
        f"Figure 1 of {name_of('B')} from a trace of the real kernel: online softmax loads a row's "
        "chunks once for the statistics and once more to normalise and store.",
        "B",
    ),
)
