"""What each level saw a variant move at a shape: modelled, counted, L2, DRAM, and a verdict.

The verdict says whether what was counted or measured is what the model says, and if not, why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pandas as pd

from analysis.load import Records, kernel_name
from experiments.data.records import Count, Counters
from experiments.data.rows import ITEM_BYTES

KINDS = ("reads", "writes")
AGREES = 0.01  # asked of counters, and more than they vary by
SLACK_BYTES = 2**20  # at small shapes: launch parameters and code that counters see as well
NOMINAL = "nominal"  # how the verdict on a count of PyTorch's operations begins
LIBRARY = ("torch", "inductor", "torchscript")  # they choose algorithms, or fuse operations


@dataclass(frozen=True)
class Level:
    """Reads or writes of one variant and shape at one level."""

    variant: str  # the kernel's label
    rows: int
    cols: int
    dtype: str
    level: str  # ``modelled``, ``counted``, ``L2`` (between L2 and the SMs) or ``DRAM``
    kind: str  # ``reads`` or ``writes``
    size: int | None  # bytes, None where it cannot be counted
    model: int  # the model's bytes
    verdict: str  # ``exact``, ``agrees``, or why not in a few words; empty for the model itself
    gpu: str = ""  # whose counters saw it; empty for what no machine changes

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


def levels_of(records: Records, by_kernel: Mapping[str, str]) -> list[Level]:
    """Every level that counts and counters saw, and the model beside them.

    ``by_kernel`` has kernels' backends, see `backends`.
    """
    found = []
    every: list[Count | Counters] = [*records.counts, *records.counters]
    for record in every:
        if record.rows and record.cols:
            found += [_level(record, "modelled", k, _model_bytes(record, k), "") for k in KINDS]
            if isinstance(record, Count):
                found += _counted(record)
            else:
                found += _measured(record, by_kernel.get(kernel_name(record.kernel), ""))
    return list(dict.fromkeys(found))


def backends(frame: pd.DataFrame) -> Mapping[str, str]:
    """Backend by kernel, as rows say."""
    return dict(zip(frame["kernel"], frame["backend"], strict=True))


def counted_beside(levels: Iterable[Level], model: Level) -> Level | None:
    """The count of the variant of ``model`` whose case and size are nearest to it.

    A kernel with cases (one pass or three, by N) is counted in each; counting takes small shapes.
    """
    place = ("counted", model.variant, model.dtype, model.kind)
    alike = [one for one in levels if (one.level, one.variant, one.dtype, one.kind) == place]
    return min(
        alike,
        key=lambda c: (round(abs(c.model_units - model.model_units), 1), -c.rows * c.cols),
        default=None,
    )


def counted_verdict(kind: str, count: Count) -> str:
    """Whether what was requested is the model's, exactly or nominally (`Count.nominal`).

    int64 indices in excess have that name.

    Elements, not bytes: eager operations keep statistics of 16-bit rows in 32 bit.
    """
    differences = [text for text in (count.difference or "").split("; ") if text.startswith(kind)]
    model = count.model_reads if kind == "reads" else count.model_writes
    moved = [(t.dtype, t.loads if kind == "reads" else t.stores) for t in count.tensors]
    size = sum(elements for _, elements in moved)
    indices = sum(elements for dtype, elements in moved if dtype == "int64")
    only_indices = indices and size - indices == model
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


def _counted(count: Count) -> list[Level]:
    if count.method == "none":
        reason = (count.reason or "not countable").split(":")[0]
        return [_level(count, "counted", kind, None, reason) for kind in KINDS]
    sizes = (sum(t.load_bytes for t in count.tensors), sum(t.store_bytes for t in count.tensors))
    return [
        _level(count, "counted", kind, size, counted_verdict(kind, count))
        for kind, size in zip(KINDS, sizes, strict=True)
    ]


def _measured(seen: Counters, backend: str) -> list[Level]:
    sizes = [("L2", "reads", seen.l2_to_sm_bytes), ("DRAM", "reads", seen.dram_read_bytes),
             ("DRAM", "writes", seen.dram_write_bytes)]  # fmt: skip
    return [
        _level(seen, name, kind, size, measured_verdict(name, kind, size, seen, backend))
        for name, kind, size in sizes
        if size is not None
    ]


def _level(record: Count | Counters, name: str, kind: str, size: int | None, verdict: str) -> Level:
    gpu = record.gpu if isinstance(record, Counters) else ""
    return Level(record.kernel, record.rows, record.cols, record.dtype, name, kind, size,
                 _model_bytes(record, kind), verdict, gpu)  # fmt: skip


def _model_bytes(record: Count | Counters, kind: str) -> int:
    if isinstance(record, Count):
        size = record.model_read_bytes if kind == "reads" else record.model_write_bytes
        if size is not None:
            return size
    elements = record.model_reads if kind == "reads" else record.model_writes
    return elements * ITEM_BYTES[record.dtype]
