"""What all tests share: the real command line, run in a folder of the test's own."""

import os

# The suite runs beside itself on every core: a kernel with a thread for each core would wait for
# the scheduler instead of computing. Triton decides about its interpreter as it decorates.
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

# A shell that starts the suite in its background has it ignore Ctrl-C, and whatever it starts too
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

from experiments.data.errors import command
from experiments.data.rows import Row, read_rows, rows_files
from experiments.parent import driver
from experiments.parent.cards import WorkerPool
from experiments.parent.client import Worker
from experiments.parent.jobs import register
from experiments.run import act_on

# PyTorch leaves many objects that stay: walking them over and over costs a tenth of all tests
gc.set_threshold(200_000, 20, 50)

ROOT = Path(__file__).parent.parent
CONF = ROOT / "conf"
DOUBLES = ROOT / "tests" / "doubles" / "conf"
LONGEST = ("tests/reference/", "tests/house/test_extending.py")
# Warm: a cold sample reads twice the last-level cache first, a quarter of a second if large
QUICK = ["timing.min_samples=5", "timing.max_samples=20", "timing.cache=warm"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs a card is skipped where there is none; the longest tests begin first."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))
    if not torch.cuda.is_available():
        for item in items:
            if item.get_closest_marker("gpu") is not None:
                item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


@dataclass(frozen=True)
class Result:
    """How a command ended."""

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
        """Its error, which must be one line."""
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


@pytest.fixture(autouse=True)
def _errors_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """`experiments.run` in this process asks Hydra for whole errors; no test leaves that behind."""
    monkeypatch.setenv("HYDRA_FULL_ERROR", "0")


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
        def start(self, jobs):  # type: ignore[no-untyped-def]
            self.workers["cpu", 0, None] = worker
            if worker.process is not None and worker.process.poll() is not None:
                worker.stop()  # Linux ended it with the thread of the last sweep that started it
            super().start(jobs)

        def close(self) -> None:
            self.workers.pop(("cpu", 0, None), None)
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


Composed = Callable[..., DictConfig]


@pytest.fixture
def composed() -> Iterator[Composed]:
    """Composes overrides with Hydra's own part, the test doubles among the kernels."""
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
    """Whether every point was done exactly once."""
    identities = [row.identity for row in rows if row.expected]
    return len(identities) == len(set(identities))


def shape(rows: int, cols: int | list[int]) -> list[str]:
    """Overrides for a small grid."""
    return ["grid=point", f"grid.rows={rows}", f"grid.cols={json.dumps(cols)}".replace(" ", "")]
