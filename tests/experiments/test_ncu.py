"""ncu is found where it is installed, and is called so that it sees the ranges and nothing else."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from experiments.errors import UserError
from experiments.profile import ncu
from experiments.profile.ncu import METRICS, REQUIRED, find_ncu, run_ncu, version
from tests.doubles.ncu import executable


def test_without_ncu_the_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserError, match="install NVIDIA Nsight Compute"):
        find_ncu(places=())


def test_the_newest_installed_ncu_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in ("2024.3.2", "2025.10.0", "2025.3.1"):
        (tmp_path / number).mkdir()
        executable(tmp_path / number, "")
    monkeypatch.setenv("PATH", "")
    assert find_ncu([f"{tmp_path}/*/ncu"]) == f"{tmp_path}/2025.10.0/ncu"


def test_a_version_is_read_from_what_ncu_says_of_itself(tmp_path: Path) -> None:
    assert version(str(executable(tmp_path, ""))) == "2025.3.1.0"


def test_the_command_comes_after_every_option(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    path = executable(tmp_path, f"Path({str(seen)!r}).write_text(' '.join(sys.argv[1:]))\n")
    assert run_ncu(str(path), ["python", "-m", "experiments.profile"], tmp_path / "log") == (0, "")
    options, _, command = seen.read_text().partition(f"--log-file {tmp_path / 'log'} ")
    assert command == "python -m experiments.profile"
    for option in ("--nvtx", "--profile-from-start off", "--clock-control none", "--page raw",
                   "--cache-control all", "--target-processes all", ",".join(METRICS)):  # fmt: skip
        assert option in options


def test_a_required_metric_that_is_unknown_ends_it(tmp_path: Path) -> None:
    complaint = f"==ERROR== Failed to find metric {REQUIRED[1]}"
    path = executable(tmp_path, f"log.write_text({complaint!r})\n")
    with pytest.raises(UserError, match=f"does not know {REQUIRED[1]} on this card"):
        run_ncu(str(path), ["true"], tmp_path / "log")


def test_an_ncu_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ncu, "LIMIT_S", 0.5)
    pid = tmp_path / "pid"
    body = f"import os, time\nPath({str(pid)!r}).write_text(str(os.getpid()))\ntime.sleep(99)\n"
    path = executable(tmp_path, body)
    began = time.monotonic()
    with pytest.raises(UserError, match="ncu took more than"):
        run_ncu(str(path), ["true"], tmp_path / "log")
    assert time.monotonic() - began < 20
    if pid.exists():
        assert subprocess.run(["kill", "-0", pid.read_text()], capture_output=True).returncode
