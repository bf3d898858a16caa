"""Records as counting and an H200's counters might give them, built through the real models."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from experiments.data.records import (
    Access,
    Count,
    Counters,
    Record,
    Trace,
    write_records,
)

ITEM = {"float32": 4, "float16": 2, "bfloat16": 2}
# Matrix passes: reads and writes of the model, of all others one each.
MODEL = {
    "naive": (5, 3),
    "naive_script": (5, 3),
    "three_pass": (3, 1),
    "hybrid": (3, 1),
    "online": (2, 1),
    **dict.fromkeys(("torch", "compiled", "fused", "fused_row", "copy", "copy_triton"), (1, 1)),
}


def _record(kernel: str, rows: int, cols: int, dtype: str) -> dict[str, Any]:
    reads, writes = MODEL[kernel]
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
    return [counters(kernel, *shape, *MODEL[kernel]) for shape in SHAPES for kernel in kernels]


def trace(kernel: str) -> Trace:
    """A call's accesses to one row of eight columns."""
    one, wide, chunks = (0, 0), (0, 7), ((0, 3), (4, 7))
    found: list[tuple[int, str, str, tuple[int, int]]] = []  # sweep, kind, tensor, columns
    if kernel == "naive":
        steps = (("x", "max"), ("x max", "sub"), ("sub", "exp"), ("exp", "sum"), ("exp sum", "y"))
        for sweep, (loads, stored) in enumerate(steps):
            for kind, names in (("load", loads), ("store", stored)):
                for name in names.split():
                    found.append((sweep, kind, name, one if name in ("max", "sum") else wide))
    elif kernel == "online":
        found += [(0, "load", "x", columns) for columns in chunks]
        found += [
            (1, kind, name, columns)
            for columns in chunks
            for kind, name in (("load", "x"), ("store", "y"))
        ]
    else:
        found += [(0, "load", "x", wide), (0, "store", "y", wide)]
    names = ("sweep", "kind", "tensor", "first", "last")
    accesses = [
        Access(program=0, row=0, **dict(zip(names, (*at, *columns), strict=True)))
        for *at, columns in found
    ]
    fields = _record(kernel, 4, 8, "float32")
    fields = {k: v for k, v in fields.items() if not k.startswith("model_")}
    return Trace(**fields, accesses=accesses)


def record_files(folder: Path, **records: Iterable[Record]) -> Path:
    """``counts=``, ``traces=`` and ``counters=`` as files of these names; returns the folder."""
    for name, found in records.items():
        write_records(folder / f"{name}.jsonl", found)
    return folder
