"""What a row says of the place and the code that it comes from, and of what was launched."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from experiments.worker.launches import fields_of, recorded
from experiments.worker.machine import Monitor, State
from experiments.worker.place import is_dirty


def test_code_that_is_changed_or_not_tracked_is_dirty(tmp_path: Path) -> None:
    assert is_dirty(tmp_path) is None  # no repository
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "old.py").write_text("old\n")
    (tmp_path / ".gitignore").write_text("*.pyc\n")
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"]):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", "-C", str(tmp_path), *identity, *command], check=True)
    (tmp_path / "outputs.txt").write_text("not tracked, and no code\n")
    (tmp_path / "kernels" / "old.pyc").write_text("ignored\n")
    assert is_dirty(tmp_path) is False
    new = tmp_path / "kernels" / "new.py"
    new.write_text("new\n")
    assert is_dirty(tmp_path) is True
    new.unlink()
    (tmp_path / "kernels" / "old.py").write_text("new\n")
    assert is_dirty(tmp_path) is True


def test_a_compiled_kernel_that_a_library_kept_is_seen_too(monkeypatch: pytest.MonkeyPatch) -> None:
    kept_by = pytest.importorskip("triton.compiler").CompiledKernel
    launched: list[tuple[Any, ...]] = []

    def runner(self: Any, grid: Any) -> Any:
        return lambda *arguments: launched.append((grid, *arguments))

    monkeypatch.setattr(kept_by, "__getitem__", runner)
    kernel = object.__new__(kept_by)
    vars(kernel).update(metadata=SimpleNamespace(num_warps=8, shared=64), n_regs=32, n_spills=0)
    with recorded() as launches:
        kernel[5, 2, 1]("x")
        kernel[3, 1, 1]("y")
    kernel[9, 9, 9]("z")
    assert launched == [((5, 2, 1), "x"), ((3, 1, 1), "y"), ((9, 9, 9), "z")]
    assert fields_of(launches) == {
        "programs": 10, "warps": 8, "registers": 32, "shared_bytes": 64, "spills": 0,
    }  # fmt: skip
    assert kept_by.__getitem__ is runner


def test_the_state_of_a_card_is_what_nvml_gives_and_none_where_it_gives_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clocks = {1: 1980, 2: 3201}  # NVML's numbers of the SM's clock and the memory's
    nvml = SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByUUID=lambda uuid: f"card {uuid}",
        nvmlDeviceGetClockInfo=lambda card, clock: clocks[clock],
        nvmlDeviceGetPowerUsage=lambda card: 700_000,
        nvmlDeviceGetTemperature=lambda card, sensor: 41,
        nvmlDeviceGetCurrentClocksEventReasons=lambda card: 0x1 | 0x4 | 0x40,
        nvmlDeviceGetComputeRunningProcesses=lambda card: [SimpleNamespace(pid=1 << 22)] * 2,
        nvmlDeviceGetEccMode=lambda card: [1, 0],
    )
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    slowed = ["software power cap", "hardware thermal slowdown"]
    assert Monitor("GPU-7").read() == State(1980, 3201, 700.0, 41, slowed, 0)
    setup = Monitor("GPU-7").setup()
    assert (setup["ecc_mode"], setup["mig_mode"], setup["power_limit_w"]) == (1, None, None)
    assert Monitor(None).read() == State(None, None, None, None, None, None)
    assert Monitor(None).setup() == {}
