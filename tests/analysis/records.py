"""The records of an H200, as counting and its counters gave them."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from experiments.data.files import read_models
from experiments.data.records import TRACES, Count, Counters, Record, Trace, write_records
from tests.conftest import REFERENCE


def recorded(name: str, kind: type[Any]) -> list[Any]:
    """All records of a file, without tunables, as `plausible.row`."""
    return [one.model_copy(update={"params": {}}) for one in read_models(REFERENCE / name, kind)]


def h200() -> list[Counters]:
    """What the counters saw: kernels that move about as much as their models say."""
    return recorded("h200/counters.jsonl", Counters)


def count(kernel: str, **changes: Any) -> Count:
    """A count of 5×8192 float32, with changes: the model's, but for naive's int64 indices."""
    place = kernel, 5, 8192, "float32"
    every = recorded("counts/counts.jsonl", Count)
    one = next(c for c in every if (c.kernel, c.rows, c.cols, c.dtype) == place)
    return Count.model_validate(one.model_dump() | changes)


def trace(kernel: str) -> Trace:
    """The recorded accesses of a kernel, at the most rows."""
    traces = read_models(REFERENCE / "counts" / TRACES, Trace)
    return next(one for one in traces if one.kernel.split(",")[0] == kernel)


def record_files(folder: Path, **records: Iterable[Record]) -> Path:
    """``counts=``, ``traces=`` and ``counters=`` as files of these names; returns the folder."""
    for name, found in records.items():
        write_records(folder / f"{name}.jsonl", found)
    return folder
