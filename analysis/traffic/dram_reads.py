"""Measured DRAM reads against N and against M: where L2 stops serving the second pass."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FixedLocator, FuncFormatter, MultipleLocator, NullLocator

from analysis.figure import slug
from analysis.lines import variant_order
from analysis.load import ITEM_BYTES, Records, kernel_name
from analysis.palette import FAINT, MUTED, look_of
from analysis.plate import Plate
from analysis.sheet import mark
from analysis.style import size_label
from analysis.traffic.figure import EvidenceFigure, counters_told
from analysis.traffic.launches import Launch, launch_of, launches_of
from experiments.data.cards import Card, card_of
from experiments.data.records import Counters

Line = list[Counters]
OTHER = {"cols": "rows", "rows": "cols"}
LETTER = {"cols": "N", "rows": "M"}


def _plates(evidence: Records, frame: pd.DataFrame) -> list[Plate]:
    plates = []
    for gpu in sorted({c.gpu for c in evidence.counters}):
        seen = [c for c in evidence.counters if c.gpu == gpu and c.rows and c.cols]
        found = {over: series(seen, over) for over in ("cols", "rows")}
        panels = {over: lines for over, lines in found.items() if lines}
        if not panels:
            continue
        card, launches = card_of(gpu), launches_of(frame, gpu)
        dtypes = sorted({c.dtype for lines in panels.values() for c in _flat(lines)})
        small = [
            f"{card.name}  ·  {counters_told(seen)}",
            "dotted: rows in flight × row bytes = L2, in the colour of its variant",
        ]

        def draw(
            canvas: Canvas,
            panels: Mapping[str, dict[str, Line]] = panels,
            card: Card = card,
            launches: Mapping[Launch, int] = launches,
        ) -> None:
            width = 0.80 / len(panels)
            for i, (over, lines) in enumerate(panels.items()):
                ax = canvas.add_axes((0.07 + i * (width + 0.02), 0.205, width - 0.04, 0.60))
                _panel(ax, over, lines, card, launches)
            _legend(canvas, [v for lines in panels.values() for v in lines])

        subtitle = f"{card.name}  ·  {', '.join(dtypes)}"
        title = "Reads at DRAM: where L2 stops serving the second pass"
        name = f"dram_reads-{slug(gpu)}"
        plates.append(Plate(name, title, subtitle, small, draw, (7.2, 3.8), gpu))
    return plates


def series(seen: Sequence[Counters], over: str) -> dict[str, Line]:
    """Lines by variant over one size, at the dtype and other size that most points share.

    None, an empty dictionary, where no variant was measured at two sizes.
    """
    places: dict[tuple[str, int], dict[str, Line]] = defaultdict(lambda: defaultdict(list))
    for record in seen:
        places[record.dtype, getattr(record, OTHER[over])][record.kernel].append(record)
    best: dict[str, Line] = {}
    for _, lines in sorted(places.items()):
        long = {
            v: sorted(r, key=lambda c: (c.rows, c.cols)) for v, r in lines.items() if len(r) > 1
        }
        if len(_flat(long)) > len(_flat(best)):
            best = long
    return dict(sorted(best.items(), key=lambda item: variant_order(item[0].replace(",", " "))))


def edge(over: str, line: Line, in_flight: int, card: Card) -> float | None:
    """The size at which rows in flight × row bytes = L2, None where it is never reached.

    Over N more columns make a row wider; over M more rows fill the card up to ``in_flight``.
    """
    if card.l2_bytes is None:
        return None
    item = ITEM_BYTES[line[0].dtype]
    if over == "cols":
        return card.l2_bytes / (in_flight * item)
    rows = card.l2_bytes / (line[0].cols * item)
    return rows if rows <= in_flight else None


def _panel(
    ax: Axes, over: str, lines: Mapping[str, Line], card: Card, launches: Mapping[Launch, int]
) -> None:
    sizes = sorted({getattr(c, over) for c in _flat(lines)})
    ax.set_xscale("log", base=2)
    ax.set_xlim(sizes[0] / 1.15, sizes[-1] * 1.15)
    for variant, line in lines.items():
        look = look_of(kernel_name(variant))
        x = [getattr(c, over) for c in line]
        y = [c.dram_read_bytes / (c.rows * c.cols * ITEM_BYTES[c.dtype]) for c in line]
        ax.plot(x, y, color=look.color, marker=look.marker, ms=look.size, mec="white", mew=0.6,
                lw=1.3, label=variant, zorder=3)  # fmt: skip
        mark(ax, x, y, [c.model_dump() | {"variant": variant} for c in line])
        flying = launches.get(launch_of(line[0].model_dump()), 0)
        rereads = any(c.model_reads > 1.5 * c.rows * c.cols for c in line)
        at = edge(over, line, flying, card) if flying and rereads else None
        if at is not None and ax.get_xlim()[0] < at < ax.get_xlim()[1]:
            ax.axvline(at, color=look.color, lw=1.2, ls=(0, (1, 1.5)), zorder=2)
    fixed = getattr(_flat(lines)[0], OTHER[over])
    ax.text(0, 1.03, f"DRAM reads, MN  ·  {LETTER[OTHER[over]]} = {fixed}",
            transform=ax.transAxes, fontsize=8, color=MUTED)  # fmt: skip
    ax.set_ylim(0, None)
    ax.yaxis.set_major_locator(MultipleLocator(1))
    ax.xaxis.set_major_locator(FixedLocator(sizes[:: 1 + (len(sizes) - 1) // 6]))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: size_label(value)))
    ax.set_xlabel({"cols": "row width N, elements", "rows": "rows M"}[over])
    ax.grid(axis="y", color=FAINT)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)


def _legend(canvas: Canvas, variants: Sequence[str]) -> None:
    drawn = {line.get_label(): line for ax in canvas.axes for line in ax.get_lines()}
    names = [v for v in dict.fromkeys(variants) if v in drawn]
    canvas.legend([drawn[v] for v in names], names, loc="upper left", fontsize=7.5, frameon=False,
                  bbox_to_anchor=(0.85, 0.83), handlelength=1.6)  # fmt: skip


def _flat(lines: Mapping[str, Line]) -> Line:
    return [record for line in lines.values() for record in line]


DRAM_READS = EvidenceFigure(
    "dram_reads",
    "dram_reads needs counters.jsonl of a variant at two N or two M",
    _plates,
    "Bytes that DRAM's counters saw read, in units of MN, by row width and by rows: L2 serves a "
    "second pass as long as the rows in flight fit in it.",
)
