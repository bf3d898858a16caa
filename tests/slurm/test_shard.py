"""A shard's job without Slurm: its points, those it leaves to others, and its state."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.data.rows import read_rows, rows_files
from experiments.slurm import State, divide, is_due, look, measure_shard
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

    def states() -> list[tuple[str, int, int]]:
        found = [look(tmp_path, shard, mine, {}, {}) for shard, mine in shards.items()]
        return [(state.word, state.points, state.done) for state in found]

    assert states() == [("new", 6, 0), ("new", 3, 0)]
    for mine in reversed(shards.values()):  # in whatever order Slurm runs them
        measure_shard(mine, "sweep-1")
    rows = [row for path in rows_files(tmp_path) for row in read_rows(path)]
    assert once_each(rows)
    assert sorted((r.kernel, r.cols) for r in rows) == [
        (kernel, cols) for kernel in ("copy", "good", "torch") for cols in (8, 16, 32)
    ]
    assert states() == [("done", 6, 6), ("done", 3, 3)]
    assert {row.sweep for row in rows} == {"sweep-1"}


def test_a_state_is_what_slurm_says_or_else_what_the_rows_say(
    tmp_path: Path, compose_job: Compose
) -> None:
    jobs = [compose_job(["kernel=good", *shape(4, [8, 16]), *FEW])]

    def state(slurm: dict[str, str] | None) -> State:
        return look(tmp_path, "a", jobs, {"a": "7_0"}, slurm)

    for slurm, word, why in [
        ({"7_0": "PENDING"}, "queued", ""), (None, "running", ""),
        ({"7_0": "COMPLETED"}, "running", ""),
        ({"7_0": "CANCELLED"}, "failed", "Slurm says CANCELLED (log: "),
        ({}, "failed", "points are missing (log: "),
    ]:  # fmt: skip
        found = state(slurm)
        assert (found.word, found.why[: len(why)]) == (word, why)
        assert is_due(found, {"overwrite": True, "only_failed": False}) == (word == "failed")
        assert not is_due(found, {"overwrite": False, "only_failed": True})
    (tmp_path / "slurm" / "log").mkdir(parents=True)
    (tmp_path / "slurm" / "log" / "7_0_log.err").write_text("x\nerror: no card\ny\n")
    assert state({}).why.startswith("no card (log: ")
