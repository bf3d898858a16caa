"""Pictures of what was counted, traced and measured: traffic by level, DRAM reads, traced rows.

A-fig1 and B-fig1 show the order in which the real kernels touch a row, from their traces; the
sources drew it by hand.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import groupby
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator, MultipleLocator, NullLocator

from analysis.figures.page import Canvas, Figure, Page, mark
from analysis.figures.style import (
    DOT,
    FAINT,
    INK,
    MUTED,
    SIZES,
    size_label,
    slug,
    style_of,
    ticks,
    variant_order,
    write,
)
from analysis.load import Records, kernel_name, key_of, records_hash
from analysis.published import OPERATION, name_of
from analysis.roofline.verdicts import rows_in_flight
from analysis.selection import OTHER_SIDE, records_of
from analysis.traffic.levels import NOMINAL, Level, backends, counted_beside, levels_of
from experiments.data.cards import Card, card_of
from experiments.data.records import Access, Counters, Trace
from experiments.data.rows import ITEM_BYTES

Shape = tuple[int, int, str]  # M, N, dtype
Line = list[Counters]  # of one variant, by rising size
Launches = Mapping[tuple[str, ...], int]  # rows in flight on a full card, by `_launch_of`
COPY = "copy"
MOST_PANELS = 3  # far above L2, around it, below it
COVERED = 0.75  # of the variants that the fullest shape has; no variant runs at every shape
LEVELS: Mapping[str, Mapping[str, Any]] = {
    "modelled": {"marker": "|", "ms": 11.0, "mec": INK, "mew": 1.6},
    "counted": {"marker": "o", "ms": 7.5, "mfc": "none", "mec": MUTED, "mew": 0.9},
    NOMINAL: {"marker": "s", "ms": 6.6, "mfc": "none", "mec": MUTED, "mew": 0.9},
    "L2": {"marker": "D", "ms": 4.2, "mfc": "white", "mec": INK, "mew": 0.8},
    "DRAM": {"marker": "o", "ms": 4.6, "mec": "white", "mew": 0.4},
}
DRAM_TITLE = "Reads at DRAM: where L2 stops serving the second pass"
PAIRS_NOTE = "writes lag at DRAM, where lines stay dirty in L2: judge on reads"
L2_NOTE = "dotted: rows in flight × row bytes = L2, in the colour of its variant"
LETTER_WIDTH = 0.068  # inches of a letter of a variant's name
LETTER = {"cols": "N", "rows": "M"}
HEIGHTS = {"reads": (-0.2, 1.0), "writes": (0.22, 0.5)}  # in a variant's line, and how opaque
KINDS = {"load": style_of("fused").color, "store": style_of("torch").color}
STATISTICS = (("m", "maximum"), ("d", "total"))  # B's symbols for the kernel's own variables
TRACED_NOTE = "every request of one row, as the unchanged kernel made it, counted without a GPU"
A_NOTE = (
    f"low: one element per row; {name_of('A')} drew ten trips, without two such loads and the "
    "int64 store"
)


def _source_of(counters: Sequence[Counters]) -> str:
    """Where counters come from: tool, commit and hash."""

    def stated(name: str) -> str:
        facts = [c.environment[name] for c in counters if name in c.environment]
        return "/".join(dict.fromkeys(str(fact)[:12] for fact in facts))

    tool = f"hardware counters (ncu {stated('ncu')})" if stated("ncu") else "hardware counters"
    commit = stated("commit") or "unknown"
    return f"{tool}, commit {commit}, {records_hash(counters)} ({len(counters)})"


# What every variant moves: modelled, counted, measured.


def _levels(records: Records, frame: pd.DataFrame) -> list[Page]:
    several = _by_operation(records, frame).items()
    return [page for name, some in several for page in _levels_of(name, some, frame)]


def _by_operation(records: Records, frame: pd.DataFrame) -> dict[str, Records]:
    """Counts and counters of each operation with those of its roof; the sources' comes first."""
    roofs = dict(zip(frame["operation"], frame["roof"], strict=True))
    known = {one.operation for one in (*records.counts, *records.counters)}
    found = {}
    for name in sorted(known - {COPY, *roofs.values()} or known, key=lambda o: (o != OPERATION, o)):
        both = {name, roofs.get(name, COPY)}
        found[name] = Records(
            counts=tuple(one for one in records.counts if one.operation in both),
            counters=tuple(one for one in records.counters if one.operation in both),
        )
    return found


