"""Drawing the recorded rows again gives the same bytes, whatever order Python's sets have."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT


def made(command: str, seed: int, out: Path) -> dict[str, bytes]:
    subprocess.run(
        [sys.executable, "-m", "analysis", command, "--rows", "outputs/reference", "--out", out],
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": str(seed)},
        check=True,
        capture_output=True,
        timeout=200,
    )
    return {path.name: path.read_bytes() for path in out.iterdir()}


@pytest.mark.parametrize("command", ["figures", "roofline", "tables"])
def test_the_same_rows_give_the_same_bytes(command: str, tmp_path: Path) -> None:
    first, second = (made(command, seed, tmp_path / str(seed)) for seed in (1, 2))
    assert first
    assert first == second
