"""The command line in this process."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest
from hydra.core.global_hydra import GlobalHydra

from tests.conftest import Command, Result, command_line


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
