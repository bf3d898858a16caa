"""A preset of twelve shards through a real Slurm: left, hurt twice, and brought to its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import once_each
from tests.slurm.cluster import Cluster
from tests.slurm.commands import rows_of, shards, submit
from tests.slurm.processes import wait_until

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(600)]


def half_done(cluster: Cluster, out: Path, not_again: str = "") -> tuple[str, str]:
    """A shard's name and job, once it is running with a point on disk and another to come."""
    found: list[tuple[str, str]] = []

    def look() -> bool:
        running = set(cluster.jobs("running"))
        found[:] = [
            (name, job)
            for name, job in shards(out).items()
            if job in running and name != not_again and 1 <= rows_of(out, name) <= 2
        ]
        return bool(found)

    wait_until(look, 120)
    return found[0]


def test_left_hurt_and_submitted_again_it_has_every_row_once(
    cluster: Cluster, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    first = submit(cluster, out, "experiment=twelve")
    assert first.status == 0, first.stderr
    assert "12 of 12 shards submitted; the same command looks again" in first.stdout

    cancelled, job = half_done(cluster, out)
    cluster.say("scancel", job)
    wait_until(lambda: job not in cluster.jobs("running,completing"), 60)
    seen = submit(cluster, out, "experiment=twelve", "dry_run=true")
    assert "Slurm says CANCELLED" in seen.stdout
    assert "1 of 12 shards to submit" in seen.stdout

    lost, job = half_done(cluster, out, not_again=cancelled)
    cluster.kill_node()
    cluster.start_node()
    wait_until(lambda: job not in cluster.jobs("running,completing"), 60)
    assert 1 <= rows_of(out, cancelled) <= 2
    assert 1 <= rows_of(out, lost) <= 2

    assert submit(cluster, out, "experiment=twelve").status == 0
    wait_until(lambda: not cluster.jobs("pending,running,completing"), 280)
    jobs = shards(out)
    again = submit(cluster, out, "experiment=twelve")
    assert again.status == 0, again.stderr
    assert len(again.rows) == 36
    assert once_each(again.rows)
    assert all(row.attempt == 1 and row.card == 0 for row in again.rows)
    assert "12 shards: 0 new, 0 queued, 0 running, 12 done, 0 failed" in again.stdout
    assert again.stderr == ""
    assert (out / "table.md").read_text().count("| ok") == 36
    assert "of roof" in again.stdout
    assert shards(out) == jobs
