"""What was counted and what counters saw: records beside the rows, each with a schema of its own.

``counts.jsonl`` holds what a variant's code requested, counted by executing it; ``traces.jsonl``
the order of those requests at small shapes, with the values that they moved and what the kernel
kept between them; ``counters.jsonl`` what a card's memory system moved. Analysis reads them as it
reads rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from experiments.data.rows import RowsError


class Record(BaseModel):
    """What all records share: which variant at which shape. Sizes in elements."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    schema_version: Literal[1] = 1
    kernel: str = Field(description="the kernel's label: its name and the tunables that were set")
    operation: str
    params: dict[str, Any]
    source: str = Field(description="hash of the kernel's source, as in a row's key")
    rows: int = Field(ge=0)
    cols: int = Field(ge=0)
    dtype: str


class TensorCount(BaseModel):
    """Requests to one tensor of a call: elements and bytes, masked-off lanes left out."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(description="x, y, or what an eager operation made, e.g. max.indices")
    dtype: str
    loads: int
    stores: int
    load_bytes: int
    store_bytes: int


class Count(Record):
    """What one call requested.

    ``reason`` says why it cannot be counted (method ``none``, no tensors) or is only nominal.
    """

    method: Literal["interpreter", "dispatch", "none"]
    reason: str | None = None
    tensors: list[TensorCount] = []
    model_reads: int
    model_writes: int
    difference: str | None = Field(None, description="how the count differs from the model, if so")


# What JSON has no number for goes by its name.
Number = float | Literal["inf", "-inf", "nan"]


class Access(BaseModel):
    """One load or store of one program, in the order it was executed.

    ``maximum`` and ``total`` are recomputed from what was loaded; ``state`` is the kernel's own.
    Numbers are rounded to seven significant figures. Older records lack the fields below them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    program: int
    sweep: int = Field(description="which pass over its row, from 0")
    kind: Literal["load", "store"]
    tensor: str
    row: int
    first: int = Field(description="first column touched")
    last: int = Field(description="last column touched")
    maximum: Number | None = Field(None, description="of what the program has loaded of the row")
    total: Number | None = Field(None, description="of exp(x - maximum) over the same")
    values: list[Number] | None = Field(None, description="loaded or stored, by column")
    state: dict[str, Number | list[Number]] | None = Field(
        None, description="the program's floating-point variables after it, blocks as lists"
    )
    operation: str | None = Field(None, description="of PyTorch; None in a Triton program")


class Trace(Record):
    """The ordered accesses of one call at a small shape; older records have no input or model."""

    accesses: list[Access]
    input: list[list[Number]] | None = Field(None, description="the rows of x")
    model_reads: int | None = None
    model_writes: int | None = None
    model_formula: str | None = Field(None, description="reads and writes together, such as 3MN")


class Counters(Record):
    """What hardware counters saw of one call, summed over its launches; bytes, µs and percent."""

    gpu: str
    launches: int
    kernel_us: float
    dram_read_bytes: int
    dram_write_bytes: int
    l2_to_sm_bytes: int | None = None
    requested_load_bytes: int | None = None
    requested_store_bytes: int | None = None
    local_load_bytes: int | None = None
    local_store_bytes: int | None = None
    occupancy_percent: float | None = Field(None, description="achieved, weighted by kernel time")
    pipes_percent: dict[str, float] = Field({}, description="use of the arithmetic pipes")
    model_reads: int
    model_writes: int
    environment: dict[str, Any] = {}


R = TypeVar("R", bound=Record)


def read_records(path: Path, kind: type[R]) -> Iterator[R]:
    """The records of one file.

    Raises:
        RowsError: a line is no record of this kind; it names file and line.
    """
    with path.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                yield kind.model_validate(json.loads(line))
            except ValidationError as error:
                first = error.errors()[0]
                field = ".".join(map(str, first["loc"]))
                raise RowsError(f"{path}:{number}: field {field!r}: {first['msg']}") from None
            except (ValueError, RecursionError) as error:
                raise RowsError(f"{path}:{number}: not JSON: {error}") from None


def write_records(path: Path, records: Iterable[Record]) -> None:
    """Writes a whole file of records, in place of what it held."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(record.model_dump_json() + "\n" for record in records)
    scratch = path.with_suffix(".tmp")
    scratch.write_text(text, encoding="utf-8")
    scratch.replace(path)
