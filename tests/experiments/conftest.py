"""A recorded sweep to measure again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.conftest import QUICK, ended, shape


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
