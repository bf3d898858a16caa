"""A row: one measured point, one JSON object a line. The only place that defines its fields."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

SCHEMA_VERSION = 1

Status = Literal[
    "ok", "incorrect", "unsupported", "out_of_memory", "compile_error", "launch_error", "timeout",
    "crashed",
]  # fmt: skip
EXPECTED: frozenset[str] = frozenset({"ok", "unsupported"})


class RowsError(Exception):
    """A rows file that cannot be read, with its file and line."""


class Row(BaseModel):
    """One attempt at one point. Sizes in elements, memory in bytes, times in microseconds."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    # identity
    schema_version: Literal[1] = 1
    key: str = Field(description="hash of everything that decides the measurement")
    card: int = Field(ge=0, description="index of the card on its host; on Slurm, in the sweep")
    round: int = Field(ge=0)
    attempt: int = Field(ge=1)
    sweep: str
    operation: str
    kernel: str
    params: dict[str, Any]
    rows: int = Field(ge=0)
    cols: int = Field(ge=0)
    dtype: str
    # outcome
    status: Status
    reason: str | None = None
    suspect: list[str] = []
    # place
    device: Literal["cuda", "cpu"]
    gpu: str = Field(description="the device's name as its driver reports it")
    backend: str
    environment: dict[str, Any] = {}
    # time
    timer: Literal["events", "graph", "host"] | None = None
    cache: Literal["cold", "warm"] | None = None
    samples_us: list[float] | None = None
    late: int | None = Field(None, description="windows that opened before the call was there")
    time_us: float | None = Field(None, gt=0)
    time_low_us: float | None = Field(None, gt=0)
    time_high_us: float | None = Field(None, gt=0)
    stop_reason: str | None = None
    compile_s: float | None = None
    sampling_s: float | None = None
    wall_s: float | None = None
    # traffic
    model_reads: int | None = None
    model_writes: int | None = None
    model_formula: str | None = None
    model_bytes: int | None = None
    compulsory_bytes: int | None = None
    # launch
    programs: int | None = None
    warps: int | None = None
    registers: int | None = None
    shared_bytes: int | None = None
    spills: int | None = None
    # error
    max_abs_error: float | None = None
    relative_error: float | None = None
    # machine state
    sm_clock_before_mhz: float | None = Field(None, description="before sampling, others after")
    sm_clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    power_w: float | None = None
    temperature_before_c: float | None = None
    temperature_c: float | None = None
    throttled: list[str] | None = None
    other_processes: int | None = Field(None, description="foreign compute processes on the card")

    @property
    def identity(self) -> tuple[str, int, int]:
        """What makes it the same point: key, card and round; attempts repeat it."""
        return self.key, self.card, self.round

    @property
    def expected(self) -> bool:
        """Whether the point is done: measured, or known to be out of the variant's reach."""
        return self.status in EXPECTED


def rows_files(folder: Path) -> list[Path]:
    """Every rows file below a folder, in order; a tracker's copies below ``wandb/`` are none."""
    if folder.is_file():
        return [folder]
    found = folder.rglob("rows.jsonl")
    return sorted(p for p in found if "wandb" not in p.relative_to(folder).parts)


def read_rows(path: Path) -> Iterator[Row]:
    """The rows of one file. A last line cut short by a crash is passed over.

    Raises:
        RowsError: any other line is not a row of this schema; it names file and line.
    """
    with path.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                yield parse_row(line)
            except (ValueError, RecursionError) as error:
                if not line.endswith("\n"):
                    return
                raise RowsError(f"{path}:{number}: {error}") from None


def parse_row(line: str) -> Row:
    """One line as a row.

    Raises:
        ValueError: in one line, what is wrong with it.
    """
    try:
        data = json.loads(line, parse_int=_whole)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at column {error.colno}") from None
    if not isinstance(data, dict):
        raise ValueError(f"a row is a JSON object, not {type(data).__name__}")
    version = data.get("schema_version")
    if version != SCHEMA_VERSION:
        raise ValueError(f"schema_version {version!r}; this version reads {SCHEMA_VERSION}")
    try:
        return Row.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise ValueError(f"field {field!r}: {first['msg']}") from None


def _whole(digits: str) -> int:
    if len(digits) <= 20 and -(2**63) <= int(digits) < 2**63:
        return int(digits)
    raise ValueError(f"{digits[:20]}… is beyond 64 bits")
