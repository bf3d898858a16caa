"""A recorded sweep, measured once, for the tests of measuring it again."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.sweep.client import Worker
from tests.conftest import QUICK, ROOT, shape


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


@pytest.fixture(scope="session")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """A worker on the CPU, where kernels are interpreted even if the machine has a GPU."""
    worker = Worker("cpu", 0, tmp_path_factory.mktemp("worker") / "worker.log")
    yield worker
    worker.stop()
