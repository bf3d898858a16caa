"""Records beside the rows, each with its own schema: counted requests and hardware counters.

``counts.jsonl`` has the requests of a variant's code, counted by executing it; ``counters.jsonl``
the bytes that a card's memory system moved. ``traces.jsonl`` has the order of the requests at small
shapes; recorded ones are read, and no command writes new ones. Fields of older records that
nothing reads are ignored.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from pydantic import Field

from experiments.data.files import Amount, JsonObject, Name, Size, Text, Whole, Written, write_file
from experiments.data.rows import COUNTERS, Dtype, Row


class Record(Written):
    """The fields that all records share: the variant, and the shape in elements."""

    schema_version: Literal[1] = 1
    kernel: Name = Field(description="the kernel's label: its name and the tunables that were set")
    operation: Name
    params: JsonObject
    source: Name = Field(description="hash of the kernel's source, as in a row's key")
    rows: Size
    cols: Size
    dtype: Dtype


class TensorCount(Written):
    """The requests of a call to one tensor, in elements and bytes; masked-off lanes make none."""

    name: Name = Field(description="x, y, or what an eager operation made, e.g. max.indices")
    dtype: Name
    loads: Whole
    stores: Whole
    load_bytes: Whole
    store_bytes: Whole


class Count(Record):
    """The memory requests of one call, counted, beside those that the traffic model gives."""

    method: Literal["interpreter", "dispatch", "none"]
    reason: Text | None = Field(None, description="why it cannot be counted, or is nominal")
    tensors: list[TensorCount] = []
    model_reads: Whole
    model_writes: Whole
    model_read_bytes: Whole | None = Field(None, description="with arrays of a dtype of their own")
    model_write_bytes: Whole | None = None
    difference: Text | None = Field(None, description="how the count differs from the model, if so")

    @property
    def nominal(self) -> bool:
        """Whether it assumes that each PyTorch operation reads and writes its tensors once."""
        return self.method == "dispatch"


Number = float | Literal["inf", "-inf", "nan"]  # JSON cannot write these as numbers


class Access(Written, extra="ignore"):
    """One load or store by one Triton program: columns ``first`` to ``last`` of one row."""

    sweep: Whole = Field(description="which pass over its row, from 0")
    kind: Literal["load", "store"]
    tensor: Name
    row: Whole
    first: Whole
    last: Whole
    state: dict[str, Number | list[Number]] | None = Field(None, description="floats after it")


class Trace(Record, extra="ignore"):
    """The ordered accesses of one call at a small shape."""

    accesses: list[Access]


class Counters(Record, extra="ignore"):
    """The hardware counters of one call, summed over its kernel launches; bytes and µs."""

    gpu: Name
    launches: Whole
    kernel_us: Amount
    dram_read_bytes: Whole
    dram_write_bytes: Whole
    l2_to_sm_bytes: Whole | None = None
    model_reads: Whole
    model_writes: Whole
    environment: JsonObject = {}


COUNTS, TRACES = "counts.jsonl", "traces.jsonl"
KINDS: dict[str, type[Record]] = {COUNTS: Count, TRACES: Trace, COUNTERS: Counters}


def write_records(path: Path, records: Iterable[Record | Row]) -> None:
    """Writes the records to a file, one JSON line each, and replaces what it held."""
    write_file(path, "".join(record.model_dump_json() + "\n" for record in records))
