"""Reads W&B's offline files back, for the tests: W&B itself only uploads them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BLOCK = 32768
FILE_HEADER = 7
CHUNK_HEADER = 7  # checksum (4 bytes), length (2), kind (1: whole, 2: first, 3: middle, 4: last)


@dataclass
class OfflineRun:
    """What one offline folder holds."""

    id: str = ""
    group: str = ""
    job_type: str = ""
    name: str = ""
    host: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    lines: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    axes: dict[str, str] = field(default_factory=dict)
    artifacts: list[tuple[str, str]] = field(default_factory=list)
    exit_code: int | None = None


def read_offline(folder: Path) -> list[OfflineRun]:
    """The offline runs below ``folder/wandb``, in the order in which they were written."""
    files = folder.glob("wandb/offline-run-*/run-*.wandb")
    return [_read(file) for file in sorted(files, key=lambda file: file.stat().st_mtime_ns)]


def _read(path: Path) -> OfflineRun:
    from wandb.proto import wandb_internal_pb2

    run = OfflineRun()
    for data in _records(path.read_bytes()):
        record = wandb_internal_pb2.Record.FromString(data)
        if record.HasField("run"):
            run.id, run.group = record.run.run_id, record.run.run_group
            run.job_type, run.name = record.run.job_type, record.run.display_name
            run.host = record.run.host
            run.config |= _values(record.run.config.update)
        elif record.HasField("history"):
            run.lines.append(_values(record.history.item))
        elif record.HasField("summary"):
            run.summary |= _values(record.summary.update)
        elif record.HasField("metric"):
            run.axes[record.metric.name or record.metric.glob_name] = record.metric.step_metric
        elif record.HasField("artifact"):
            run.artifacts.append((record.artifact.name, record.artifact.type))
        elif record.HasField("exit"):
            run.exit_code = record.exit.exit_code
    return run


def _values(items: Any) -> dict[str, Any]:
    return {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}


def _records(data: bytes) -> Iterator[bytes]:
    """Records out of W&B's blocks, where a long record spans several chunks."""
    at, whole = FILE_HEADER, b""
    while at + CHUNK_HEADER <= len(data):
        if BLOCK - at % BLOCK < CHUNK_HEADER:
            at += BLOCK - at % BLOCK
            continue
        length = int.from_bytes(data[at + 4 : at + 6], "little")
        kind = data[at + 6]
        whole += data[at + CHUNK_HEADER : at + CHUNK_HEADER + length]
        at += CHUNK_HEADER + length
        if kind in (1, 4):
            yield whole
            whole = b""
