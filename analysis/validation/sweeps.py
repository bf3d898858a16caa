"""A folder's sweeps as they were planned and as they came out, and whether each line is a row."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analysis.validation.contents import Contents
from analysis.validation.finding import Finding
from analysis.visible import visible
from experiments.rows import Row, parse_row
from experiments.shapes import expand


@dataclass(frozen=True)
class Placed:
    """A row and where it stands, ``file:line``."""

    row: Row
    where: str


@dataclass
class Job:
    """A job's folder: ``<grid>/<dtype>-<gpu>/[<variation>/]<label>``.

    Attributes:
        place: The folder, below its sweep's.
        config: Its ``config.json``, empty where there is none that can be read.
        rows: Its rows, in the file's order.
        shapes: Pairs (M, N) that it planned, as are ``dtypes`` and ``rounds``.
    """

    place: Path
    config: dict[str, Any] = field(default_factory=dict)
    rows: list[Placed] = field(default_factory=list)
    shapes: list[tuple[int, int]] = field(default_factory=list)
    dtypes: list[str] = field(default_factory=list)
    rounds: int = 0

    @property
    def label(self) -> str:
        """The kernel with its tunables."""
        return self.place.name

    @property
    def grid(self) -> str:
        """The name of its grid."""
        return self.place.parts[0]

    @property
    def shard(self) -> str:
        """What it shares with the jobs whose roof is its own."""
        return self.place.parent.as_posix()


@dataclass
class Sweep:
    """One sweep's folder, below the one that was asked about."""

    root: Path
    name: str | None = None
    variants: dict[str, Any] = field(default_factory=dict)
    jobs: list[Job] = field(default_factory=list)

    @property
    def rows(self) -> list[Placed]:
        """All rows."""
        return [row for job in self.jobs for row in job.rows]

    def at(self, place: str = "") -> str:
        """A place in it, as a path below the folder that was asked about."""
        return (self.root / place).as_posix() if place or self.root.name else "the sweep"


def sweeps_of(contents: Contents, found: list[Finding]) -> list[Sweep]:
    """Every sweep in the folder; what is wrong with a file goes to ``found``, by file and line."""
    folder, data = contents.folder, contents.data
    roots = {path.parent for path in data if path.name == "sweep.json"}
    sweeps: dict[Path, Sweep] = {}
    for root in sorted(roots):
        told = _object(folder, root / "sweep.json", found)
        sweeps[root] = Sweep(root, told.get("sweep"))
    jobs: dict[Path, Job] = {}
    for path in data:
        if path.name not in ("rows.jsonl", "config.json"):
            continue
        root = next((above for above in path.parents if above in roots), Path())
        sweep = sweeps.setdefault(root, Sweep(root))
        if path.parent not in jobs:
            place = path.parent.relative_to(root)
            if len(place.parts) not in (3, 4):
                what = "it lies in no job's folder, such as wide/native-auto/online"
                found.append(Finding("schema", "misplaced", str(path), what))
                continue
            jobs[path.parent] = Job(place)
            sweep.jobs.append(jobs[path.parent])
        job = jobs[path.parent]
        if path.name == "rows.jsonl":
            job.rows = list(_rows(folder, path, found))
        else:
            job.config = _object(folder, path, found)
            _plan(job, path, found)
    for root, sweep in sweeps.items():
        if root / "variants.json" in data:
            sweep.variants = _object(folder, root / "variants.json", found)
    return list(sweeps.values())


def _plan(job: Job, path: Path, found: list[Finding]) -> None:
    if not job.config:
        return
    try:
        grid = job.config["grid"]
        job.shapes = expand(grid)
        job.dtypes = list(job.config["dtype"]["names"] or grid["dtypes"])
        job.rounds = int(job.config["rounds"])
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        what = f"no job's configuration: {type(error).__name__}: {visible(str(error), 120)}"
        found.append(Finding("schema", "no configuration", str(path), what))
        job.config, job.shapes = {}, []


def _rows(folder: Path, path: Path, found: list[Finding]) -> Iterator[Placed]:
    lines = (folder / path).read_bytes().splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        where = f"{path}:{number}"
        try:
            yield Placed(parse_row(line.decode()), where)
        except (ValueError, RecursionError) as error:
            what = visible(str(error), 160) or type(error).__name__
            if not line.endswith(b"\n"):
                what = "cut short: the same sweep again mends it"
            found.append(Finding("schema", "no row", where, what))


def _object(folder: Path, path: Path, found: list[Finding]) -> dict[str, Any]:
    try:
        told = json.loads((folder / path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        what = f"not JSON: {visible(str(error), 120)}"
        found.append(Finding("schema", "not JSON", str(path), what))
        return {}
    if isinstance(told, dict):
        return told
    found.append(Finding("schema", "not JSON", str(path), "a JSON object belongs here"))
    return {}
