"""A shard's job without Slurm: its points, those it leaves to others, and its state."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments import slurm
from experiments.data.rows import read_rows, rows_files
from experiments.slurm import divide, look, measure_shard, summary
from experiments.sweep.jobs import with_roofs
from tests.conftest import QUICK, Compose, once_each, shape

FEW = ["dtype=float32", "gpu=cpu", "remeasure=false", "tracker=none", *QUICK]


@pytest.fixture(autouse=True)
def as_in_a_job(pool: None) -> Iterator[None]:
    """A job ends upon signals; the tests' own process does not."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR2)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


def test_points_that_two_shards_share_are_measured_by_the_first(
    tmp_path: Path, compose_job: Compose
) -> None:
    jobs = [
        compose_job([f"kernel={kernel}", *variation, *FEW])
        for variation in (shape(4, [8, 16]), shape(4, [16, 32]))
        for kernel in ("good", "torch")
    ]
    shards = divide([*with_roofs(jobs)], tmp_path, on_card=False)
    known = {
        shard: {"name": shard, "points": points, "job": None, "jobs": [job.name for job in mine]}
        for (shard, mine), points in zip(shards.items(), (6, 3), strict=True)
    }
    assert {state.word for state in look(tmp_path, known).values()} == {"failed"}
    for mine in reversed(shards.values()):  # in whatever order Slurm runs them
        measure_shard(mine, "sweep-1")
    rows = [row for path in rows_files(tmp_path) for row in read_rows(path)]
    assert once_each(rows)
    assert sorted((r.kernel, r.cols) for r in rows) == [
        (kernel, cols) for kernel in ("copy", "good", "torch") for cols in (8, 16, 32)
    ]
    states = look(tmp_path, known).values()
    assert [(state.word, state.points, state.done) for state in states] == [
        ("done", 6, 6), ("done", 3, 3),
    ]  # fmt: skip
    assert {row.sweep for row in rows} == {"sweep-1"}


def test_a_state_is_what_slurm_says_or_else_what_the_rows_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {"a": {"name": "grid cpu", "points": 6, "job": "7_0", "jobs": []}}
    for answer, word, why in [
        ({"7_0": "PENDING"}, "queued", ""), (None, "running", ""),
        ({"7_0": "CANCELLED"}, "failed", "Slurm says CANCELLED"),
        ({}, "failed", "6 points have no row"),
    ]:  # fmt: skip
        monkeypatch.setattr(slurm, "queue_states", lambda _, answer=answer: answer)
        state = look(tmp_path, known)["a"]
        assert (state.word, state.why) == (word, why)
    (tmp_path / "slurm" / "log").mkdir(parents=True)
    (tmp_path / "slurm" / "log" / "7_0_log.err").write_text("x\nerror: no card\ny\n")
    assert look(tmp_path, known)["a"].why == "no card"
    line = "2 shards: 0 queued, 0 running, 0 done, 2 failed; 0 of 12 points done"
    assert summary([state, state]) == line
