"""Recorded rows as the jobs that measure exactly their points again."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from experiments.data.cards import GPU_FILES
from experiments.data.rows import Row, read_rows, rows_files
from experiments.errors import UserError, on_one_line
from experiments.sweep.checks import check
from experiments.sweep.config import Experiment, Tracker
from experiments.sweep.jobs import Job

KERNEL = re.compile(r"kernels(\.[A-Za-z_][A-Za-z0-9_]*)+")

Place = tuple[int, int, str, int]  # rows, cols, dtype, round


@dataclass(frozen=True)
class Recorded:
    """One recorded sweep.

    Attributes:
        root: Its folder, which holds ``sweep.json``.
        jobs: What measures its points again, and no others.
        rows: By job name, each point's last row.
        left: By reason, the points that no job can measure as they were.
    """

    root: Path
    jobs: tuple[Job, ...]
    rows: Mapping[str, Mapping[Place, Row]]
    left: Mapping[str, int]


def recorded(folder: Path) -> list[Recorded]:
    """The sweeps whose rows lie below ``folder``, in a fixed order.

    Raises:
        UserError: there are none, or what lies beside rows does not say how they were measured.
        RowsError: a line is no row; it names file and line.
    """
    if not folder.exists():
        raise UserError(f"{folder}: no such folder; --rows names recorded rows")
    files: dict[Path, list[Path]] = {}
    for path in rows_files(folder):
        files.setdefault(_root(path), []).append(path)
    if not files:
        raise UserError(f"{folder}: no rows.jsonl in it; --rows names recorded rows")
    return [_sweep(root, files[root]) for root in sorted(files)]


def _root(path: Path) -> Path:
    for above in path.resolve().parents:
        if (above / "sweep.json").is_file():
            return above
    raise UserError(f"{path}: no sweep.json above it; a sweep's whole folder can be repeated")


def _sweep(root: Path, files: Iterable[Path]) -> Recorded:
    found: list[tuple[Job, dict[Place, Row]]] = []
    left: dict[str, int] = {}
    for path in files:
        rows = {(r.rows, r.cols, r.dtype, r.round): r for r in read_rows(path)}
        if not rows:
            continue
        job, kept = _job(root, path, rows)
        found.append((job, kept))
        if len(kept) < len(rows):
            why = "its row was measured by another protocol or seed than the newest beside it"
            left[why] = left.get(why, 0) + len(rows) - len(kept)
    if not found:
        raise UserError(f"{root}: its rows files are empty")
    if not all(_is_product(rows) for _, rows in found):  # a job is all its shapes in all its dtypes
        found = [part for job, rows in found for part in _by_dtype(job, rows)]
    rounds = 1 + max(place[3] for _, rows in found for place in rows)
    jobs = tuple(dataclasses.replace(j, config=j.config | {"rounds": rounds}) for j, _ in found)
    return Recorded(root, jobs, {job.name: rows for job, rows in found}, left)


def _job(root: Path, path: Path, rows: Mapping[Place, Row]) -> tuple[Job, dict[Place, Row]]:
    """A file's job, and those of its rows that the job would measure as they were."""
    parts = path.resolve().parent.relative_to(root).parts
    if len(parts) not in (3, 4) or "-" not in parts[1]:
        raise UserError(f"{path}: it lies in no job's folder, such as wide/native-auto/online")
    config = _config(path.parent / "config.json", gpu=parts[1].partition("-")[2])
    newest = list(rows.values())[-1]
    config["timing"] |= newest.environment.get("protocol") or {}
    config["seed"] = newest.environment.get("seed", config["seed"])
    _checked(path, config)
    kept = {place: row for place, row in rows.items() if _told(row) in ({}, _told(newest))}
    dtype, _, gpu = parts[1].partition("-")
    job = Job(
        kernel=newest.kernel,
        label=parts[-1],
        grid=parts[0],
        dtypes=tuple(dict.fromkeys(place[2] for place in kept)),
        dtype=dtype,
        gpu=gpu,
        variation=parts[2] if len(parts) == 4 else "",
        shapes=tuple(dict.fromkeys((place[0], place[1]) for place in kept)),
        config=config,
        overrides=("/".join(parts),),
    )
    return job, kept


def _told(row: Row) -> dict[str, Any]:
    # older rows say nothing
    return {name: row.environment[name] for name in ("protocol", "seed") if name in row.environment}


def _config(path: Path, gpu: str) -> dict[str, Any]:
    """A job's configuration as it was recorded; what it lacks is as the types have it.

    A recorded folder may be anybody's, so three things are ours: the kernel's class is one of
    ``kernels/``, nothing is sent to the tracker it names, and the expression that a card's name
    must match is that of our own file ``conf/gpu/<gpu>.yaml``.
    """
    try:
        found = dict(json.loads(path.read_text(encoding="utf-8")))
        found["tracker"] = dataclasses.asdict(Tracker(backend="none"))
        found["gpu"] = {**found["gpu"], "match": _match_of(gpu)}
        merged = OmegaConf.merge(OmegaConf.structured(Experiment), OmegaConf.create(found))
        plain = OmegaConf.to_container(merged, resolve=False, throw_on_missing=True)
    except FileNotFoundError:
        raise UserError(f"{path}: missing; without it rows cannot be repeated") from None
    except (ValueError, TypeError, KeyError, RecursionError, OmegaConfBaseException) as error:
        reason = on_one_line(str(error)) or type(error).__name__
        raise UserError(f"{path}: no job's configuration: {reason[:200]}") from None
    target = str(plain["kernel"].get("_target_"))  # type: ignore[index, union-attr, call-overload]
    if not KERNEL.fullmatch(target):
        raise UserError(
            f"{path}: kernel._target_ is {target[:100]!r}; only a class below kernels is measured "
            "again, as in kernels.copy.copy.Copy"
        )
    return dict(plain)  # type: ignore[arg-type]


def _match_of(gpu: str) -> str | None:
    path = GPU_FILES / f"{gpu}.yaml"
    if not path.is_file():
        return None
    match = yaml.safe_load(path.read_text(encoding="utf-8")).get("match")
    return None if match is None else str(match)


def _checked(path: Path, config: dict[str, Any]) -> None:
    try:
        check(config)
    except (UserError, TypeError, ValueError) as error:
        raise UserError(f"{path.parent / 'config.json'}: {error}") from None


def _is_product(rows: Mapping[Place, Row]) -> bool:
    shapes, dtypes = {place[:2] for place in rows}, {place[2] for place in rows}
    return len({place[:3] for place in rows}) == len(shapes) * len(dtypes)


def _by_dtype(job: Job, rows: Mapping[Place, Row]) -> list[tuple[Job, dict[Place, Row]]]:
    parts = []
    for dtype in job.dtypes:
        mine = {place: row for place, row in rows.items() if place[2] == dtype}
        shapes = tuple(dict.fromkeys((place[0], place[1]) for place in mine))
        part = dataclasses.replace(job, dtype=dtype, dtypes=(dtype,), shapes=shapes)
        parts.append((part, mine))
    return parts
