"""What a job's W&B run shows: its lines over N, its headline, its configuration."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments.data.metrics import DERIVED
from experiments.mirror.headline import headline

METRICS = ("time_us", "time_low_us", "time_high_us", *DERIVED)


@dataclass(frozen=True)
class MirroredJob:
    """A job as W&B is to know it.

    Attributes:
        id: Of the W&B run: from the job and its sweep, so that a resumed sweep finds it again;
            letters, digits and ``-``, at most 64.
        name: As people read it, ``online/tutorial/float32``.
        sweep: The run's group.
        kernel: The run's job type.
        config: The resolved configuration.
        folder: Where its ``rows.jsonl`` lies.
        failed: Whether a requested point is missing or of an unexpected status.
    """

    id: str
    name: str
    sweep: str
    kernel: str
    config: dict[str, Any]
    folder: Path
    failed: bool


@dataclass(frozen=True)
class RunContent:
    """One run, ready to be written.

    Attributes:
        config: Plain values.
        order: Names of the lines, in the order of W&B's steps, those written earlier first.
        lines: The lines themselves, None for one whose row has since been measured again.
        rows_file: To be kept as the artifact, None where there is none.
        digest: Of all that a reader of the run would notice.
        beside: What the artifact holds beside the rows: texts by file name.
        media: Shown with the first line; see `experiments.mirror.media`.
    """

    id: str
    name: str
    group: str
    job_type: str
    config: dict[str, Any]
    order: list[str]
    lines: list[dict[str, Any] | None]
    summary: dict[str, Any]
    rows_file: str | None
    exit_code: int
    digest: str
    beside: dict[str, str] = field(default_factory=dict)
    media: dict[str, dict[str, Any]] = field(default_factory=dict)


def content(
    job: MirroredJob,
    rows: Sequence[Mapping[str, Any]],
    order: list[str],
    lines: list[dict[str, Any] | None],
    declared: Mapping[str, Any],
) -> RunContent:
    """A job and its lines as the run to be written, with what its kernel ``declared`` by label."""
    summary = headline(rows)
    rows_file = job.folder / "rows.jsonl"
    told = [job.name, job.sweep, job.kernel, job.failed, order, lines, summary]
    noticed = json.dumps([*told, declared] if declared else told)
    # `out` is a path of this machine, the only one that a configuration holds.
    config = {key: value for key, value in job.config.items() if key != "out"}
    return RunContent(
        id=job.id,
        name=job.name,
        group=job.sweep,
        job_type=job.kernel,
        config=_plain(config),
        order=order,
        lines=lines,
        summary=summary,
        rows_file=str(rows_file.resolve()) if rows_file.is_file() else None,
        exit_code=int(job.failed),
        digest=hashlib.sha256(noticed.encode()).hexdigest(),
        beside={
            name: json.dumps(value, indent=1, ensure_ascii=False, default=str) + "\n"
            for name, value in (("variants.json", declared), ("config.json", config))
            if value
        },
    )


def lines_of(rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The rows that have a time as lines of history, by the name of the attempt they come from.

    Metrics carry the series they belong to, ``float16_M4096/time_us``, so that dtypes and M stay
    apart on the axis of N.
    """
    return {
        f"{row['key']}:{row['card']}:{row['round']}:{row['attempt']}": _line(row)
        for row in rows
        if row["status"] == "ok" and row["time_us"] is not None
    }


def _line(row: Mapping[str, Any]) -> dict[str, Any]:
    series = f"{row['dtype']}_M{row['rows']}"
    values = {name: row.get(name) for name in METRICS}
    return {"cols": row["cols"], "rows": row["rows"], "round": row["round"]} | {
        f"{series}/{name}": int(value) if isinstance(value, bool) else value
        for name, value in values.items()
        if value is not None and math.isfinite(value)
    }


def _plain(value: Any) -> Any:
    """Values that JSON knows; W&B reads a dot in a key as nesting, so none is left."""
    if isinstance(value, Mapping):
        return {str(key).replace(".", "_"): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)
