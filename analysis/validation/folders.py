"""Completeness of folders: a sweep's files, a roof in each shard, each kernel on each grid."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from analysis.validation.finding import Finding, some
from analysis.validation.sweeps import Job, Sweep


def folders(sweep: Sweep) -> Iterator[Finding]:
    """Files and jobs that a sweep's folder lacks, and shards without a roof."""
    for name, what in _files(sweep):
        yield Finding("completeness", "missing file", sweep.at(name), what)
    measured = {job.label for job in sweep.jobs}
    if lost := sorted(sweep.variants.keys() - measured):
        what = f"declares what no folder holds rows of: {some(lost)}"
        yield Finding("completeness", "missing folder", sweep.at("variants.json"), what)
    yield from _product(sweep)
    shards: dict[str, list[Job]] = defaultdict(list)
    for job in sweep.jobs:
        shards[job.shard].append(job)
    for shard, jobs in shards.items():
        if not any(_is_copy(job, sweep) for job in jobs):
            what = "no copy among its kernels, so its rows have no roof"
            yield Finding("completeness", "missing roof", sweep.at(shard), what)


def _files(sweep: Sweep) -> Iterator[tuple[str, str]]:
    if sweep.name is None:
        yield "sweep.json", "missing, or no sweep's name in it: a sweep's whole folder is needed"
    if not sweep.variants:
        yield "variants.json", "missing or broken: what each variant declares is not known"
    elif lost := sorted({job.label for job in sweep.jobs} - sweep.variants.keys()):
        yield "variants.json", f"does not declare {some(lost)}"
    if lost := [job.place.as_posix() for job in sweep.jobs if not job.config]:
        where = f"of {len(lost)} of {len(sweep.jobs)} jobs: {some(lost)}"
        yield "config.json", f"missing or broken, so what was planned is not known, {where}"


def _product(sweep: Sweep) -> Iterator[Finding]:
    """Grids that lack a kernel which the others have: a sweep is a product of both."""
    alike: dict[tuple[str, ...], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for job in sweep.jobs:
        alike[job.place.parts[1:-1]][job.grid].add(job.label)
    for rest, grids in alike.items():
        every = set().union(*grids.values())
        for grid, labels in grids.items():
            if lost := sorted(every - labels):
                what = f"no folder of {some(lost)}, which other grids have"
                where = sweep.at("/".join([grid, *rest]))
                yield Finding("completeness", "missing folder", where, what)


def _is_copy(job: Job, sweep: Sweep) -> bool:
    told = sweep.variants.get(job.label) or {}
    return told.get("operation") == "copy" or any(p.row.operation == "copy" for p in job.rows)
