from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT


def test_what_each_kernel_becomes_for_an_h200(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    options = ["-q", "--noconftest", "-p", "no:cacheprovider", "-p", "no:hypothesispytest"]
    files = [str(file) for file in (ROOT / "tests/kernels").rglob("for_h200.py")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *files],
        env=os.environ | {"TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
