"""Traffic as tables: variant × modelled, counted, L2 and DRAM, in units of MN and in bytes."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.cells import KINDS, Cell, counted_beside
from analysis.format import Table, thousands
from analysis.lines import variant_order

Place = tuple[str, int, int, str, str]
COLUMNS = (
    ("modelled", "reads"), ("modelled", "writes"), ("counted", "reads"), ("counted", "writes"),
    ("L2", "reads"), ("DRAM", "reads"), ("DRAM", "writes"),
)  # fmt: skip
NOTES = (
    "Each cell: units of MN elements (bytes), then whether it agrees with the model within 1 %, "
    "or why not.",
    "Counted is at the counted shape of the same case nearest in size; counting takes small ones.",
    "DRAM is judged on its reads: its writes lag, as the last lines are still dirty in L2 when a "
    "kernel ends.",
)


def wide_table(cells: Sequence[Cell]) -> Table:
    """One line a variant and shape, for reading."""
    heads = ["variant", "M×N", "dtype", "GPU", *(f"{level} {kind}" for level, kind in COLUMNS)]
    lines = []
    for place in sorted(_shown(cells), key=_sorting):
        mine = {(c.level, c.kind): c for c in cells if _place(c) == place}
        for kind in KINDS:
            if beside := counted_beside(cells, mine["modelled", kind]):
                mine["counted", kind] = beside
        variant, rows, cols, dtype, gpu = place
        told = [_text(mine.get(column)) for column in COLUMNS]
        lines.append([variant, f"{rows}×{cols}", dtype, gpu or "any", *told])
    return Table("Traffic: modelled, counted, measured", heads, lines, NOTES)


def _shown(cells: Sequence[Cell]) -> set[Place]:
    """Where counters saw a variant, else its largest counted shape in each dtype."""
    measured = {_place(c) for c in cells if c.gpu}
    seen = {(place[0], place[3]) for place in measured}
    for place in sorted(
        {_place(c) for c in cells if not c.gpu}, key=lambda p: (-p[1] * p[2], str(p))
    ):
        if (place[0], place[3]) not in seen:
            seen.add((place[0], place[3]))
            measured.add(place)
    return measured


def long_table(cells: Sequence[Cell]) -> Table:
    """One line a cell, for machines."""
    heads = ["variant", "rows", "cols", "dtype", "gpu", "level", "kind", "units_of_mn", "bytes",
             "model_bytes", "verdict"]  # fmt: skip
    ordered = sorted(cells, key=lambda c: (*_sorting(_place(c)), COLUMNS.index((c.level, c.kind))))
    lines = [
        [c.variant, str(c.rows), str(c.cols), c.dtype, c.gpu, c.level, c.kind,
         "" if c.units is None else f"{c.units:.4f}", "" if c.size is None else str(c.size),
         str(c.model), c.verdict]
        for c in ordered
    ]  # fmt: skip
    return Table("Traffic: modelled, counted, measured", heads, lines)


def size_text(size: int) -> str:
    """Bytes with a unit of a thousand: 537 MB."""
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}" if size < 1000 * unit else f"{size / unit:,.0f} GB"
    return f"{thousands(size)} B"


def _text(cell: Cell | None) -> str:
    if cell is None:
        return "–"
    if cell.units is None or cell.size is None:
        return cell.verdict
    told = f"{cell.units:.3f} ({size_text(cell.size)})"
    return f"{told}, {cell.verdict}" if cell.verdict else told


def _place(cell: Cell) -> Place:
    return cell.variant, cell.rows, cell.cols, cell.dtype, cell.gpu


def _sorting(place: Place) -> tuple[bool, str, str, int, int, tuple[int, str]]:
    variant, rows, cols, dtype, gpu = place
    return not gpu, gpu, dtype, -rows * cols, cols, variant_order(variant.replace(",", " "))
