"""The parent's side of profiling: which points are called, under what name, and what is listed.

The worker is real and on a CPU, but says that it is an H200, and only pretends to profile.
"""

from __future__ import annotations

import runpy
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hydra.core.global_hydra import GlobalHydra

from experiments.data.records import read_records
from experiments.profile.profiling import LIST, Profiled
from experiments.sweep.client import Worker
from experiments.worker import measure
from experiments.worker.flush import Flush
from experiments.worker.place import take_place
from experiments.worker.trial import Bench
from tests.conftest import shape
from tests.doubles.kernels import Good


def test_each_point_is_called_once_in_a_range_of_its_name_and_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    ranges: list[str] = []
    children: set[subprocess.Popen[bytes] | None] = set()
    start, ask = Worker.start, Worker.request

    def disguised(self: Worker) -> dict[str, Any]:
        handshake = start(self)
        handshake["device"] |= {"kind": "cuda", "name": "NVIDIA H200"}
        children.add(self.process)
        return handshake

    def request(self: Worker, message: Mapping[str, Any], *more: Any, **options: Any) -> Any:
        if message["do"] != "profile":
            return ask(self, message, *more, **options)
        ranges.append(message["point"]["range"])
        if "Naive" in message["point"]["kernel"]["_target_"]:
            return {"status": "out_of_memory", "reason": "too much"}
        return {"status": "ok", "reason": None}

    monkeypatch.setattr(Worker, "start", disguised)
    monkeypatch.setattr(Worker, "request", request)

    def profile(*arguments: str) -> int:
        GlobalHydra.instance().clear()
        asked = [f"out={tmp_path}", "dtype=float32", *shape(4, [8, 2**21]), *arguments]
        monkeypatch.setattr(sys, "argv", ["profile", *asked])
        try:
            runpy.run_module("experiments.profile", run_name="__main__")
        except SystemExit as ended:
            return int(ended.code or 0)
        return 0

    wide = f"4x{2**21} float32"
    assert profile("kernel=online", "kernel.block_size=8", "dry_run=true") == 0
    alone = [f"point {i} online,block_size=8 {at}" for i, at in enumerate(("4x8 float32", wide))]
    assert capfd.readouterr().out.splitlines() == alone
    assert ranges == []
    assert not (tmp_path / LIST).exists()

    assert profile("kernel=torch,naive,fused_row", "rounds=3") == 1  # naive failed
    listed = {record.range: record for record in read_records(tmp_path / LIST, Profiled)}
    names = {name.split(maxsplit=2)[2]: record for name, record in listed.items()}
    assert {name: record.status for name, record in names.items()} == {
        "torch 4x8 float32": "profiled", f"torch {wide}": "profiled",
        "naive 4x8 float32": "failed", f"naive {wide}": "failed",
        "fused_row 4x8 float32": "profiled", f"fused_row {wide}": "unsupported",
    }  # fmt: skip
    assert sorted(ranges) == sorted(set(listed) - {names[f"fused_row {wide}"].range})
    assert names["naive 4x8 float32"].reason == "too much"
    assert "Triton's largest block" in str(names[f"fused_row {wide}"].reason)
    point = names["fused_row 4x8 float32"]
    assert (point.gpu, point.model_reads, point.model_writes) == ("NVIDIA H200", 32, 32)
    assert point.source
    assert f"{point.range}: profiled" in capfd.readouterr().out
    # no signal ended a worker: a profiler loses what a killed process had not handed over
    assert {child.returncode for child in children if child} == {0}


def request(target: str) -> dict[str, Any]:
    return {
        "kernel": {"_target_": target}, "rows": 2, "cols": 4, "dtype": "float32", "seed": 0,
        "range": "point 0 good 2x4 float32",
    }  # fmt: skip


def test_a_call_warms_up_l2_is_flushed_one_is_inside_the_range_and_a_failure_is_an_outcome(
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
    monkeypatch.setattr(Flush, "__call__", lambda self: seen.append("flush"))
    bench = Bench(take_place("cpu"))
    outcome = measure.profile(request("tests.doubles.kernels.Good"), bench)
    assert outcome == {"status": "ok", "reason": None}
    assert seen == ["call", "flush", "begin point 0 good 2x4 float32", "call", "end"]
    failed = measure.profile(request("tests.doubles.kernels.Raise"), bench)
    assert failed["status"] == "launch_error"
    assert "first line second line" in failed["reason"]
