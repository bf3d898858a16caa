"""Completeness, point by point: whether each that was planned has a row of expected status."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from analysis.validation.finding import Finding, some
from analysis.validation.sweeps import Job, Sweep
from experiments.data.rows import Row

TIMERS = {"cuda": "events", "cpu": "host"}  # what `auto` is
Visit = tuple[int, int, int]  # rows, cols, round
Everywhere = Mapping[tuple[str, str, Visit], list[Row]]  # by kernel, dtype and visit


def points(sweep: Sweep) -> Iterator[Finding]:
    """Planned points without a row, and points whose last row is a failure.

    A point that several jobs plan has its row in the folder of the first, so it is looked for in
    the whole sweep. Jobs that lack the same are told together.
    """
    everywhere: dict[tuple[str, str, Visit], list[Row]] = defaultdict(list)
    for placed in sweep.rows:
        everywhere[placed.row.kernel, placed.row.dtype, _visit(placed.row)].append(placed.row)
    lacking: dict[tuple[str, tuple[str, ...], tuple[Visit, ...]], list[Job]] = defaultdict(list)
    for job in sweep.jobs:
        failed: dict[tuple[str, str], list[str]] = defaultdict(list)
        missing: dict[tuple[Visit, ...], list[str]] = defaultdict(list)
        for dtype in job.dtypes:
            rows = {visit: _row(job, sweep, everywhere, dtype, visit) for visit in _planned(job)}
            for visit, row in rows.items():
                if row is not None and not row.expected:
                    failed[dtype, row.status].append(_shape(visit))
            if gone := tuple(visit for visit, row in rows.items() if row is None):
                missing[gone].append(dtype)
        for (dtype, status), names in failed.items():
            what = f"{dtype}: {status} at {some(names)}"
            where = sweep.at(job.place.as_posix())
            yield Finding("completeness", "failed points", where, what)
        for lost, dtypes in missing.items():
            lacking[job.shard, tuple(dtypes), lost].append(job)
    for (shard, of, lost), jobs in lacking.items():
        kernels = some([job.label for job in jobs], 8)
        what = f"{kernels}; {', '.join(of)}; {_told(jobs[0], lost)}"
        yield Finding("completeness", "missing points", sweep.at(shard), what)


def _planned(job: Job) -> list[Visit]:
    return [(rows, cols, i) for i in range(job.rounds) for rows, cols in job.shapes]


def _row(job: Job, sweep: Sweep, rows: Everywhere, dtype: str, visit: Visit) -> Row | None:
    """The last row of a planned point: the job's own, or that of a job which planned it too."""
    own = [p.row for p in job.rows if p.row.dtype == dtype and _visit(p.row) == visit]
    if own:
        return own[-1]
    params = (sweep.variants.get(job.label) or {}).get("params")
    found = rows.get((job.label.split(",")[0], dtype, visit), [])
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


def _told(job: Job, lost: tuple[Visit, ...]) -> str:
    planned = len(job.shapes) * job.rounds
    text = f"{len(lost)} of {planned} missing: {some(list(dict.fromkeys(map(_shape, lost))))}"
    if job.rounds > 1:
        text += f", in round {some(sorted({str(visit[2]) for visit in lost}), 8)}"
    return text


def _shape(visit: Visit) -> str:
    return f"{visit[0]}×{visit[1]}"


def _visit(row: Row) -> Visit:
    return row.rows, row.cols, row.round
