"""The parent's side of profiling: which points are called, under what name, and what is listed.

The worker is real and on a CPU, but says that it is an H200, and only pretends to profile.
"""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra

from experiments.child import Child
from experiments.data.records import read_records
from experiments.errors import SweepFailed
from experiments.profile import profiling
from experiments.profile.profiling import LIST, Profiled
from experiments.sweep.cards import WorkerPool
from experiments.sweep.client import Worker
from experiments.sweep.config import register
from experiments.sweep.jobs import Job, job_from
from experiments.worker import measure
from tests.conftest import DOUBLES, ROOT, shape
from tests.doubles.kernels import Good


class Disguised(Worker):
    """Profiles nothing; the naive kernel fails. It remembers what it was asked for."""

    def __init__(self, log: Path) -> None:
        super().__init__("cpu", 0, log)
        self.ranges: list[str] = []

    def start(self) -> dict[str, Any]:
        handshake = super().start()
        handshake["device"] |= {"kind": "cuda", "name": "NVIDIA H200"}
        return handshake

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


@dataclass(frozen=True)
class Profiling:
    """What came of profiling some jobs: the ranges asked for, the records, what was printed."""

    ranges: list[str]
    listed: dict[str, Profiled]
    printed: list[str]
    failed: bool
    statuses: list[int]


def job(kernel: str, *others: str) -> list[str]:
    """The overrides of a job of a kernel at 4×8."""
    return [f"kernel={kernel}", *shape(4, 8), "dtype=float32", *others]


def profile(worker: Disguised, out: Path, *jobs: list[str], keep: bool = False) -> Profiling:
    """Profiles jobs by a disguised worker, which it may ``keep`` for the next."""
    register()
    GlobalHydra.instance().clear()
    worker.ranges.clear()
    children: list[Child] = []

    class DisguisedPool(WorkerPool):
        def worker(self, device: str, card: int) -> Worker:
            return self.workers.setdefault((device, card), worker)

        def close(self) -> None:
            if keep:
                self.workers.clear()
            children.extend(w._child for w in self.workers.values() if w._child is not None)
            super().close()

    def composed(overrides: list[str]) -> Job:
        return job_from(compose("config", overrides, return_hydra_config=True), overrides)

    failed = False
    with (
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(io.StringIO()) as printed,
        initialize_config_dir(str(ROOT / "conf"), version_base="1.3"),
    ):
        patch.setattr(profiling, "WorkerPool", DisguisedPool)
        try:
            asked = [composed([*overrides, f"out={out}"]) for overrides in jobs]
            profiling.profile(asked, composed, [0])
        except SweepFailed:
            failed = True
    records = read_records(out / LIST, Profiled) if (out / LIST).exists() else []
    statuses = [int(child.process.returncode) for child in children]
    lines = printed.getvalue().splitlines()
    return Profiling([*worker.ranges], {r.range: r for r in records}, lines, failed, statuses)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Profiling, Profiling]:
    """A dry run, and a run of two points that can be profiled, one that fails, one unsupported."""
    out, rounds = tmp_path_factory.mktemp("profiled"), "rounds=3"
    worker = Disguised(out / "worker.log")
    return profile(worker, out, job("torch", "dry_run=true"), keep=True), profile(
        worker, out, job("torch", rounds), job("fused", rounds), job("naive", rounds),
        job("fused_row", rounds, f"grid.cols={2**21}"),
    )  # fmt: skip


def test_each_point_is_called_once_in_a_range_of_its_name_and_listed(
    both: tuple[Profiling, Profiling],
) -> None:
    _, mixed = both
    names = {name.partition(" ")[2].partition(" ")[2]: name for name in mixed.listed}
    assert names.keys() == {
        "torch 4x8 float32", "fused 4x8 float32", "naive 4x8 float32",
        f"fused_row 4x{2**21} float32",
    }  # fmt: skip
    assert set(mixed.ranges) == set(mixed.listed) - {names[f"fused_row 4x{2**21} float32"]}
    assert len(mixed.ranges) == 3
    for kernel in ("torch", "fused"):
        point = mixed.listed[names[f"{kernel} 4x8 float32"]]
        assert (point.status, point.gpu) == ("profiled", "NVIDIA H200")
        assert (point.model_reads, point.model_writes) == (32, 32)
        assert point.source
        assert f"{point.range}: profiled" in mixed.printed


def test_an_unsupported_point_is_listed_a_failed_one_fails_the_command_and_a_dry_run_calls_none(
    both: tuple[Profiling, Profiling],
) -> None:
    dry, mixed = both
    status = {point.kernel: (point.status, point.reason or "") for point in mixed.listed.values()}
    assert status["naive"] == ("failed", "too much")
    assert status["fused_row"][0] == "unsupported"
    assert "Triton's largest block" in status["fused_row"][1]
    assert mixed.failed
    assert mixed.statuses == [0]  # the worker ends by itself: a profiler loses what is killed
    assert dry.printed == ["point 0 torch 4x8 float32"]
    assert (dry.ranges, dry.listed) == ([], {})


def request(target: str) -> dict[str, Any]:
    return {
        "kernel": {"_target_": target}, "rows": 2, "cols": 4, "dtype": "float32", "seed": 0,
        "range": "point 0 good 2x4 float32",
    }  # fmt: skip


def test_one_call_warms_up_one_is_inside_the_range_and_a_failed_one_is_an_outcome(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[str] = []

    @contextmanager
    def noted(name: str) -> Iterator[None]:
        seen.append(f"begin {name}")
        yield
        seen.append("end")

    monkeypatch.setattr(Good, "__call__", lambda self, x: seen.append("call") or x)
    monkeypatch.setattr(measure, "profiler_range", noted)
    outcome = measure.profile(request("tests.doubles.kernels.Good"), "cpu")
    assert outcome == {"status": "ok", "reason": None}
    assert seen == ["call", "begin point 0 good 2x4 float32", "call", "end"]
    failed = measure.profile(request("tests.doubles.kernels.Raise"), "cpu")
    assert failed["status"] == "launch_error"
    assert "first line second line" in failed["reason"]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_card_every_point_asked_for_is_listed_with_its_range(tmp_path: Path) -> None:
    asked = ["kernel=good,raise,fused_row", "dtype=float32", "rounds=2", *shape(8, [64, 128])]
    done = subprocess.run(
        [sys.executable, "-m", "experiments.profile", "--config-dir", str(DOUBLES),
         f"out={tmp_path}", *asked],
        cwd=ROOT, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    points = list(read_records(tmp_path / LIST, Profiled))
    assert sorted((p.kernel, p.cols, p.status) for p in points) == [
        ("fused_row", 64, "profiled"), ("fused_row", 128, "profiled"),
        ("good", 64, "profiled"), ("good", 128, "profiled"),
        ("raise", 64, "failed"), ("raise", 128, "failed"),
    ]  # fmt: skip
    assert len({point.range for point in points}) == len(points)
