"""`make` explains itself, picks the right preset, and refuses what cannot work in one line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.shell import ROOT, make, variable


@pytest.fixture
def card(tmp_path: Path) -> str:
    """A PATH on which nvidia-smi lists one GPU."""
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho 'GPU 0: NVIDIA H200 (UUID: GPU-0)'\n")
    smi.chmod(0o755)
    return f"{tmp_path}:{os.environ['PATH']}"


def test_make_alone_lists_every_target_for_users() -> None:
    listed = set(re.findall(r"^  ([a-z-]+) ", make().stdout, re.M))
    phony = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.M)
    assert listed == {name for name in " ".join(phony).split() if not name.startswith(".")}


def test_sweep_takes_paper_where_a_device_is_visible_and_cpu_elsewhere(card: str) -> None:
    for visible, preset in (("0", "paper"), ("", "cpu"), ("-1", "cpu")):
        shown = make("-n", "sweep", PATH=card, CUDA_VISIBLE_DEVICES=visible).stdout
        assert f"preset={preset};" in shown


@pytest.mark.parametrize(
    ("arguments", "passed"),
    [
        (["EXPERIMENT=smoke"], ["preset=smoke;", 'out="outputs/$preset"']),
        (["ARGS=kernel=fused,online dtype=float16"], ["kernel=fused,online dtype=float16"]),
        (["OUT=/tmp/there"], ['out="/tmp/there"']),
        (["ARGS=out=/tmp/there"], ['out="/tmp/there"']),
        (["DRY_RUN=1"], ["dry_run=true"]),
        (["LAUNCHER=slurm"], ["preset=paper;", "hydra/launcher=slurm", ".venv/slurm.txt"]),
    ],
)
def test_sweep_passes_what_is_asked(arguments: list[str], passed: list[str]) -> None:
    shown = make("-n", "sweep", *arguments).stdout
    assert [text for text in passed if text not in shown] == []


def test_an_exported_variable_of_the_same_name_is_not_meant() -> None:
    shown = make("-n", "sweep", "EXPERIMENT=cpu", OUT="/tmp/elsewhere", ARGS="kernel=none").stdout
    assert "elsewhere" not in shown
    assert "kernel=none" not in shown


@pytest.mark.parametrize(
    ("status", "drawn", "dry", "ends"),
    [
        (0, True, "", 0),
        (1, True, "", 1),
        (2, False, "", 2),
        (130, False, "", 130),
        (0, False, "1", 0),
    ],
)
def test_sweep_draws_what_was_measured_and_keeps_the_status(
    status: int, drawn: bool, dry: str, ends: int, tmp_path: Path
) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho "$*"\ncase "$2" in *run) exit {status};; esac\nexit 9\n')
    python.chmod(0o755)
    done = make("sweep", "EXPERIMENT=cpu", "READY=", f"PY={python}", f"DRY_RUN={dry}")
    assert ("-m analysis figures --rows outputs/cpu" in done.stdout) == drawn
    assert (done.returncode == 0) == (ends == 0)
    assert ends == 0 or f"Error {ends}" in done.stderr


def test_python_out_of_range_is_one_line(tmp_path: Path) -> None:
    old = tmp_path / "python"
    old.write_text(
        f'#!/bin/sh\n[ "$1" = -c ] && exec {sys.executable} -c "import sys; '
        'sys.version_info = (3, 14, 0); $2"\n'
    )
    old.chmod(0o755)
    done = make(".python", f"PYTHON={old}")
    assert done.returncode != 0
    assert "is Python 3.14; 3.11, 3.12 or 3.13 is needed" in done.stderr
    assert "Traceback" not in done.stderr


def test_system_python_says_what_it_lacks(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    bare.chmod(0o755)
    done = make(".system", "VENV=system", f"PYTHON={bare}", f"WHEELHOUSE={tmp_path}")
    assert done.returncode != 0
    assert "lacks torch, hydra" in done.stderr
    assert "make wheelhouse" in done.stderr


def test_peers_are_installed_as_pinned_and_flag_gems_without_what_it_asks_for() -> None:
    shown = make("-n", "peers", "READY=", "VENV=.venv").stdout
    assert "install -qq --disable-pip-version-check -c constraints.txt -r .venv/peers.txt" in shown
    assert "-c constraints.txt --no-deps flag-gems" in shown
    done = make("peers", "READY=", "VENV=system")
    assert "make wheelhouse EXTRA=peers" in done.stderr
    assert done.returncode != 0


def test_submitit_is_installed_as_pinned_where_it_is_missing() -> None:
    shown = make("-n", "slurm", "READY=", "VENV=.venv").stdout
    assert "install -qq --disable-pip-version-check -c constraints.txt -r .venv/slurm.txt" in shown
    assert "status needs OUT=dir" in make("status", "READY=").stderr


def test_system_python_finds_cutlass_in_the_unpacked_wheels() -> None:
    path = variable("PYTHONPATH", "VENV=system")[0]
    assert f":{ROOT}/.site/nvidia_cutlass_dsl/dsl_packages" in path


@pytest.mark.parametrize(
    ("browser", "said"),
    [("absent", "skipped: make test-browser (no Chromium)"), ("sh", "make test-browser")],
)
def test_ci_calls_the_test_command_and_says_what_it_skips(
    browser: str, said: str, tmp_path: Path
) -> None:
    fake = tmp_path / "make"
    fake.write_text('#!/bin/sh\necho "make $*"\n[ "$1" != test ]\n')
    fake.chmod(0o755)
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\nexit 9\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    here = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "CHROMIUM": browser, "SLURMCTLD": "absent"}
    done = subprocess.run([ROOT / ".ci/run"], env=os.environ | here, capture_output=True, text=True)
    skipped = "skipped: make test-gpu (no CUDA device)"
    no_slurm = "skipped: make test-slurm (no slurmctld and munged)"
    assert done.stdout.splitlines() == ["make test", skipped, said, no_slurm]
    assert done.returncode == 1
