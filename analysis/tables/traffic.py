"""Traffic as a table: variant × modelled, counted, L2 and DRAM, in units of MN and in bytes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from analysis.figures.style import variant_order
from analysis.format import NamedTable, Table, thousands
from analysis.load import Inputs
from analysis.traffic.levels import KINDS, Level, backends, counted_beside, levels_of

Place = tuple[str, int, int, str, str]  # variant, M, N, dtype, GPU
TITLE = "Traffic: modelled, counted, measured"
COLUMNS = (
    ("modelled", "reads"), ("modelled", "writes"), ("counted", "reads"), ("counted", "writes"),
    ("L2", "reads"), ("DRAM", "reads"), ("DRAM", "writes"),
)  # fmt: skip
NOTES = (
    "Each cell: units of MN elements (bytes), then whether it agrees with the model within 1 %, "
    "or why not.",
    "Counted is at the counted shape of the same case nearest in size; counting takes small ones. "
    "Nominal: each operation of PyTorch reads its inputs and writes its outputs once; what "
    "its kernels request was not counted.",
    "DRAM is judged on its reads: its writes lag, as the last lines are still dirty in L2 when a "
    "kernel ends.",
)


def traffic(inputs: Inputs) -> list[NamedTable]:
    """One line per variant and shape for people, one per cell for machines."""
    seen = levels_of(inputs.records, backends(inputs.frame))
    return [NamedTable("traffic", wide_table(seen), long_table(seen))]


def wide_table(seen: Sequence[Level]) -> Table:
    """One line per variant and shape: where counters saw a variant, else where it was counted."""
    by_place: dict[Place, dict[tuple[str, str], Level]] = defaultdict(dict)
    for cell in seen:
        by_place[_place(cell)][cell.level, cell.kind] = cell
    measured = {place for place in by_place if place[4]}
    known = {(variant, dtype) for variant, _, _, dtype, _ in measured}
    counted = sorted(set(by_place) - measured, key=lambda p: (-p[1] * p[2], str(p)))
    # of the others the largest counted shape in each dtype
    largest = {(p[0], p[3]): p for p in reversed(counted) if (p[0], p[3]) not in known}
    lines = []
    for place in sorted(measured | set(largest.values()), key=_order):
        variant, rows, cols, dtype, gpu = place
        mine = by_place[place]
        for kind in KINDS:
            if beside := counted_beside(seen, mine["modelled", kind]):
                mine["counted", kind] = beside
        texts = [_text(mine.get(column)) for column in COLUMNS]
        lines.append([variant, f"{rows}×{cols}", dtype, gpu or "any", *texts])
    heads = ["variant", "M×N", "dtype", "GPU", *(f"{level} {kind}" for level, kind in COLUMNS)]
    return Table(TITLE, heads, lines, NOTES)


def long_table(seen: Sequence[Level]) -> Table:
    """One line per cell."""
    heads = ["variant", "rows", "cols", "dtype", "gpu", "level", "kind", "units_of_mn", "bytes",
             "model_bytes", "verdict"]  # fmt: skip
    order = sorted(seen, key=lambda c: (*_order(_place(c)), COLUMNS.index((c.level, c.kind))))
    lines = [
        [c.variant, str(c.rows), str(c.cols), c.dtype, c.gpu, c.level, c.kind,
         "" if c.units is None else f"{c.units:.4f}", "" if c.size is None else str(c.size),
         str(c.model), c.verdict]
        for c in order
    ]  # fmt: skip
    return Table(TITLE, heads, lines)


def size_text(size: int) -> str:
    """Bytes with a unit of a thousand: 537 MB."""
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}" if size < 1000 * unit else f"{size / unit:,.0f} GB"
    return f"{thousands(size)} B"


def _text(cell: Level | None) -> str:
    if cell is None:
        return "–"
    if cell.units is None or cell.size is None:
        return cell.verdict
    text = f"{cell.units:.3f} ({size_text(cell.size)})"
    return f"{text}, {cell.verdict}" if cell.verdict else text


def _place(cell: Level) -> Place:
    return cell.variant, cell.rows, cell.cols, cell.dtype, cell.gpu


def _order(place: Place) -> tuple[bool, str, str, int, int, tuple[int, str]]:
    variant, rows, cols, dtype, gpu = place
    return not gpu, gpu, dtype, -rows * cols, cols, variant_order(variant.replace(",", " "))
