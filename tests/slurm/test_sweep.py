"""A preset of twelve shards through a real Slurm: left, hurt twice, and brought to its end."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT, Result, once_each
from tests.slurm.cluster import Cluster
from tests.slurm.commands import command, rows_of, shards, status, submit
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
    first = subprocess.Popen(
        command(out, "experiment=twelve"), cwd=ROOT, env=os.environ | cluster.variables,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        half_done(cluster, out)
        first.send_signal(signal.SIGINT)
        shown = first.communicate(timeout=60)[1]
    finally:
        first.kill()
    assert first.returncode == 130
    assert f"detached; the jobs go on. make status OUT={out} shows them" in shown

    cancelled, job = half_done(cluster, out)
    cluster.say("scancel", job)
    wait_until(lambda: job not in cluster.jobs("running,completing"), 60)
    kept = rows_of(out, cancelled)
    seen = status(cluster, out)
    assert seen.status == 1
    assert f"shard {cancelled}: Slurm says CANCELLED" in seen.stdout
    assert "12 shards: " in seen.stdout.splitlines()[-1]
    assert "1 failed" in seen.stdout.splitlines()[-1]

    lost, job = half_done(cluster, out, not_again=cancelled)
    cluster.kill_node()
    cluster.start_node()
    wait_until(lambda: job not in cluster.jobs("running,completing"), 60)
    assert 1 <= kept <= 2
    assert 1 <= rows_of(out, lost) <= 2

    again = submit(cluster, out, "experiment=twelve")
    assert again.status == 0, again.stderr
    assert len(again.rows) == 36
    assert once_each(again.rows)
    assert all(row.attempt == 1 and row.card == 0 for row in again.rows)
    assert again.stderr.splitlines()[-1] == (
        "12 shards: 0 queued, 0 running, 12 done, 0 failed; 36 of 36 points done"
    )
    assert said_nothing_else(again)
    assert len(list(out.glob("shards/*/variants.json"))) == 12
    assert (out / "table.md").read_text().count("| ok") == 36
    assert "of roof" in again.stdout

    jobs = shards(out)
    third = submit(cluster, out, "experiment=twelve")
    assert third.status == 0
    assert shards(out) == jobs
    assert third.rows == again.rows
    assert "nothing was submitted" in third.stdout
    assert status(cluster, out).status == 0


def said_nothing_else(result: Result) -> bool:
    """Whether stderr is the account of the shards alone: no library's warnings."""
    return all(line.startswith("12 shards: ") for line in result.stderr.splitlines())
