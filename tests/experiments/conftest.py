"""One real worker for all sweeps of this process, and a recorded sweep to measure again."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hydra.core.global_hydra import GlobalHydra

from experiments.errors import command
from experiments.run import act_on
from experiments.sweep import driver
from experiments.sweep.cards import WorkerPool
from experiments.sweep.client import Worker
from tests.conftest import QUICK, Command, Result, command_line, shape


@pytest.fixture(scope="session")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """A worker on the CPU; it starts again when a kernel or a sweep ends it."""

    worker = Worker("cpu", 0, tmp_path_factory.mktemp("worker") / "worker.log")
    yield worker
    worker.stop()


@pytest.fixture(scope="session")
def pool(worker: Worker) -> Iterator[None]:
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

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "WorkerPool", Pool)
        yield


def ended(folder: Path, *arguments: str) -> int:
    """The exit status of the command line, in this process."""
    GlobalHydra.instance().clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HYDRA_FULL_ERROR", "1")
        return command(lambda: act_on(command_line(folder, *arguments)[3:]))


@pytest.fixture
def sweep(
    pool: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Command:  # fmt: skip
    """Runs the command line on a CPU into a folder of the test's own, in this process."""

    def run(*arguments: str, out: Path | None = None, **variables: str) -> Result:
        folder = out or tmp_path / "out"
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        capfd.readouterr()
        return Result(ended(folder, *arguments), *capfd.readouterr(), folder)

    return run


@pytest.fixture(scope="session")
def sweep_of_four(pool: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recorded sweep: two variants, two widths, two dtypes, two rounds."""
    out = tmp_path_factory.mktemp("recorded") / "out"
    asked = ["kernel=torch,copy", *shape(4, [8, 16]), "dtype.names=[float32,float16]"]
    assert ended(out, *asked, *QUICK, "rounds=2", "seed=7") == 0
    return out


@pytest.fixture
def folder(sweep_of_four: Path, tmp_path: Path) -> Path:
    """A copy of it for a test to spoil."""
    return Path(shutil.copytree(sweep_of_four, tmp_path / "recorded"))
