"""Reads rows as one table with derived columns, and the records and declarations beside them.

A command reads one `Inputs`. Rows may come from strangers: only plain files of bounded size are
read, and every text is made printable here, for any page or terminal.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
from pydantic import RootModel

from analysis import points as beside
from analysis.format import LONGEST_NAME, shown, visible
from analysis.published import OPERATION
from analysis.selection import SOURCED, timed
from experiments.data import records as kinds
from experiments.data.files import RowsError, read_json, read_models, validated
from experiments.data.jobs import Declaration
from experiments.data.metrics import DERIVED, derive, latest
from experiments.data.records import Count, Counters, Record, Trace
from experiments.data.rows import COUNTERS, Row, read_rows, rows_files

REFERENCE = Path("outputs") / "reference"
COUNTED = REFERENCE / "counts"  # counts and traces, which are the same on every machine
MOST_ROWS = 3_000_000  # as many as fit in a large machine's memory
_NAMES = ("key", "sweep", "recording", "operation", "roof", "kernel", "dtype", "gpu", "backend")
_TEXTS = ("params", "reason", "suspect", "environment", "stop_reason", "model_formula", "throttled")
R = TypeVar("R", bound=Record)
Key = tuple[str, str, int, int, str]


@dataclass(frozen=True)
class Records:
    """Counts, traces and counters, without duplicates and in a fixed order."""

    counts: tuple[Count, ...] = ()
    traces: tuple[Trace, ...] = ()
    counters: tuple[Counters, ...] = ()


class Declarations(RootModel[dict[str, Declaration]]):
    """``variants.json``: the declaration of each label."""


@dataclass(frozen=True)
class Inputs:
    """What a command reads, and where it writes."""

    rows: Path  # the folder or file that the rows were read from
    out: Path  # the folder to write into
    frame: pd.DataFrame  # all the rows, as `load` gives them
    records: Records  # the records beside the rows
    declarations: Mapping[str, Declaration]  # what each variant declares, by label
    ours: str = ""  # the kernel that stands for us; empty: as ``conf/kernel`` says

    @cached_property
    def by_gpu(self) -> dict[str, Inputs]:
        """These inputs for each card, with only its rows; the card with most rows comes first."""
        alone = {str(gpu): rows for gpu, rows in self.frame.groupby("gpu")}
        gpus = sorted(alone, key=lambda gpu: -len(alone[gpu]))
        return {gpu: replace(self, frame=alone[gpu]) if gpus[1:] else self for gpu in gpus}

    @cached_property
    def points(self) -> dict[str, pd.DataFrame]:
        """By operation, the result of `analysis.points.points`: ours beside the public kernels."""
        return beside.all_points(self.frame, self.ours)

    @cached_property
    def ratios(self) -> Callable[..., pd.DataFrame]:
        """By operation and rival, `analysis.points.ratios` of all points, computed once."""
        return cache(lambda name, over="peers": beside.ratios(self.points[name], over))

    @cached_property
    def main(self) -> pd.DataFrame:
        """For each card and operation the rows of one set, and the rows of its roof in that set.

        For softmax it is the set that timed the most of the sources' variants, for any other
        operation the set that timed the most of its kernels; of equal sets, that with more times.
        """
        frame = self.frame[["gpu", "operation", "kernel", "set", "roof"]]
        known, kept = frame[timed(self.frame)], pd.Series(False, frame.index)
        for at, every in frame.groupby(["gpu", "operation"]):
            gpu, operation = map(str, at)
            mine = known[known["operation"].eq(operation) & known["gpu"].eq(gpu)]
            wanted = mine[mine["kernel"].isin(SOURCED)] if operation == OPERATION else mine
            sets = (wanted if len(wanted) else mine).groupby("set")["kernel"]
            order = sets.agg(["nunique", "size"]).sort_values(["nunique", "size"], kind="stable")
            best = order.index[-1] if len(order) else every["set"].iloc[0]
            here = frame["set"].eq(best) & frame["gpu"].eq(gpu)
            kept |= here & frame["operation"].isin([operation, *every.loc[here, "roof"].unique()])
        return self.frame[kept]


def read_inputs(rows: Path | None, out: Path | None, kind: str, ours: str = "") -> Inputs:
    """The inputs of the command ``kind``; see `Inputs`.

    ``rows`` defaults to `REFERENCE`, the recorded rows. ``out`` defaults to ``kind/`` in the folder
    of the rows, or to ``outputs/<kind>`` for recorded rows, all or some.

    Raises:
        RowsError: no rows, an unknown kernel, a linked ``out``, or a malformed file (named).
    """
    rows = rows or REFERENCE
    frame, folder = load(rows), rows.parent if rows.is_file() else rows
    cards = ", ".join(sorted(frame["gpu"].unique())[:3])
    print(f"{len(frame):,} rows of {cards}, read from {rows}", flush=True)
    recorded = folder.resolve().is_relative_to(REFERENCE.resolve())
    out = out or (REFERENCE.parent if recorded else folder) / kind
    if out.is_symlink():
        raise RowsError(f"{out} is a symbolic link; remove it, or name a folder: --out")
    if ours and ours not in set(frame["kernel"]):
        known = ", ".join(sorted(frame["kernel"].unique()))
        raise RowsError(f"--ours: no kernel {visible(ours)!r} in {rows}; it has {known}")
    paths = sorted(folder.rglob("variants.json"))
    declared = {label: one for path in paths for label, one in _declared(path).items()}
    return Inputs(rows, out, frame, load_records(rows), declared, ours)


def load(rows: Path | str) -> pd.DataFrame:
    """Every point below a folder, or in one file, with the derived columns.

    ``rows`` is a sweep's folder, a recording, a folder of several such as ``outputs/reference``, or
    one ``rows.jsonl`` or ``rows.jsonl.gz``. Each point has one row, its last attempt. A number that
    does not apply is NaN. Units are in the columns' names; ``above_roof`` is a bool, ``settings``
    the tunables as text. ``recording`` names the sweep and the card, ``set`` the folder that holds
    the recording: rows of two sets are never compared. A row without samples gets its median and
    the ends of its interval as samples.

    Raises:
        RowsError: a line is malformed (named by file and line), or there are no rows at all.
    """
    rows = Path(rows)
    if not rows.exists():
        raise RowsError(f"{rows}: no such folder; `make sweep` makes rows, --rows names them")
    sets: dict[str, str] = {}
    read, known = list[Row](), dict[str, Any]()
    for path in rows_files(rows):
        folder = visible(_set_of(path, rows), LONGEST_NAME)
        for row in read_rows(path):
            ends = filter(None, (row.time_low_us, row.time_us, row.time_high_us))
            # an array takes a quarter of a list's memory
            vars(row)["samples_us"] = array("d", row.samples_us or ends)
            read.append(row)
            sets.setdefault(row.sweep, folder)
            if len(read) > MOST_ROWS:
                raise RowsError(f"{rows}: more than {MOST_ROWS:,} rows; name a part of it")
    if not read:
        raise RowsError(f"no rows in {rows}: run `make sweep`, or name a folder that has some")
    for line in (lines := derive(latest(read))):
        line["set"] = sets[line["sweep"]]
        line |= {name: visible(line[name], LONGEST_NAME) or "(no name)" for name in _NAMES}
        for name in _TEXTS:
            if (one := repr(line[name])) not in known:  # many rows have the same ones
                known[one] = shown(line[name])
            line[name] = known[one]
    frame = pd.DataFrame(lines, dtype=object)  # pyarrow strings are slower to group
    # a numeric field must give a numeric column, even if it is null in every row
    fields = Row.model_json_schema()["properties"].items()
    kept = {name: {x.get("type") for x in one.get("anyOf", [one])} for name, one in fields}
    numbers = [name for name, kinds in kept.items() if kinds <= {"integer", "number", "null"}]
    numbers += {*DERIVED} - {"above_roof"}
    frame[numbers] = frame[numbers].apply(pd.to_numeric)
    frame["settings"] = [json.dumps(one, sort_keys=True, default=str) for one in frame["params"]]
    return frame.assign(above_roof=frame["above_roof"].eq(True))


def _set_of(path: Path, top: Path) -> str:
    """The folder below ``top`` that holds the sweep of a file of rows; empty for ``top`` itself."""
    if path == top:
        return ""
    inside = [one for one in path.parents if one == top or top in one.parents]
    sweep = next((one for one in inside if (one / "sweep.json").is_file()), path.parent)
    return "" if sweep == top else sweep.parent.relative_to(top).as_posix().removeprefix(".")


def load_records(rows: Path) -> Records:
    """The records below ``rows``; counts or traces that are missing there come from `COUNTED`.

    Raises:
        RowsError: a line is not a record of its file's kind; it names file and line.
    """
    folder = rows.parent if rows.is_file() else rows
    own, shared = ({name: [*one.rglob(name)] for name in kinds.KINDS} for one in (folder, COUNTED))
    return Records(
        _records(Count, own[kinds.COUNTS] or shared[kinds.COUNTS]),
        _records(Trace, own[kinds.TRACES] or shared[kinds.TRACES]),
        _records(Counters, own[COUNTERS]),
    )


def _records(kind: type[R], paths: Iterable[Path]) -> tuple[R, ...]:
    """The records of several files; of duplicates the last line of the first file counts."""
    known: dict[tuple[Key, str], R] = {}
    for path in sorted(paths, reverse=True):
        for one in read_models(path, kind):
            texts = {k: shown(v) for k, v in vars(one).items() if isinstance(v, str | dict)}
            record = one.model_copy(update=texts)
            known[record_key(record.model_dump()), str(getattr(record, "gpu", ""))] = record
    return tuple(known[key] for key in sorted(known))


def _declared(path: Path) -> dict[str, Declaration]:
    """The declarations of a file, with visible texts."""
    try:
        return validated(Declarations, shown(read_json(path))).root
    except ValueError as error:
        raise RowsError(f"{path}: {error}") from None


def kernel_name(label: str) -> str:
    """The kernel of a label: ``online`` of ``online,block_size=4096``."""
    return label.split(",")[0]


def record_key(record: Mapping[str, Any]) -> Key:
    """The key that a row and a record of the same variant, shape and dtype share."""
    params = json.dumps(record["params"], sort_keys=True, default=str)
    name = kernel_name(record["kernel"])
    return name, params, int(record["rows"]), int(record["cols"]), record["dtype"]


def rows_hash(frame: pd.DataFrame) -> str:
    """A short hash of the rows' identities and results, independent of their order."""
    columns = ["sweep", "key", "card", "round", "attempt", "status", "time_us"]
    lines = map(" ".join, zip(*(map(str, frame[c].tolist()) for c in columns), strict=True))
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:12]
