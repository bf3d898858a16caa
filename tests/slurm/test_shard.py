"""A shard's job without Slurm: what it measures, what it leaves to others, and on which card."""

from __future__ import annotations

import dataclasses
import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from experiments.data.metrics import derive
from experiments.data.rows import Row, read_rows, rows_files
from experiments.errors import UserError
from experiments.slurm import node, status
from experiments.slurm.node import Task, card_number, measure_shard, state_file, submitted
from experiments.slurm.submit import divide, options_of
from experiments.sweep.jobs import Compose
from experiments.sweep.record import read_object, write_json
from tests.conftest import QUICK, once_each, shape

FEW = ["dtype=float32", "gpu=cpu", "remeasure=false", "tracker=none", *QUICK]


@pytest.fixture(autouse=True)
def handlers(pool: None) -> Iterator[None]:
    """A job ends upon signals; the tests' own process does not."""
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
        divided = divide(jobs, compose_job, tmp_path, "sweep-1", on_card=False)
        known = {task.id: {"name": task.name, "token": task.token} for task in divided}
        write_json(submitted(tmp_path), {"shards": known})
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
    states = [read_object(state_file(tmp_path, t.id)) for t in (first, second)]
    assert [(s["points"], s["done"], s["rows"], s["status"]) for s in states] == [
        (6, 6, 6, 0), (3, 3, 3, 0),
    ]  # fmt: skip
    assert {row.sweep for row in rows(tmp_path)} == {"sweep-1"}


def test_a_shard_submitted_again_is_taken_from_its_earlier_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tasks_of: Tasks
) -> None:
    [task] = tasks_of(shape(4, [8]))
    later = {"shards": {task.id: {"name": task.name, "token": "a later one's"}}}
    report = node.Submission.report

    def submitted_meanwhile(self: node.Submission, *points: Any) -> None:
        report(self, *points)
        write_json(submitted(tmp_path), later)

    monkeypatch.setattr(node.Submission, "report", submitted_meanwhile)
    with pytest.raises(SystemExit):
        measure_shard(task)
    assert rows(tmp_path) == []
    assert "status" not in read_object(state_file(tmp_path, task.id))


def test_cards_are_numbered_in_the_order_they_are_met(tmp_path: Path, tasks_of: Tasks) -> None:
    [task] = tasks_of(shape(4, [8]))

    def number(serial: str | None) -> int:
        worker: Any = SimpleNamespace(handshake={"serial": serial})
        return card_number(task, worker)

    assert [number(f"GPU-{name}") for name in "abacb"] == [0, 1, 0, 2, 1]
    assert number(None) == 0
    written = "".join(path.read_text() for path in (tmp_path / "slurm" / "cards").iterdir())
    assert "GPU" not in written


def test_what_goes_on_upon_another_card_takes_its_roof_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tasks_of: Tasks
) -> None:
    [task] = tasks_of(shape(4, [8, 16]))
    measure_shard(task)
    [torn] = [path for path in rows_files(tmp_path) if "torch" in path.parts]
    kept = [line for line in torn.read_text().splitlines(True) if json.loads(line)["cols"] != 16]
    torn.write_text("".join(kept))
    monkeypatch.setattr(node, "card_number", lambda *_: 1)
    measure_shard(task)
    later = [row for row in rows(tmp_path) if row.card == 1]
    assert sorted((r.kernel, r.cols) for r in later) == [("copy", 16), ("torch", 16)]
    derived = {(r["kernel"], r["card"], r["cols"]): r for r in derive(rows(tmp_path))}
    own, roof = derived["torch", 1, 16], derived["copy", 1, 16]
    assert own["fraction_of_roof"] == pytest.approx(roof["time_us"] / own["time_us"])
    measure_shard(task)
    assert len(rows(tmp_path)) == 7


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
    answers: list[dict[str, str] | None] = [
        {"7_0": "PENDING"}, {"7_0": "RUNNING"}, None, {"7_0": "CANCELLED"}, {},
        {"7_0": "COMPLETED"},
    ]  # fmt: skip
    known = {"a": {"name": "grid cpu", "points": 6, "token": "t", "job": "7_0"}}
    write_json(submitted(tmp_path), {"shards": known})
    watch, found = status.Watch(tmp_path), []
    for answer in answers:
        monkeypatch.setattr(status, "queue_states", lambda _, answer=answer: answer)
        state = watch.look(["a"])["a"]
        found.append((state.word, state.why))
    monkeypatch.setattr(status, "LAG_S", 0.0)
    found.append((watch.look(["a"])["a"].word, watch.look(["a"])["a"].why))
    assert found == [
        ("queued", None), ("running", None), ("running", None), ("failed", "Slurm says CANCELLED"),
        ("failed", "Slurm has forgotten its job"), ("running", None),
        ("failed", "Slurm says COMPLETED"),
    ]  # fmt: skip
    ended = {"token": "t", "points": 6, "done": 4, "failed": 2}
    for end, expected in [
        ({"status": 0, "error": None}, ("done", None)),
        ({"status": 1, "error": None}, ("failed", "2 of its points failed")),
        ({"status": 1, "error": "no card"}, ("failed", "no card")),
        ({"status": 0, "token": "an earlier one's"}, ("failed", "Slurm says COMPLETED")),
    ]:
        write_json(state_file(tmp_path, "a"), ended | end)
        state = watch.look(["a"])["a"]
        assert (state.word, state.why, state.done, state.points) == (*expected, 4, 6)
    line = status.summary([state, dataclasses.replace(state, word="done")])
    assert line == "2 shards: 0 queued, 0 running, 1 done, 1 failed; 8 of 12 points done"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"time": "1:00"}, "time=1:00; it must be a valid integer"),
        ({"array_parallelism": 0}, "array_parallelism=0; it must be greater than or equal to 1"),
        ({"setup": "module load cuda"}, "setup=module load cuda; it must be a valid list"),
        ({"more": "mem=3G"}, "more=mem=3G; it must be a valid dictionary"),
        ({"partition": " "}, "partition= ; it must match pattern"),
        ({"queue": "short"}, "queue is no option; there are partition, account"),
    ],
)
def test_options_of_no_use_are_named(given: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=r"^hydra\.launcher\.") as raised:
        options_of(given)
    assert message in str(raised.value)
