"""What one level saw of one variant at one shape, beside its model, and a verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from analysis.agreement import counted_verdict, measured_verdict, model_bytes
from analysis.load import Records, kernel_name
from experiments.data.records import Count, Counters
from experiments.data.rows import ITEM_BYTES

KINDS = ("reads", "writes")


@dataclass(frozen=True)
class Cell:
    """Reads or writes at one level.

    Attributes:
        variant: The kernel's label.
        rows: M.
        cols: N.
        dtype: As rows spell it.
        level: ``"modelled"``, ``"counted"``, ``"L2"`` (between L2 and the SMs) or ``"DRAM"``.
        kind: ``"reads"`` or ``"writes"``.
        size: Bytes, None where it cannot be counted.
        model: The model's bytes.
        verdict: ``"exact"``, ``"agrees"``, or why not in a few words; empty for the model itself.
        gpu: Whose counters saw it; empty for what no machine changes.
    """

    variant: str
    rows: int
    cols: int
    dtype: str
    level: str
    kind: str
    size: int | None
    model: int
    verdict: str
    gpu: str = ""

    @property
    def model_units(self) -> float:
        """The model in units of MN elements."""
        return self.model / (self.rows * self.cols * ITEM_BYTES[self.dtype])

    @property
    def units(self) -> float | None:
        """In units of MN elements."""
        if self.size is None:
            return None
        return self.size / (self.rows * self.cols * ITEM_BYTES[self.dtype])


def cells(evidence: Records, backends: Mapping[str, str]) -> list[Cell]:
    """Every cell that counts and counters fill, and the model beside them.

    Args:
        evidence: The records.
        backends: Backend by kernel name, from the rows.
    """
    found = []
    for count in evidence.counts:
        if count.rows and count.cols:
            found += _modelled(count, "") + _counted(count)
    for seen in evidence.counters:
        if seen.rows and seen.cols:
            found += _modelled(seen, seen.gpu)
            found += _measured(seen, backends.get(kernel_name(seen.kernel), ""))
    return list(dict.fromkeys(found))


def counted_beside(cells: Iterable[Cell], model: Cell) -> Cell | None:
    """The count of the variant of ``model`` whose case and size are nearest to it.

    A kernel with cases (one pass or three, by N) is counted in each; counting takes small shapes.
    """
    alike = [
        c for c in cells
        if (c.level, c.variant, c.dtype, c.kind)
        == ("counted", model.variant, model.dtype, model.kind)
    ]  # fmt: skip
    return min(alike, key=lambda c: (round(abs(c.model_units - model.model_units), 1),
                                     -c.rows * c.cols), default=None)  # fmt: skip


def _modelled(record: Count | Counters, gpu: str) -> list[Cell]:
    return [_cell(record, "modelled", k, model_bytes(record, k), "", gpu) for k in KINDS]


def _counted(count: Count) -> list[Cell]:
    if count.method == "none":
        reason = (count.reason or "not countable").split(":")[0]
        return [_cell(count, "counted", kind, None, reason, "") for kind in KINDS]
    told = []
    for kind in KINDS:
        size = sum(t.load_bytes if kind == "reads" else t.store_bytes for t in count.tensors)
        told.append(_cell(count, "counted", kind, size, counted_verdict(kind, count), ""))
    return told


def _measured(seen: Counters, backend: str) -> list[Cell]:
    sizes = [("L2", "reads", seen.l2_to_sm_bytes), ("DRAM", "reads", seen.dram_read_bytes),
             ("DRAM", "writes", seen.dram_write_bytes)]  # fmt: skip
    return [
        _cell(seen, level, kind, size, measured_verdict(level, kind, size, seen, backend), seen.gpu)
        for level, kind, size in sizes
        if size is not None
    ]


def _cell(
    record: Count | Counters, level: str, kind: str, size: int | None, verdict: str, gpu: str
) -> Cell:
    model = model_bytes(record, kind)
    return Cell(record.kernel, record.rows, record.cols, record.dtype, level, kind, size, model,
                verdict, gpu)  # fmt: skip
