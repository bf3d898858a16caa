"""The records of an H200, as counting and its counters gave them, with changes."""

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from experiments.data.files import read_models
from experiments.data.records import TRACES, Count, Counters, Record, Trace, write_records
from tests.conftest import ROOT

REFERENCE = ROOT / "outputs" / "reference"


@cache
def recorded(name: str, kind: type[Any]) -> dict[tuple[str, int, int, str], Any]:
    """All records of a file by kernel, shape and dtype, without tunables, as `plausible.row`."""
    found = (one.model_copy(update={"params": {}}) for one in read_models(REFERENCE / name, kind))
    return {(one.kernel, one.rows, one.cols, one.dtype): one for one in found}


def h200() -> list[Counters]:
    """What the counters saw: kernels that move about as much as their models say."""
    return [*recorded("h200/counters.jsonl", Counters).values()]


def count(kernel: str, rows: int = 5, cols: int = 8192, **changes: Any) -> Count:
    """A count that is the model's, but for naive's int64 indices."""
    one = recorded("counts/counts.jsonl", Count)[kernel, rows, cols, "float32"]
    return Count.model_validate(one.model_dump() | changes)


def counters(
    kernel: str, rows: int, cols: int, reads: float, writes: float, **changes: Any
) -> Counters:
    """What DRAM saw, in units of MN."""
    one = recorded("h200/counters.jsonl", Counters)[kernel, rows, cols, "float32"]
    seen = {"dram_read_bytes": int(reads * rows * cols * 4)}
    seen["dram_write_bytes"] = int(writes * rows * cols * 4)
    return Counters.model_validate(one.model_dump() | seen | changes)


def trace(kernel: str) -> Trace:
    """The recorded accesses of a kernel, at the most rows."""
    traces = read_models(REFERENCE / "counts" / TRACES, Trace)
    return next(one for one in traces if one.kernel.split(",")[0] == kernel)


def record_files(folder: Path, **records: Iterable[Record]) -> Path:
    """``counts=``, ``traces=`` and ``counters=`` as files of these names; returns the folder."""
    for name, found in records.items():
        write_records(folder / f"{name}.jsonl", found)
    return folder
