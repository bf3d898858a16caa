"""A row: one measured point, one JSON object per line. The only place that defines its fields.

A job's rows lie in a file of their own. A recording is a sweep in few files, as
``outputs/reference`` keeps it: ``rows.jsonl.gz`` holds the rows of all its jobs, one job after
another, and ``jobs.jsonl.gz`` has a line for each job: its folder's name, how many of the rows are
its own, and its configuration. The sweep's small records lie beside them as they were.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, model_validator

from experiments.data.files import (
    Amount,
    JsonObject,
    Name,
    RowsError,
    Size,
    Text,
    Time,
    Whole,
    Written,
    parse_json,
    read_json,
    read_lines,
    read_models,
    write_file,
)

ROWS, PACKED_ROWS = "rows.jsonl", "rows.jsonl.gz"  # of a job, and of a whole recording
CONFIG, JOBS = "config.json", "jobs.jsonl.gz"  # of a job, and of all jobs
COUNTERS = "counters.jsonl"
SMALL_FILES = ("sweep.json", "variants.json", COUNTERS)
Visit = tuple[str, int, int, int]  # which point of a job in which round: dtype, rows, cols, round

Status = Literal[
    "ok", "incorrect", "implausible", "unsupported", "out_of_memory", "compile_error",
    "launch_error", "timeout", "crashed",
]  # fmt: skip
EXPECTED: frozenset[str] = frozenset({"ok", "unsupported"})
ITEM_BYTES: dict[str, int] = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}
TIMERS = tuple(  # each timer is a module in experiments/worker/timers
    sorted(p.stem for p in Path(__file__).parents[1].glob("worker/timers/[a-z]*.py"))
)
Timer = Annotated[str, Field(pattern=f"^({'|'.join(TIMERS)})$")]
Dtype = Annotated[str, Field(pattern=f"^({'|'.join(ITEM_BYTES)})$")]
MOST_SAMPLES = 100_000  # at most 20 characters each, so they fill half of a line's `LINE_BYTES`
MOST_PASSES = 64  # passes over the operands: compulsory elements are at most 64 × (M×N + M + N)


class Row(Written):
    """One attempt at one point. Sizes in elements, memory in bytes, times in microseconds."""

    # identity
    schema_version: Literal[1] = 1
    key: Name = Field(description="hash of everything that decides the measurement")
    card: int = Field(ge=0, lt=2**16, description="index of the card on its host; on Slurm 0")
    round: int = Field(ge=0, lt=2**20)
    attempt: int = Field(ge=1, lt=2**20)
    sweep: Name
    operation: Name
    roof: Name | None = Field(None, description="the operation whose fastest kernel is the roof")
    kernel: Name
    params: JsonObject
    rows: Size
    cols: Size
    dtype: Dtype
    # outcome
    status: Status
    reason: Text | None = None
    suspect: list[Text] = Field([], max_length=100)
    # place
    device: Literal["cuda", "cpu"]
    gpu: Name = Field(description="the device's name as its driver reports it")
    host_cards: Whole | None = Field(None, description="cards that NVML shows on the host")
    backend: Name
    environment: JsonObject = {}
    # order
    sequence: Whole | None = Field(None, description="number of earlier rows in the sweep's folder")
    started: Text | None = Field(None, description="when measuring began, UTC, to the second")
    # time
    timer: Timer | None = None
    cache: Literal["cold", "warm"] | None = None
    samples_us: list[Annotated[float, Field(ge=-1e15, le=1e15)]] | None = None
    late: Whole | None = Field(None, description="disturbed windows: host late, or a core taken")
    time_us: Time | None = None
    time_low_us: Time | None = None
    time_high_us: Time | None = None
    stop_reason: Name | None = None
    compile_s: Amount | None = None
    sampling_s: Amount | None = None
    wall_s: Amount | None = None
    # traffic
    model_reads: Whole | None = None
    model_writes: Whole | None = None
    model_formula: Text | None = None
    model_bytes: Whole | None = None
    compulsory_bytes: Whole | None = None
    flops: Whole | None = Field(None, description="of the operation, if they may bound its time")
    exponentials: Whole | None = Field(None, description="as `flops`")
    peak_bytes: Whole | None = Field(None, description="peak memory of a call, without its inputs")
    # launch
    programs: Whole | None = None
    warps: Whole | None = None
    registers: Whole | None = None
    shared_bytes: Whole | None = None
    spills: Whole | None = None
    # error
    max_abs_error: float | None = Field(None, ge=0)
    relative_error: float | None = Field(None, ge=0)
    # whether answers have the same bits; null unless the sweep has determinism=true
    deterministic: bool | None = Field(None, description="in each of several calls")
    batch_invariant: bool | None = Field(None, description="for a row, whatever M it is part of")
    # machine state, after sampling unless the name says before
    sm_clock_before_mhz: Amount | None = None
    sm_clock_mhz: Amount | None = None
    memory_clock_mhz: Amount | None = None
    power_w: Amount | None = None
    temperature_before_c: float | None = Field(None, ge=-300, le=1000)
    temperature_c: float | None = Field(None, ge=-300, le=1000)
    throttled: list[Text] | None = Field(None, max_length=100)
    other_processes: Whole | None = Field(None, description="compute processes not of this sweep")

    @model_validator(mode="after")
    def _possible(self) -> Row:
        elements = self.rows * self.cols + self.rows + self.cols
        if (self.compulsory_bytes or 0) > MOST_PASSES * ITEM_BYTES[self.dtype] * elements:
            raise ValueError(f"compulsory_bytes is more than {MOST_PASSES} passes over the matrix")
        # the timer ``chain`` samples a difference of two times; noise may make it negative
        if self.timer != "chain" and min(self.samples_us or [0.0]) < 0:
            raise ValueError(f"samples_us below zero, by timer {self.timer}")
        return self

    @property
    def identity(self) -> tuple[str, int, int]:
        """Key, card and round: all attempts at the same point share them."""
        return self.key, self.card, self.round

    @property
    def recording(self) -> str:
        """The sweep, the card's index and, in newer rows, the card's ``mark`` (a hash of its UUID).

        A sweep that is resumed may find another card under the same index.
        """
        mark = self.environment.get("mark")
        return f"{self.sweep}/{self.card}" + ("" if mark is None else f"/{mark}")

    @property
    def expected(self) -> bool:
        """Whether the status is a final one: ``ok`` or ``unsupported``."""
        return self.status in EXPECTED


def rows_files(folder: Path) -> list[Path]:
    """Every file of rows below a folder, sorted; links to folders are not followed."""
    if folder.is_file():
        return [folder]
    return sorted([*folder.rglob(ROWS), *folder.rglob(PACKED_ROWS)])


def read_rows(path: Path) -> Iterator[Row]:
    """The rows of one file; see `read_models` for errors and torn lines."""
    return read_models(path, Row)


class RecordedJob(NamedTuple):
    """A job of a measured sweep or of a recording."""

    name: str  # its folder below the sweep's, such as ``wide/native-auto/online``
    config: dict[str, Any] | None  # what Hydra composed; None where it was not recorded
    rows: list[Row]  # in the order of writing

    @property
    def last(self) -> dict[Visit, Row]:
        """The last row of each visit."""
        return {(row.dtype, row.rows, row.cols, row.round): row for row in self.rows}


def pack(sweep: Path, out: Path) -> list[Path]:
    """Writes the sweep in a folder as a recording; returns the files written.

    Args:
        sweep: The sweep's folder: jobs with ``rows.jsonl`` below it, records in it.
        out: The recording's folder, which is made.

    Raises:
        RowsError: something in the folder is no row, or too large; it names file and line.
        OSError: a file cannot be written.
    """
    rows, jobs = "", ""
    for one in recorded_jobs(sweep):
        if isinstance(one.config, dict) and isinstance(one.config.get("tracker"), dict):
            one.config["tracker"]["entity"] = None  # the W&B account of whoever measured
        rows += "".join(f"{row.model_dump_json()}\n" for row in one.rows)
        jobs += json.dumps({"job": one.name, "rows": len(one.rows), "config": one.config}) + "\n"
    files = {PACKED_ROWS: gzip.compress(rows.encode(), mtime=0)}
    files[JOBS] = gzip.compress(jobs.encode(), mtime=0)
    for name in SMALL_FILES:
        paths = sorted(sweep.rglob(name))  # one of each shard, where Slurm ran them
        if paths and name == COUNTERS:
            files[name] = b"".join(path.read_bytes() for path in paths)
        elif paths:
            whole = {key: value for path in paths for key, value in read_json(path).items()}
            files[name] = (json.dumps(whole, indent=1, ensure_ascii=False) + "\n").encode()
    return [write_file(out / name, data) for name, data in files.items()]


def recorded_jobs(folder: Path) -> Iterator[RecordedJob]:
    """The jobs of a sweep, read from a recording or from the folder in which it was measured.

    Raises:
        RowsError: a line is no row or no job; the message names file and line.
    """
    if not (folder / JOBS).is_file():
        for path in rows_files(folder):
            config, name = path.with_name(CONFIG), path.parent.relative_to(folder).as_posix()
            found = read_json(config) if config.is_file() else None
            yield RecordedJob(name, found, list(read_rows(path)))
        return
    rows = read_rows(folder / PACKED_ROWS)
    for number, line, _ in read_lines(folder / JOBS):
        try:
            job = parse_json(line)
            own = [next(rows) for _ in range(job["rows"])]
            yield RecordedJob(str(job["job"]), job["config"], own)
        except (ValueError, LookupError, TypeError, StopIteration) as error:
            raise RowsError(
                f"{folder / JOBS}:{number}: no job of these rows: {error or 'too few rows'}"
            ) from None
