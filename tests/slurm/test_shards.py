"""A shard's job without Slurm: what it measures, what it leaves to others, and on which card."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import open_dict

from experiments.data.metrics import derive
from experiments.data.rows import Row, read_rows, rows_files
from experiments.slurm.node import Errand, measure_shard
from experiments.slurm.records import ASKED, END, PLAN, card_number, read, write
from experiments.slurm.request import requests
from experiments.slurm.shards import Shard, divide
from experiments.sweep.config import register
from experiments.sweep.jobs import Job, job_from
from tests.conftest import DOUBLES, QUICK, ROOT, once_each, shape

FEW = ["dtype=float32", "gpu=cpu", "remeasure=false", *QUICK]


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """A job ends upon signals; the tests' own process is not to."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR2)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


def job(overrides: list[str]) -> Job:
    """A job as Hydra composes it in a sweep."""
    register()
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        where = f"hydra.searchpath=[file://{DOUBLES}]"
        config = compose("config", [where, *overrides], return_hydra_config=True)
    with open_dict(config):
        return job_from(config, overrides)


def shards_of(*variations: list[str], kernels: str = "good,torch") -> list[Shard]:
    jobs = [
        job([f"kernel={kernel}", *variation, *FEW])
        for variation in variations
        for kernel in kernels.split(",")
    ]
    return divide(jobs, job)


def errand(shard: Shard, out: Path) -> Errand:
    made = Errand(shard, str(out), "sweep-1", "request", f"token of {shard.id}", False)
    write(out, shard.id, ASKED, {"token": made.token, "request": made.request})
    return made


def rows(out: Path) -> list[Row]:
    return [row for path in rows_files(out) for row in read_rows(path)]


def test_points_that_two_shards_share_are_measured_by_the_first(tmp_path: Path) -> None:
    first, second = shards_of(shape(4, [8, 16]), shape(4, [16, 32]))
    assert [shard.asked for shard in (first, second)] == [6, 3]
    for shard in (second, first):  # in whatever order Slurm runs them
        measure_shard(errand(shard, tmp_path))
    assert once_each(rows(tmp_path))
    assert sorted((r.kernel, r.cols) for r in rows(tmp_path)) == [
        (kernel, cols) for kernel in ("copy", "good", "torch") for cols in (8, 16, 32)
    ]
    told = [read(tmp_path, shard.id, PLAN) for shard in (first, second)]
    assert [len(plan["own"]) for plan in told] == [6, 3]
    assert all(read(tmp_path, s.id, END)["status"] == 0 for s in (first, second))


def test_a_shard_submitted_again_is_taken_from_its_earlier_job(tmp_path: Path) -> None:
    (shard,) = shards_of(shape(4, [8]))
    early = errand(shard, tmp_path)
    write(tmp_path, shard.id, ASKED, {"token": "a later one's", "request": "request"})
    with pytest.raises(SystemExit):
        measure_shard(early)
    assert rows(tmp_path) == []
    assert read(tmp_path, shard.id, END) == {}


def test_cards_are_numbered_in_the_order_they_are_met(tmp_path: Path) -> None:
    met = [card_number(tmp_path, "sweep-1", f"GPU-{name}") for name in "abacb"]
    assert met == [0, 1, 0, 2, 1]
    assert card_number(tmp_path, "sweep-1", None) == 0
    written = "".join(path.read_text() for path in (tmp_path / "slurm" / "cards").iterdir())
    assert "GPU" not in written


def test_what_goes_on_upon_another_card_takes_its_roof_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shard,) = shards_of(shape(4, [8, 16]))
    measure_shard(errand(shard, tmp_path))
    (torn,) = [path for path in shard.rows_files(tmp_path) if "torch" in path.parts]
    kept = [line for line in torn.read_text().splitlines(True) if json.loads(line)["cols"] != 16]
    torn.write_text("".join(kept))
    monkeypatch.setattr("experiments.slurm.card.card_number", lambda *_: 1)
    measure_shard(errand(shard, tmp_path))
    later = [row for row in rows(tmp_path) if row.card == 1]
    assert sorted((r.kernel, r.cols) for r in later) == [("copy", 16), ("torch", 16)]
    assert len(rows(tmp_path)) == 7
    derived = {(r["kernel"], r["card"], r["cols"]): r for r in derive(rows(tmp_path))}
    own, roof = derived["torch", 1, 16], derived["copy", 1, 16]
    assert own["fraction_of_roof"] == pytest.approx(roof["time_us"] / own["time_us"])
    measure_shard(errand(shard, tmp_path))
    assert len(rows(tmp_path)) == 7


def test_a_request_changes_with_what_is_asked_and_not_with_how() -> None:
    base, *others = [
        requests(shards_of([*shape(4, [8]), *more], kernels=kernels))
        for more, kernels in [
            ([], "good"),
            (["overwrite=true"], "good"),
            (["rounds=2"], "good"),
            ([], "good,torch"),
        ]
    ]
    (known,) = base.values()
    assert [list(other.values()) == [known] for other in others] == [True, False, False]
