"""Completeness: whether every point that was planned has a row, and a roof beside it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from analysis.validation.finding import Finding, some
from analysis.validation.sweeps import Job, Sweep
from experiments.rows import Row

TIMERS = {"cuda": "events", "cpu": "host"}  # what `auto` is
Visit = tuple[int, int, str, int]  # rows, cols, dtype, round


def points(sweep: Sweep) -> Iterator[Finding]:
    """Planned points without a row, and points whose last row is a failure.

    A point that several jobs plan has its row in the folder of the first, so it is looked for in
    the whole sweep. Jobs that lack the same are told together.
    """
    everywhere: dict[tuple[str, Visit], list[Row]] = defaultdict(list)
    for placed in sweep.rows:
        everywhere[placed.row.kernel, _visit(placed.row)].append(placed.row)
    lacking: dict[tuple[str, str, tuple[Visit, ...]], list[str]] = defaultdict(list)
    failed: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for job in sweep.jobs:
        own = {_visit(placed.row): placed.row for placed in job.rows}
        for dtype in job.dtypes:
            missing = []
            for visit in _planned(job, dtype):
                row = own.get(visit) or _elsewhere(job, sweep, everywhere, visit)
                if row is None:
                    missing.append(visit)
                elif not row.expected:
                    name = f"{visit[0]}×{visit[1]}" + _round(job, visit)
                    failed[job.place.as_posix(), dtype, row.status].append(name)
            if missing:
                lacking[job.shard, dtype, tuple(missing)].append(job.label)
    for (shard, dtype, visits), labels in lacking.items():
        job = next(j for j in sweep.jobs if (j.shard, j.label) == (shard, labels[0]))
        told = f"{dtype}: {_told(job, visits)}"
        yield Finding("completeness", "missing points", _at(sweep, shard, some(labels, 6)), told)
    for (place, dtype, status), names in failed.items():
        what = f"{dtype}: {status} at {some(names)}"
        yield Finding("completeness", "failed points", _at(sweep, place), what)


def folders(sweep: Sweep) -> Iterator[Finding]:
    """Files and jobs that a sweep's folder lacks, and shards without a roof."""
    root = _at(sweep, "")
    if sweep.name is None:
        what = "missing or without its sweep's name: a sweep's whole folder is needed"
        yield Finding("completeness", "missing file", f"{root}sweep.json", what)
    if not sweep.variants:
        what = "missing or empty: what each variant declares is not known"
        yield Finding("completeness", "missing file", f"{root}variants.json", what)
    for job in sweep.jobs:
        if not job.config:
            what = "missing or broken: what was planned is not known"
            where = _at(sweep, f"{job.place.as_posix()}/config.json")
            yield Finding("completeness", "missing file", where, what)
    measured = {job.label for job in sweep.jobs}
    if sweep.variants and (lost := sorted(sweep.variants.keys() - measured)):
        what = f"declares what no folder holds rows of: {some(lost)}"
        yield Finding("completeness", "missing folder", f"{root}variants.json", what)
    if sweep.variants and (lost := sorted(measured - sweep.variants.keys())):
        what = f"does not declare {some(lost)}"
        yield Finding("completeness", "missing file", f"{root}variants.json", what)
    yield from _product(sweep)
    shards: dict[str, list[Job]] = defaultdict(list)
    for job in sweep.jobs:
        shards[job.shard].append(job)
    for shard, jobs in shards.items():
        if not any(_is_copy(job, sweep) for job in jobs):
            what = "no copy among its kernels, so its rows have no roof"
            yield Finding("completeness", "missing roof", _at(sweep, shard), what)


def _product(sweep: Sweep) -> Iterator[Finding]:
    """Grids that lack a kernel which the others have: a sweep is a product of both."""
    alike: dict[tuple[str, ...], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for job in sweep.jobs:
        alike[job.place.parts[1:-1]][job.grid].add(job.label)
    for rest, grids in alike.items():
        every = set().union(*grids.values())
        for grid, labels in grids.items():
            if lost := sorted(every - labels):
                where = _at(sweep, "/".join([grid, *rest]))
                what = f"no folder of {some(lost)}, which other grids have"
                yield Finding("completeness", "missing folder", where, what)


def _planned(job: Job, dtype: str) -> Iterator[Visit]:
    for round_ in range(job.rounds):
        for rows, cols in job.shapes:
            yield rows, cols, dtype, round_


def _elsewhere(
    job: Job, sweep: Sweep, rows: Mapping[tuple[str, Visit], list[Row]], visit: Visit
) -> Row | None:
    params = (sweep.variants.get(job.label) or {}).get("params")
    found = rows.get((job.label.split(",")[0], visit), [])
    alike = [row for row in found if row.params == params and _fits(row, job.config)]
    return alike[-1] if alike else None


def _fits(row: Row, config: Mapping[str, Any]) -> bool:
    gpu, timing = config.get("gpu") or {}, config.get("timing") or {}
    timer = timing.get("timer")
    return (
        gpu.get("card") in (None, row.card)
        and gpu.get("device") in ("auto", row.device)
        and row.timer in (None, TIMERS[row.device] if timer == "auto" else timer)
        and row.cache in (None, timing.get("cache"))
    )


def _is_copy(job: Job, sweep: Sweep) -> bool:
    told = sweep.variants.get(job.label) or {}
    return told.get("operation") == "copy" or any(p.row.operation == "copy" for p in job.rows)


def _told(job: Job, visits: tuple[Visit, ...]) -> str:
    planned = len(job.shapes) * job.rounds
    shapes = list(dict.fromkeys(f"{visit[0]}×{visit[1]}" for visit in visits))
    text = f"{len(visits)} of {planned} points missing: {some(shapes)}"
    if job.rounds > 1:
        text += f", in round {some(sorted({str(visit[3]) for visit in visits}), 8)}"
    return text


def _round(job: Job, visit: Visit) -> str:
    return f" in round {visit[3]}" if job.rounds > 1 else ""


def _visit(row: Row) -> Visit:
    return row.rows, row.cols, row.dtype, row.round


def _at(sweep: Sweep, place: str, labels: str = "") -> str:
    root = "" if sweep.root.name == "" else f"{sweep.root.as_posix()}/"
    return f"{root}{place}" + (f" {labels}" if labels else "")
