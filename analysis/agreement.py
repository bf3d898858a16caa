"""Whether what was counted or measured is what the model says, and if not, why."""

from __future__ import annotations

from experiments.data.records import Count, Counters, TensorCount
from experiments.data.rows import ITEM_BYTES

AGREES = 0.01  # asked of counters, and more than they vary by
SLACK_BYTES = 2**20  # at small shapes: launch parameters and code that counters see as well
LIBRARY = ("torch", "inductor", "torchscript")  # they choose algorithms, or fuse operations


def counted_verdict(kind: str, count: Count) -> str:
    """Whether requested elements are the model's; int64 indices in excess have that name.

    Elements, not bytes: eager operations keep statistics of 16-bit rows in 32 bit.
    """
    model = count.model_reads if kind == "reads" else count.model_writes
    size = sum(_elements(t, kind) for t in count.tensors)
    indices = sum(_elements(t, kind) for t in count.tensors if t.dtype == "int64")
    if size == model:
        return "nominal" if count.reason else "exact"
    if indices and size - indices == model:
        return "int64 indices"
    told = (count.difference or "").split("; ")
    return next((text for text in told if text.startswith(kind)), "unexplained")


def measured_verdict(level: str, kind: str, size: int, seen: Counters, backend: str) -> str:
    """Whether counters saw the model's bytes, else why not in a few words."""
    model = model_bytes(seen, kind)
    if agrees(size, model):
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


def agrees(size: int, model: int) -> bool:
    """Within 1 % of the model."""
    return abs(size - model) <= AGREES * model


def model_bytes(record: Count | Counters, kind: str) -> int:
    """The model's reads or writes, in bytes."""
    elements = record.model_reads if kind == "reads" else record.model_writes
    return elements * ITEM_BYTES[record.dtype]


def _elements(tensor: TensorCount, kind: str) -> int:
    return tensor.loads if kind == "reads" else tensor.stores
