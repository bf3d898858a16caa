"""A point is called once to warm up and once inside its range, and nothing else is."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from experiments.data.records import read_records
from experiments.profile.profiling import LIST, Profiled
from experiments.worker import measure
from tests.conftest import DOUBLES, ROOT, shape
from tests.doubles.kernels import Good


def profile(out: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "experiments.profile", "--config-dir", str(DOUBLES), f"out={out}",
         *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=240,
    )  # fmt: skip


def request(target: str) -> dict[str, Any]:
    return {
        "kernel": {"_target_": target}, "rows": 2, "cols": 4, "dtype": "float32", "seed": 0,
        "range": "point 0 good 2x4 float32",
    }  # fmt: skip


def test_one_call_warms_up_and_one_is_inside_the_range(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    @contextmanager
    def noted(name: str) -> Iterator[None]:
        seen.append(f"begin {name}")
        yield
        seen.append("end")

    monkeypatch.setattr(Good, "__call__", lambda self, x: seen.append("call") or x)
    outcome = measure.profile(request("tests.doubles.kernels.Good"), "cpu", noted)
    assert outcome == {"status": "ok", "reason": None}
    assert seen == ["call", "begin point 0 good 2x4 float32", "call", "end"]


def test_a_call_that_fails_is_an_outcome() -> None:
    outcome = measure.profile(request("tests.doubles.kernels.Raise"), "cpu")
    assert outcome["status"] == "launch_error"
    assert "first line second line" in outcome["reason"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_device_it_refuses_in_one_line(tmp_path: Path) -> None:
    done = profile(tmp_path, "kernel=good", *shape(2, 4), "gpu=cpu")
    assert done.returncode == 2
    assert done.stderr == "error: profiling needs a CUDA device, and there is none here\n"
    assert not (tmp_path / LIST).exists()


def test_wrong_options_are_refused_as_experiments_run_does(tmp_path: Path) -> None:
    done = profile(tmp_path, "kernel=nonsense")
    assert done.returncode == 2
    assert "Could not find 'kernel/nonsense'" in done.stderr


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_card_every_point_asked_for_is_listed_with_its_range(tmp_path: Path) -> None:
    done = profile(
        tmp_path, "kernel=good,raise,fused_row", "dtype=float32", "rounds=2", *shape(8, [64, 128])
    )
    assert done.returncode == 1, done.stderr
    points = list(read_records(tmp_path / LIST, Profiled))
    assert sorted((p.kernel, p.cols, p.status) for p in points) == [
        ("fused_row", 64, "profiled"), ("fused_row", 128, "profiled"),
        ("good", 64, "profiled"), ("good", 128, "profiled"),
        ("raise", 64, "failed"), ("raise", 128, "failed"),
    ]  # fmt: skip
    assert len({point.range for point in points}) == len(points)
