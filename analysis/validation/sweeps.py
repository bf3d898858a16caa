"""A folder's sweeps as they were planned and as they came out, and whether each line is a row."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analysis.format import visible
from analysis.validation.contents import Contents
from analysis.validation.finding import Finding
from analysis.validation.reading import Placed, read_object, read_placed
from experiments.data.jobs import expand

MOST_POINTS = 500_000  # as experiments.sweep.checks has it


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
        told = read_object(folder, root / "sweep.json", found)
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
            job.rows = list(read_placed(folder, path, found))
        else:
            job.config = read_object(folder, path, found)
            _plan(job, path, found)
    for root, sweep in sweeps.items():
        if root / "variants.json" in data:
            told = read_object(folder, root / "variants.json", found)
            sweep.variants = {name: v for name, v in told.items() if isinstance(v, dict)}
    return list(sweeps.values())


def _plan(job: Job, path: Path, found: list[Finding]) -> None:
    if not job.config:
        return
    try:
        grid = job.config["grid"]
        job.shapes = expand(grid)
        job.dtypes = list(map(str, job.config["dtype"]["names"] or grid["dtypes"]))
        job.rounds = int(job.config["rounds"])
        _ = job.config["gpu"]["device"], job.config["timing"]["timer"]
        if (planned := len(job.shapes) * len(job.dtypes) * job.rounds) > MOST_POINTS:
            raise ValueError(f"{planned:,} points; a sweep has at most {MOST_POINTS:,}")
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        what = f"no job's configuration: {type(error).__name__}: {visible(str(error), 120)}"
        found.append(Finding("schema", "no configuration", str(path), what))
        job.config, job.shapes, job.rounds = {}, [], 0
