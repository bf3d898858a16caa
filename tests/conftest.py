"""Fixtures that all tests share: they run the real command line in a folder of each test."""

import os

# Every core runs tests at the same time, so a kernel gets one thread. Set this before torch is
# imported, and TRITON_INTERPRET (below) before any kernel is decorated.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import gc
import json
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

# A shell that starts the suite in the background makes it, and its children, ignore Ctrl-C
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

from experiments.data.errors import command
from experiments.data.rows import Row, read_rows, rows_files
from experiments.parent import driver
from experiments.parent.cards import WorkerPool
from experiments.parent.client import Worker
from experiments.parent.jobs import register
from experiments.run import act_on

# PyTorch makes many objects that stay; collecting garbage less often saves a tenth of the time
gc.set_threshold(200_000, 20, 50)

ROOT = Path(__file__).parent.parent
CONF = ROOT / "conf"
REFERENCE = ROOT / "outputs" / "reference"
DOUBLES = ROOT / "tests" / "doubles" / "conf"
LONGEST = ("tests/reference/", "tests/house/test_extending.py")
# Warm, because a cold sample first reads twice the last-level cache, which takes up to 0.25 s
QUICK = ["timing.min_samples=5", "timing.max_samples=20", "timing.cache=warm"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips tests that need a card if there is none, and puts the longest tests first."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))
    if not torch.cuda.is_available():
        for item in items:
            if item.get_closest_marker("gpu") is not None:
                item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


@dataclass(frozen=True)
class Result:
    """The exit status and the output of a command, and the folder that it wrote."""

    status: int
    stdout: str
    stderr: str
    out: Path

    @property
    def rows(self) -> list[Row]:
        """All rows in its folder."""
        return rows_below(self.out)

    @property
    def error(self) -> str:
        """The text of its error line; checks that there is one, and no traceback."""
        lines = [line for line in self.stderr.splitlines() if line.startswith("error: ")]
        assert len(lines) == 1, self.stderr
        assert "Traceback" not in self.stderr
        return lines[0].removeprefix("error: ")


Command = Callable[..., Result]


def command_line(out: Path, *arguments: str) -> list[str]:
    """The command that measures into ``out``, with the test doubles among the kernels."""
    options = [f"out={out}", "tracker=none", "gpu=cpu", "remeasure=false"]
    given = {argument.partition("=")[0] for argument in arguments}
    options = [o for o in options if o.partition("=")[0] not in given]
    run = [sys.executable, "-m", "experiments.run", "--config-dir", str(DOUBLES)]
    return [*run, *options, *arguments]


@pytest.fixture(scope="session")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """A worker on the CPU for the whole session; a request starts it again if it has ended."""
    worker = Worker("cpu", 0, tmp_path_factory.mktemp("worker") / "worker.log")
    yield worker
    worker.stop()


@pytest.fixture(scope="session")
def pool(worker: Worker) -> Iterator[None]:
    """Sweeps of this process use the session's worker for the CPU, and leave it running."""

    class Pool(WorkerPool):
        def start(self, jobs):  # type: ignore[no-untyped-def]
            self.workers["cpu", 0, None] = worker
            if worker.process is not None and worker.process.poll() is not None:
                worker.stop()  # Linux killed it at the end of the thread that had started it
            super().start(jobs)

        def close(self) -> None:
            self.workers.pop(("cpu", 0, None), None)
            super().close()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "WorkerPool", Pool)
        yield


def exit_status(folder: Path, *arguments: str) -> int:
    """Runs the command line in this process, and returns its exit status."""
    GlobalHydra.instance().clear()
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
        return Result(exit_status(folder, *arguments), *capfd.readouterr(), folder)

    return run


@pytest.fixture(scope="session")
def sweep_of_four(pool: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recorded sweep: two variants, two widths, two dtypes, two rounds."""
    out = tmp_path_factory.mktemp("recorded") / "out"
    asked = ["kernel=torch,copy", *shape(4, [8, 16]), "dtype.names=[float32,float16]"]
    assert exit_status(out, *asked, *QUICK, "rounds=2", "seed=7") == 0
    return out


Composed = Callable[..., DictConfig]


@pytest.fixture
def composed() -> Iterator[Composed]:
    """A function that composes overrides to a whole configuration, with the doubles as kernels."""
    register()
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        hydra = GlobalHydra.instance().hydra
        assert hydra is not None
        path = hydra.config_loader.get_search_path()
        path.prepend("doubles", f"file://{DOUBLES}", anchor="schema")
        hydra.config_loader = type(hydra.config_loader)(path)
        yield lambda *overrides: compose("config", list(overrides), return_hydra_config=True)


def rows_below(folder: Path) -> list[Row]:
    """All rows in a folder."""
    return [row for path in rows_files(folder) for row in read_rows(path)]


def once_each(rows: list[Row]) -> bool:
    """Whether no point has more than one row of expected status."""
    identities = [row.identity for row in rows if row.expected]
    return len(identities) == len(set(identities))


def shape(rows: int, cols: int | list[int]) -> list[str]:
    """Overrides for a small grid."""
    return ["grid=point", f"grid.rows={rows}", f"grid.cols={json.dumps(cols)}".replace(" ", "")]
