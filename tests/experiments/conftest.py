"""One real worker for all sweeps of this process, and a recorded sweep to measure again."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hydra.core.global_hydra import GlobalHydra

from experiments.errors import command
from experiments.run import act_on
from experiments.sweep import driver
from experiments.sweep.cards import WorkerPool
from experiments.sweep.client import Worker
from tests.conftest import QUICK, ROOT, Command, Result, command_line, shape


@pytest.fixture(scope="session")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """A worker on the CPU; it starts again when a kernel or a sweep ends it."""

    worker = Worker("cpu", 0, tmp_path_factory.mktemp("worker") / "worker.log")
    yield worker
    worker.stop()


@pytest.fixture
def pool(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sweeps of this process use the session's worker for the CPU, and leave it running."""

    class Pool(WorkerPool):
        def worker(self, device: str, card: int) -> Worker:
            return worker if device == "cpu" else super().worker(device, card)

        def start(self, jobs):  # type: ignore[no-untyped-def]
            self.workers["cpu", 0] = worker
            if worker.process is not None and worker.process.poll() is not None:
                worker.stop()  # Linux ended it with the thread of the last sweep that started it
            super().start(jobs)

        def close(self) -> None:
            self.workers.pop(("cpu", 0), None)
            super().close()

    monkeypatch.setattr(driver, "WorkerPool", Pool)


@pytest.fixture
def sweep_here(
    pool: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Command:  # fmt: skip
    """The `sweep` of tests/conftest.py without a process of its own."""

    def run(*arguments: str, out: Path | None = None, **variables: str) -> Result:
        folder = out or tmp_path / "out"
        for name, value in {"HYDRA_FULL_ERROR": "1", **variables}.items():
            monkeypatch.setenv(name, value)
        GlobalHydra.instance().clear()
        capfd.readouterr()
        status = command(lambda: act_on(command_line(folder, *arguments)[3:]))
        shown = capfd.readouterr()
        return Result(status, shown.out, shown.err, folder)

    return run


@pytest.fixture(scope="session")
def sweep_of_four(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recorded sweep: two variants, two widths, two dtypes, two rounds."""
    out = tmp_path_factory.mktemp("recorded") / "out"
    run = [sys.executable, "-m", "experiments.run", f"out={out}", "tracker=none", "gpu=cpu"]
    asked = ["kernel=torch,copy", *shape(4, [8, 16]), "dtype.names=[float32,float16]"]
    more = [*QUICK, "timing.cache=warm", "rounds=2", "seed=7"]
    done = subprocess.run([*run, *asked, *more], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture
def folder(sweep_of_four: Path, tmp_path: Path) -> Path:
    """A copy of it for a test to spoil."""
    return Path(shutil.copytree(sweep_of_four, tmp_path / "recorded"))
