"""A shard's job without Slurm: its points, those it leaves to others, and its state."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from experiments.data.rows import Row, read_rows, rows_files
from experiments.slurm import node, status
from experiments.slurm.node import Task, measure_shard, state_file
from experiments.slurm.submit import divide
from experiments.sweep.jobs import with_roofs
from experiments.sweep.record import write_json
from tests.conftest import QUICK, Compose, once_each, shape

FEW = ["dtype=float32", "gpu=cpu", "remeasure=false", "tracker=none", *QUICK]


@pytest.fixture(autouse=True)
def as_in_a_job(pool: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A job has a number and ends upon signals; the tests' own process does not."""
    monkeypatch.setattr(node, "job_number", lambda: "7_0")
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR2)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


Tasks = Callable[..., list[Task]]


@pytest.fixture
def tasks_of(tmp_path: Path, compose_job: Compose) -> Tasks:
    """The shards of a sweep's variations, as if they had been submitted."""

    def tasks(*variations: list[str], kernels: str = "good,torch") -> list[Task]:
        jobs = [
            compose_job([f"kernel={kernel}", *variation, *FEW])
            for variation in variations
            for kernel in kernels.split(",")
        ]
        roofed = [*with_roofs(jobs, compose_job)]
        divided = divide(roofed, tmp_path, "sweep-1", on_card=False)
        known = {
            task.id: {"name": task.name, "points": task.points, "job": "7_0",
                      "jobs": [job.name for job in task.jobs]}
            for task in divided
        }  # fmt: skip
        write_json(status.submitted(tmp_path), {"shards": known})
        return divided

    return tasks


def rows(out: Path) -> list[Row]:
    return [row for path in rows_files(out) for row in read_rows(path)]


def test_points_that_two_shards_share_are_measured_by_the_first(
    tmp_path: Path, tasks_of: Tasks
) -> None:
    first, second = tasks_of(shape(4, [8, 16]), shape(4, [16, 32]))
    assert [task.points for task in (first, second)] == [6, 3]
    for task in (second, first):  # in whatever order Slurm runs them
        measure_shard(task)
    assert once_each(rows(tmp_path))
    assert sorted((r.kernel, r.cols) for r in rows(tmp_path)) == [
        (kernel, cols) for kernel in ("copy", "good", "torch") for cols in (8, 16, 32)
    ]
    states = status.look(tmp_path, [first.id, second.id]).values()
    assert [(state.word, state.points, state.done) for state in states] == [
        ("done", 6, 6), ("done", 3, 3),
    ]  # fmt: skip
    assert {row.sweep for row in rows(tmp_path)} == {"sweep-1"}


def test_a_request_changes_with_what_is_asked_and_not_with_how(
    tmp_path: Path, tasks_of: Tasks
) -> None:
    base, *others = [
        tasks_of([*shape(4, [8]), *more], kernels=kernels)[0].request
        for more, kernels in [
            ([], "good"), (["overwrite=true"], "good"), (["rounds=2"], "good"), ([], "good,torch"),
        ]
    ]  # fmt: skip
    assert [other == base for other in others] == [True, False, False]


def test_a_state_is_what_slurm_says_until_the_job_itself_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {"a": {"name": "grid cpu", "points": 6, "job": "7_0", "jobs": []}}
    write_json(status.submitted(tmp_path), {"shards": known})
    for answer, word, why in [
        ({"7_0": "PENDING"}, "queued", ""), ({"7_0": "COMPLETED"}, "running", ""),
        (None, "running", ""), ({"7_0": "CANCELLED"}, "failed", "Slurm says CANCELLED"),
        ({}, "failed", "Slurm has forgotten its job"),
    ]:  # fmt: skip
        monkeypatch.setattr(status, "queue_states", lambda _, answer=answer: answer)
        state = status.look(tmp_path, ["a"])["a"]
        assert (state.word, state.why) == (word, why)
    for end, word, why in [
        ({"status": 0, "error": None}, "done", ""),
        ({"status": 1, "error": "no card"}, "failed", "no card"),
        ({"status": 0, "job": "an earlier one's"}, "failed", "Slurm has forgotten its job"),
    ]:
        write_json(state_file(tmp_path, "a"), {"job": "7_0"} | end)
        state = status.look(tmp_path, ["a"])["a"]
        assert (state.word, state.why if why else "") == (word, why)
    line = "2 shards: 0 queued, 0 running, 0 done, 2 failed; 0 of 12 points done"
    assert status.summary([state, state]) == line
