"""The command line in this process, with one real worker for all sweeps of the session."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hydra.core.global_hydra import GlobalHydra

from experiments.sweep import driver
from experiments.sweep.cards import WorkerPool
from experiments.sweep.client import Worker
from tests.conftest import Command, Result, command_line


@pytest.fixture(scope="session")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """A worker on the CPU; it starts again when a kernel ends it."""
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
            return super().start(jobs)

        def close(self) -> None:
            self.workers.pop(("cpu", 0), None)
            super().close()

    monkeypatch.setattr(driver, "WorkerPool", Pool)


@pytest.fixture
def sweep(
    pool: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Command:
    """The `sweep` of tests/conftest.py without a process of its own."""

    def run(*arguments: str, out: Path | None = None, **variables: str) -> Result:
        folder = out or tmp_path / "out"
        monkeypatch.setattr(sys, "argv", ["run", *command_line(folder, *arguments)[3:]])
        for name, value in {"HYDRA_FULL_ERROR": "0", **variables}.items():
            monkeypatch.setenv(name, value)
        GlobalHydra.instance().clear()
        capfd.readouterr()
        status = 0
        try:
            runpy.run_module("experiments.run", run_name="__main__")
        except SystemExit as ended:
            status = int(ended.code or 0)
        shown = capfd.readouterr()
        return Result(status, shown.out, shown.err, folder)

    return run
