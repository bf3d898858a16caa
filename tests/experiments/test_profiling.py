"""The parent's side of profiling: which points are called, under what name, and what is listed.

The worker is real and on a CPU, but says that it is an H200, and only pretends to profile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra

from experiments.data.records import read_records
from experiments.errors import SweepFailed
from experiments.profile import profiling
from experiments.profile.profiling import LIST, Profiled
from experiments.sweep.cards import WorkerPool
from experiments.sweep.client import Worker
from experiments.sweep.config import register
from experiments.sweep.jobs import Job, job_from
from tests.conftest import ROOT, shape


class Disguised(Worker):
    """Profiles nothing; the naive kernel fails. It remembers what it was asked for."""

    def __init__(self, log: Path, ranges: list[str]) -> None:
        super().__init__("cpu", 0, log)
        self.ranges = ranges

    def start(self) -> dict[str, Any]:
        hello = super().start()
        hello["device"] |= {"kind": "cuda", "name": "NVIDIA H200"}
        return hello

    def request(
        self, message: Mapping[str, Any], limits_s: Mapping[str, float], first: str,
        attempts: int = 1,
    ) -> dict[str, Any]:  # fmt: skip
        if message["do"] != "profile":
            return super().request(message, limits_s, first, attempts)
        self.ranges.append(message["point"]["range"])
        if "Naive" in message["point"]["kernel"]["_target_"]:
            return {"status": "out_of_memory", "reason": "too much"}
        return {"status": "ok", "reason": None}


@pytest.fixture
def ranges(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the ranges that workers are asked for, while workers are disguised."""
    asked: list[str] = []

    class DisguisedPool(WorkerPool):
        def worker(self, device: str, card: int) -> Worker:
            return self.workers.setdefault((device, card), Disguised(self.log, asked))

    monkeypatch.setattr(profiling, "WorkerPool", DisguisedPool)
    return asked


def profile(*jobs: list[str]) -> None:
    register()
    GlobalHydra.instance().clear()

    def composed(overrides: list[str]) -> Job:
        return job_from(compose("config", overrides, return_hydra_config=True), overrides)

    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        profiling.profile([composed(job) for job in jobs], composed, [0])


Options = Callable[..., list[str]]


@pytest.fixture
def job(tmp_path: Path) -> Options:
    """The overrides of a job of a kernel at 4×8."""

    def overrides(kernel: str, *others: str) -> list[str]:
        return [f"kernel={kernel}", *shape(4, 8), f"out={tmp_path}", *others]

    return overrides


def test_each_point_is_called_in_a_range_of_its_name_and_listed(
    tmp_path: Path, ranges: list[str], job: Options, capsys: pytest.CaptureFixture[str]
) -> None:
    profile(job("torch", "rounds=3", "dtype=float32"), job("fused", "rounds=3", "dtype=float32"))
    listed = list(read_records(tmp_path / LIST, Profiled))
    assert [point.range for point in listed] == ranges
    assert sorted(name.partition(" ")[2].partition(" ")[2] for name in ranges) == [
        "fused 4x8 float32", "torch 4x8 float32",
    ]  # fmt: skip
    for point in listed:
        assert (point.status, point.gpu) == ("profiled", "NVIDIA H200")
        assert (point.model_reads, point.model_writes) == (32, 32)
        assert point.source
    assert capsys.readouterr().out.splitlines() == [f"{name}: profiled" for name in ranges]


def test_an_unsupported_point_is_listed_and_not_called(
    tmp_path: Path, ranges: list[str], job: Options
) -> None:
    profile(job("fused_row", f"grid.cols={2**21}", "dtype=float32"))
    [point] = read_records(tmp_path / LIST, Profiled)
    assert point.status == "unsupported"
    assert "Triton's largest block" in (point.reason or "")
    assert ranges == []


def test_a_failed_point_fails_the_command_after_the_others_were_called(
    tmp_path: Path, ranges: list[str], job: Options
) -> None:
    with pytest.raises(SweepFailed):
        profile(job("naive", "dtype=float32"), job("torch", "dtype=float32"))
    listed = {point.kernel: point for point in read_records(tmp_path / LIST, Profiled)}
    assert (listed["naive"].status, listed["naive"].reason) == ("failed", "too much")
    assert listed["torch"].status == "profiled"


def test_a_dry_run_prints_the_points_and_calls_none(
    tmp_path: Path, ranges: list[str], job: Options, capsys: pytest.CaptureFixture[str]
) -> None:
    profile(job("torch", "dtype=float32", "dry_run=true"))
    assert capsys.readouterr().out == "point 0 torch 4x8 float32\n"
    assert ranges == []
    assert not (tmp_path / LIST).exists()


def test_a_profiled_worker_ends_by_itself(tmp_path: Path) -> None:
    worker = Worker("cpu", 0, tmp_path / "worker.log")
    worker.start()
    child = worker._child
    assert child is not None
    worker.stop(patience_s=60)
    assert child.process.returncode == 0  # not a signal's
