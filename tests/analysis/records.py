"""Records as counting and an H200's counters might give them, built through the real models."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from experiments.data.files import read_models
from experiments.data.records import (
    TRACES,
    Count,
    Counters,
    Record,
    Trace,
    write_records,
)
from tests.analysis.plausible import ITEM, PASSES
from tests.conftest import ROOT


def passes(kernel: str) -> tuple[int, int]:
    """Matrix passes of the model, reads and writes."""
    writes = 3 if kernel.startswith("naive") else 1
    return PASSES[kernel][0] - writes, writes


def _record(kernel: str, rows: int, cols: int, dtype: str) -> dict[str, Any]:
    reads, writes = passes(kernel)
    statistics = 2 * rows if kernel.startswith("naive") else 0
    return {
        "kernel": kernel,
        "operation": "copy" if kernel.startswith("copy") else "softmax",
        "params": {},
        "source": "0123456789abcdef",
        "rows": rows,
        "cols": cols,
        "dtype": dtype,
        "model_reads": reads * rows * cols + statistics,
        "model_writes": writes * rows * cols + statistics,
    }


def count(kernel: str, rows: int = 5, cols: int = 8192, **changes: Any) -> Count:
    """A count that is the model's; naive's int64 indices beside it."""
    fields = _record(kernel, rows, cols, changes.get("dtype", "float32"))
    item = ITEM[fields["dtype"]]
    loads, stores = fields["model_reads"], fields["model_writes"]
    own = {"name": "x", "dtype": fields["dtype"], "loads": loads, "stores": stores}
    tensors = [own | {"load_bytes": loads * item, "store_bytes": stores * item}]
    if kernel == "naive":
        indices = {"name": "max.indices", "dtype": "int64", "loads": 0, "stores": rows}
        tensors.append(indices | {"load_bytes": 0, "store_bytes": 8 * rows})
    method = "dispatch" if kernel == "naive" else "interpreter"
    return Count.model_validate(fields | {"method": method, "tensors": tensors} | changes)


def counters(
    kernel: str, rows: int, cols: int, reads: float, writes: float, **changes: Any
) -> Counters:
    """What DRAM saw, in units of MN."""
    fields = _record(kernel, rows, cols, changes.get("dtype", "float32"))
    size = rows * cols * ITEM[fields["dtype"]]
    seen = {
        "gpu": "NVIDIA H200",
        "launches": 1,
        "kernel_us": 100.0,
        "dram_read_bytes": int(reads * size),
        "dram_write_bytes": int(writes * size),
        "l2_to_sm_bytes": fields["model_reads"] * ITEM[fields["dtype"]],
        "occupancy_percent": 80.0,
    }
    return Counters(**fields | seen | changes)


SHAPES = ((4096, 16384), (4096, 131072), (2048, 4096))


def h200() -> list[Counters]:
    """Five kernels that move what their models say."""
    kernels = ("naive", "torch", "fused_row", "online", "three_pass")
    return [counters(kernel, *shape, *passes(kernel)) for shape in SHAPES for kernel in kernels]


def trace(kernel: str) -> Trace:
    """The recorded accesses of a kernel, at the most rows."""
    recorded = read_models(ROOT / "outputs" / "reference" / "counts" / TRACES, Trace)
    return next(one for one in recorded if one.kernel.split(",")[0] == kernel)


def record_files(folder: Path, **records: Iterable[Record]) -> Path:
    """``counts=``, ``traces=`` and ``counters=`` as files of these names; returns the folder."""
    for name, found in records.items():
        write_records(folder / f"{name}.jsonl", found)
    return folder