def _levels_of(operation: str, records: Records, frame: pd.DataFrame) -> list[Page]:
    found = levels_of(records, backends(frame))
    of = [] if operation == OPERATION else [operation]
    counts = f"{records_hash(records.counts)} ({len(records.counts)})"
    pages = []
    gpus = sorted({c.gpu for c in records.counters if c.operation == operation})
    for gpu in gpus or [""] * bool(found):
        mine = [c for c in found if c.gpu == gpu]
        if all(c.size is None or c.level == "modelled" for c in mine):
            continue  # the model alone, of shapes that no kernel takes
        shapes = shapes_shown(mine)
        counters = [c for c in records.counters if c.gpu == gpu]
        card = card_of(gpu).name if gpu else "any machine"
        sources = [f"counted without a GPU: {counts}"]
        sources += [f"{card}, {_source_of(counters)}"] * bool(counters)
        blank = partial(_why_blank, frame[frame["gpu"] == gpu])
        draw = partial(_draw_levels, mine=mine, everything=found, shapes=shapes, blank=blank)
        name = "-".join(["traffic", *map(slug, of), *[slug(gpu)] * bool(gpu)])
        title = f"Traffic: modelled, counted{', measured' if gpu else ''}"
        subtitle = DOT.join([card, *of, shapes[0][2]])
        drawn = {c.variant for c in mine if (c.rows, c.cols, c.dtype) in shapes}
        size = (7.2, 1.65 + 0.335 * max(len(drawn), 3))
        small = [DOT.join(sources), PAIRS_NOTE]
        pages.append(Page(name, title, subtitle, small, draw, size, gpu))
    return pages


