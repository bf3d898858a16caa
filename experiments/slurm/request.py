"""What was asked of a shard, as a digest: equal digests ask for the same points."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from collections.abc import Sequence

from experiments.child import ROOT
from experiments.slurm.shards import Shard
from experiments.sweep.jobs import Job

# These choose where rows go and which points are visited, and not what the points are.
ELSEWHERE = ("out", "overwrite", "only_failed", "remeasure", "dry_run", "tracker", "name", "fresh")


def requests(shards: Sequence[Shard]) -> dict[str, str]:
    """By shard's id, a digest of its configuration, of all code beside its kernels', and of what
    is installed here.

    Points themselves are known by keys that only a node with its card can tell. Where a digest
    changes without need, a job is submitted that finds nothing to measure.
    """
    surroundings = _surroundings([job for shard in shards for job in shard.jobs])
    return {shard.id: _digest([surroundings, _told(shard)]) for shard in shards}


def _told(shard: Shard) -> list[object]:
    jobs = [
        [job.name, job.shapes, {k: v for k, v in job.config.items() if k not in ELSEWHERE}]
        for job in (*shard.jobs, *shard.roofs)
    ]
    return [*jobs, sorted(shard.elsewhere)]


def _surroundings(jobs: Sequence[Job]) -> str:
    targets = {str(job.config["kernel"].get("_target_")).partition(".")[0] for job in jobs}
    files = [path for top in sorted(targets) for path in sorted((ROOT / top).rglob("*.py"))]
    code = [hashlib.sha256(path.read_bytes()).hexdigest() for path in files]
    installed = sorted({f"{d.name} {d.version}" for d in importlib.metadata.distributions()})
    return _digest([code, installed])


def _digest(told: object) -> str:
    return hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()[:20]