def shapes_shown(mine: Sequence[Level]) -> list[Shape]:
    """Up to three shapes of one dtype: of those with the most variants, largest to smallest."""
    variants: dict[Shape, set[str]] = defaultdict(set)
    for cell in mine:
        variants[cell.rows, cell.cols, cell.dtype].add(cell.variant)
    dtype = max(variants, key=lambda s: (len(variants[s]), s[2], s[0] * s[1]))[2]
    alike = [shape for shape in variants if shape[2] == dtype]
    enough = COVERED * max(len(variants[s]) for s in alike)
    largest = sorted((s for s in alike if len(variants[s]) >= enough), key=lambda s: -s[0] * s[1])
    if len(largest) <= MOST_PANELS:
        return largest
    return [largest[0], largest[len(largest) // 2], largest[-1]]


def _why_blank(frame: pd.DataFrame, variant: str, shape: Shape) -> str:
    """Why a variant has no traffic at a shape: rows no wider and no larger did not fit."""
    refused = frame[(frame["status"] == "unsupported") & (frame["kernel"] == kernel_name(variant))]
    narrower = refused["dtype"].map(ITEM_BYTES).fillna(math.inf) <= ITEM_BYTES[shape[2]]
    return "does not fit" if (narrower & (refused["cols"] <= shape[1])).any() else "not measured"


def _draw_levels(
    canvas: Canvas,
    mine: Sequence[Level],
    everything: Sequence[Level],
    shapes: Sequence[Shape],
    blank: Callable[[str, Shape], str],
) -> None:
    shown = {c.variant for c in mine if (c.rows, c.cols, c.dtype) in shapes}
    variants = sorted(shown, key=variant_order)
    left = max(0.145, (0.1 + LETTER_WIDTH * max(map(len, variants))) / canvas.get_figwidth())
    width, height = (0.965 - left) / len(shapes), canvas.get_figheight()
    bottom, tall = 0.8 / height, 1 - 1.75 / height
    for i, shape in enumerate(shapes):
        ax = canvas.add_axes((left + i * (width + 0.015), bottom, width - 0.015, tall))
        ax.set_ylim(len(variants) - 0.5, -0.5)
        ax.set_yticks(range(len(variants)), [""] * len(variants) if i else variants)
        for place, variant in enumerate(variants):
            if place % 2 == 0:
                ax.axhspan(place - 0.5, place + 0.5, color=FAINT, alpha=0.55, lw=0, zorder=0)
            ax.get_yticklabels()[place].set_color(style_of(kernel_name(variant)).text_color)
        ax.set_xlim(-0.25, 5.6)
        ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        ax.grid(axis="x", color="white", lw=0.9)
        ax.set_axisbelow(True)
        sns.despine(ax=ax, left=True)
        here = [c for c in mine if (c.rows, c.cols, c.dtype) == shape]
        counted = [counted_beside(everything, c) for c in here if c.level == "modelled"]
        for cell in dict.fromkeys([*here, *filter(None, counted)]):
            _draw_cell(ax, cell, variants.index(cell.variant))
        drawn = {c.variant for c in here}
        for place, variant in enumerate(variants):
            if variant not in drawn:
                text = blank(variant, shape)
                ax.text(0.1, place, text, fontsize=7, color=MUTED, va="center")
        write(ax, 0, 1 + 0.06 / (tall * height), f"{shape[0]} × {shape[1]}")
    middle, below = (left + 0.965) / 2, bottom - 0.28 / height
    canvas.text(middle, below, "traffic, MN elements (lower is better)", fontsize=7.5, ha="center",
                va="top")  # fmt: skip
    levels = [Line2D([], [], ls="", label=label, **{"mfc": MUTED, **style})
              for level, style in LEVELS.items()
              for label in ["counted, nominal" if level == NOMINAL else level]]  # fmt: skip
    kinds = [Patch(color=MUTED, alpha=alpha, lw=0, label=f"{kind}: the {place} of a pair")
             for (kind, (_, alpha)), place in zip(HEIGHTS.items(), ("upper", "lower, pale"),
                                                  strict=True)]  # fmt: skip
    for handles, down in ((levels, 0.22), (kinds, 0.44)):
        canvas.legend(handles=handles, loc="upper right", bbox_to_anchor=(0.985, 1 - down / height),
                      frameon=False, ncols=len(handles), fontsize=7.5, handletextpad=0.3,
                      columnspacing=1.2, borderpad=0, handlelength=1.2)  # fmt: skip


def _draw_cell(ax: Axes, cell: Level, place: int) -> None:
    if cell.units is None:
        return
    level = NOMINAL if cell.verdict.startswith(NOMINAL) else cell.level
    style = dict(LEVELS[level])
    if cell.level == "DRAM":
        style["mfc"] = style_of(kernel_name(cell.variant)).color
    shift, alpha = HEIGHTS[cell.kind]
    y = place + shift
    if cell.units > ax.get_xlim()[1]:
        ax.set_xlim(-0.25, cell.units * 1.08)
    order = 3 + list(LEVELS).index(level) / 10
    ax.plot(cell.units, y, ls="", alpha=alpha, zorder=order, **style)
    mark(ax, [cell.units], [y], [asdict(cell) | {"units": cell.units}])


# Reads at DRAM against N and against M: where L2 stops serving the second pass.


def _dram_reads(records: Records, frame: pd.DataFrame) -> list[Page]:
    pages = []
    own = _by_operation(records, frame).get(OPERATION, Records()).counters
    for gpu in sorted({c.gpu for c in own}):
        counters = [c for c in own if c.gpu == gpu and c.rows and c.cols]
        panels = {over: lines for over in LETTER if (lines := series(counters, over))}
        if not panels:
            continue
        card, launches = card_of(gpu), launches_of(frame, gpu)
        dtypes = sorted({c.dtype for lines in panels.values() for c in _flat(lines)})
        draw = partial(_draw_panels, panels=panels, card=card, launches=launches)
        small = [DOT.join([card.name, _source_of(counters)]), L2_NOTE]
        name, subtitle = f"dram_reads-{slug(gpu)}", DOT.join([card.name, ", ".join(dtypes)])
        pages.append(Page(name, DRAM_TITLE, subtitle, small, draw, (7.2, 3.8), gpu))
    return pages


def series(counters: Sequence[Counters], over: str) -> dict[str, Line]:
    """Lines by variant over one size, at the dtype and other size that most points share.

    None, an empty dictionary, where no variant was measured at two sizes.
    """
    places: dict[tuple[str, int], dict[str, Line]] = defaultdict(lambda: defaultdict(list))
    for record in sorted(counters, key=lambda c: (c.rows, c.cols)):
        places[record.dtype, getattr(record, OTHER_SIDE[over])][record.kernel].append(record)
    candidates = [
        {variant: line for variant, line in lines.items() if len(line) > 1}
        for _, lines in sorted(places.items())
    ]
    best = max(candidates, key=lambda lines: len(_flat(lines)), default={})
    return {variant: best[variant] for variant in sorted(best, key=variant_order)}


def launches_of(frame: pd.DataFrame, gpu: str) -> Launches:
    """Rows in flight by variant and dtype, of its largest recorded matrix: a full card."""
    card, mine = card_of(gpu), frame[(frame["gpu"] == gpu) & (frame["status"] == "ok")]
    ordered = sorted(records_of(mine), key=lambda row: row["rows"] * row["cols"])
    found = {_launch_of(row): rows_in_flight(row, card) for row in ordered}
    return {key: flying for key, flying in found.items() if flying}


def _launch_of(record: Mapping[str, Any]) -> tuple[str, ...]:
    """What a row and a record of the same variant and dtype share: kernel, params, dtype."""
    name, params, _, _, dtype = key_of(record)
    return name, params, dtype


def edge(over: str, line: Line, in_flight: float, card: Card) -> float:
    """The size at which rows in flight × row bytes = L2, NaN where it is never reached.

    Over N more columns make a row wider; over M more rows fill the card up to ``in_flight``.
    """
    elements = (card.l2_bytes or math.nan) / ITEM_BYTES[line[0].dtype]
    if over == "cols":
        return elements / in_flight
    rows = elements / line[0].cols
    return rows if rows <= in_flight else math.nan


def _draw_panels(
    canvas: Canvas, panels: Mapping[str, dict[str, Line]], card: Card, launches: Launches
) -> None:
    width = 0.80 / len(panels)
    for i, (over, lines) in enumerate(panels.items()):
        ax = canvas.add_axes((0.07 + i * (width + 0.02), 0.205, width - 0.04, 0.60))
        _draw_reads(ax, over, lines, card, launches)
    drawn = {line.get_label(): line for ax in canvas.axes for line in ax.get_lines()}
    names = list(dict.fromkeys(v for lines in panels.values() for v in lines))
    canvas.legend([drawn[v] for v in names], names, loc="upper left", fontsize=7.5,
                  frameon=False, bbox_to_anchor=(0.85, 0.83), handlelength=1.6)  # fmt: skip


def _draw_reads(
    ax: Axes, over: str, lines: Mapping[str, Line], card: Card, launches: Launches
) -> None:
    sizes = sorted({getattr(c, over) for c in _flat(lines)})
    ends = (sizes[0] / 1.15, sizes[-1] * 1.15)
    ax.set_xscale("log", base=2)
    ax.set_xlim(*ends)
    for variant, line in lines.items():
        style = style_of(kernel_name(variant))
        seen = {getattr(c, over): c for c in line}
        # between two sizes some way apart nobody knows where the step is: no line there
        x = sizes
        y = [_reads(seen[size]) if size in seen else math.nan for size in x]
        ax.plot(x, y, label=variant, zorder=3, lw=1.3,
                **style.dots(ls="-", color=style.color, mew=0.6))  # fmt: skip
        mark(
            ax, x, y, [seen[n].model_dump() | {"variant": variant} if n in seen else {} for n in x]
        )
        at = edge(over, line, launches.get(_launch_of(line[0].model_dump()), math.nan), card)
        rereads = any(c.model_reads > 1.5 * c.rows * c.cols for c in line)
        if rereads and ends[0] < at < ends[1]:
            ax.axvline(at, color=style.color, lw=1.2, ls=(0, (1, 1.5)), zorder=2)
    fixed = getattr(_flat(lines)[0], OTHER_SIDE[over])
    write(
        ax,
        0,
        1.03,
        f"reads at DRAM, MN (lower is better){DOT}{LETTER[OTHER_SIDE[over]]} = {fixed}",
        7.5,
    )
    ax.set_ylim(0, None)
    if ax.get_ylim()[1] <= 100:  # a record may claim any count, and ticks take memory
        ax.yaxis.set_major_locator(MultipleLocator(1))
    ticks(ax.xaxis, sizes[:: 1 + (len(sizes) - 1) // 6], size_label)
    ax.set_xlabel(SIZES[over])
    ax.grid(axis="y", color=FAINT)
    sns.despine(ax=ax, left=True)


def _reads(seen: Counters) -> float:
    return seen.dram_read_bytes / (seen.rows * seen.cols * ITEM_BYTES[seen.dtype])


def _flat(lines: Mapping[str, Line]) -> Line:
    return [record for line in lines.values() for record in line]


# The order in which kernels touch a row.


def one_row(trace: Trace) -> list[Access]:
    """The accesses to the first row, in order; what one row goes through, all do."""
    first = min((access.row for access in trace.accesses), default=0)
    return [access for access in trace.accesses if access.row == first]


def whole_trips(accesses: Sequence[Access], cols: int) -> int:
    """Trips of a whole row to or from memory: loads or stores of one tensor in one pass."""
    touched: dict[tuple[int, str, str], set[int]] = defaultdict(set)
    for a in accesses:
        touched[a.sweep, a.kind, a.tensor].update(range(a.first, a.last + 1))
    return sum(len(columns) == cols for columns in touched.values())


def _a_fig1(records: Records, _: pd.DataFrame) -> list[Page]:
    naive = _trace(records, "naive")
    fused = _trace(records, "fused") or _trace(records, "fused_row")
    if naive is None or fused is None:
        return []
    pair = [naive, fused]

    def draw(canvas: Canvas) -> None:
        widths = [len(one_row(trace)) + 0.6 for trace in pair]
        left, gap, room = 0.085, 0.07, 0.895 - 0.07
        for trace, width in zip(pair, widths, strict=True):
            share = min(max(room * width / sum(widths), 0.18), room - 0.18)
            accesses = one_row(trace)
            single = sum(a.first == a.last for a in accesses)
            title = f"{kernel_name(trace.kernel)}: {whole_trips(accesses, trace.cols)} trips"
            title += f" of a whole row, {single} of one element" if single else ""
            _draw_row(canvas.add_axes((left, 0.225, share, 0.475)), trace, title)
            left += share + gap
        _legend(canvas)

    subtitle = DOT.join([naive.dtype, f"one row of N = {naive.cols}", "from counted traces"])
    small = [_traced_from(pair), TRACED_NOTE, A_NOTE]
    return [Page("a_fig1", "Trips to memory: naive and fused", subtitle, small, draw, (6.6, 3.2))]


def _b_fig1(records: Records, _: pd.DataFrame) -> list[Page]:
    online = _trace(records, "online")
    if online is None:
        return []

    def draw(canvas: Canvas) -> None:
        ax = canvas.add_axes((0.085, 0.225, 0.895, 0.475))
        _draw_row(ax, online, "the kernel's maximum m and sum d after each chunk", statistics=True)
        _legend(canvas)

    parts = [*online.kernel.split(","), online.dtype, f"one row of N = {online.cols}"]
    title, small = "The two passes of online softmax", [_traced_from([online]), TRACED_NOTE]
    return [Page("b_fig1", title, DOT.join(parts), small, draw, (5.8, 3.2))]


def _draw_row(ax: Axes, trace: Trace, title: str, statistics: bool = False) -> None:
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
        ax.add_patch(Rectangle((i + 0.09, a.first), 0.82, size, color=KINDS[a.kind], lw=0))
        texts = [a.tensor]
        if statistics and a.kind == "load" and a.sweep == accesses[0].sweep:
            kept = [(letter, (a.state or {}).get(name)) for letter, name in STATISTICS]
            texts += [f"{s} = {float(v):.3g}" for s, v in kept if isinstance(v, float | str)]
        inside = size / trace.cols > 0.2
        ax.text(i + 0.5, (a.first + a.last + 1) / 2 if inside else a.last + 1.12, "\n".join(texts),
                ha="center", va="center" if inside else "bottom", fontsize=6.2,
                rotation=0 if statistics else 90, color="white" if inside else INK)  # fmt: skip
    ax.set_xlim(0, len(accesses))
    ax.set_ylim(0, trace.cols)
    ax.xaxis.set_major_locator(NullLocator())
    ax.set_yticks([0, trace.cols], ["0", f"N = {trace.cols}"], fontsize=7)
    ax.set_xlabel("order of access →", fontsize=8)
    write(ax, 0, 1.15, title, color=INK)
    sns.despine(ax=ax, left=True)


def _trace(records: Records, kernel: str) -> Trace | None:
    found = [t for t in records.traces if kernel_name(t.kernel) == kernel and t.accesses]
    return max(found, key=lambda trace: trace.rows, default=None)  # the seeded one of four rows


def _traced_from(traces: Sequence[Trace]) -> str:
    sources = [f"{t.kernel} (source {t.source[:8]})" for t in traces]
    return DOT.join([*sources, f"traces {records_hash(traces)}"])


def _legend(canvas: Canvas) -> None:
    """Load and store, top right."""
    kinds = [Patch(color=color, label=kind) for kind, color in KINDS.items()]
    canvas.legend(handles=kinds, loc="upper right", bbox_to_anchor=(0.985, 0.985), ncols=2,
                  frameon=False, fontsize=8, handlelength=1, columnspacing=1.2)  # fmt: skip


TRAFFIC_FIGURES = (
    Figure(
        "traffic",
        "traffic needs counts.jsonl or counters.jsonl",
        _levels,
        "What every variant moves, in units of MN elements: as its model says, as counted by "
        "executing it, and as L2's and DRAM's counters saw it.",
    ),
    Figure(
        "dram_reads",
        "dram_reads needs counters.jsonl of a variant at two N or two M",
        _dram_reads,
        "Bytes that DRAM's counters saw read, in units of MN, by row width and by rows: L2 serves "
        "a second pass as long as the rows in flight fit in it.",
    ),
    Figure(
        "a_fig1",
        "a_fig1 needs traces of naive and fused: traces.jsonl",
        _a_fig1,
        f"Figure 1 of {name_of('A')} from traces of the real kernels: the trips to memory that one "
        "row makes in naive and in fused softmax.",
    ),
    Figure(
        "b_fig1",
        "b_fig1 needs a trace of online: traces.jsonl",
        _b_fig1,
        f"Figure 1 of {name_of('B')} from a trace of the real kernel: online softmax loads a row's "
        "chunks once for the statistics and once more to normalise and store.",
    ),
)
