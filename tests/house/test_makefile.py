"""`make` explains itself, picks the right preset, and refuses what cannot work in one line."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from experiments import environment
from tests.conftest import ROOT
from tests.house.shell import make, noted


@pytest.fixture
def card(tmp_path: Path) -> str:
    """A PATH on which nvidia-smi lists one GPU."""
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho 'GPU 0: NVIDIA H200 (UUID: GPU-0)'\n")
    smi.chmod(0o755)
    return f"{tmp_path}:{os.environ['PATH']}"


def test_make_alone_lists_every_target_for_users_by_groups_in_80_columns() -> None:
    shown = make().stdout
    listed = set(re.findall(r"^  ([a-z-]+) ", shown, re.M))
    assert re.findall(r"^\w+$", shown, re.M) == ["measure", "draw", "test", "install"]
    assert max(map(len, shown.splitlines())) <= 80
    makefile = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    (phony,) = re.findall(r"^\.PHONY: (.*)$", makefile, re.M)
    assert listed == {name for name in phony.split() if not name.startswith(".")}


def test_sweep_takes_paper_where_a_device_is_visible_and_cpu_elsewhere(
    card: str, tmp_path: Path
) -> None:
    for visible, preset in (("0", "paper"), ("", "cpu"), ("-1", "cpu")):
        sweep = noted(tmp_path, "sweep", PATH=card, CUDA_VISIBLE_DEVICES=visible).calls[0]
        assert f"experiment={preset}" in sweep


@pytest.mark.parametrize(
    ("arguments", "passed"),
    [
        (["ARGS=kernel=a,b dtype=float16"], ["kernel=a,b", "dtype=float16"]),
        (["OUT=/tmp/there"], ["out='/tmp/there'"]),
        (["ARGS=out=/tmp/there"], ["out='/tmp/there'"]),
        (["ARGS=name=mine", "DRY_RUN=1"], ["out='outputs/mine'", "dry_run=true"]),
        (["LAUNCHER=slurm"], ["experiment=paper", "hydra/launcher=slurm"]),
    ],
)
def test_sweep_passes_what_is_asked(
    arguments: list[str], passed: list[str], tmp_path: Path
) -> None:
    [sweep] = [call for call in noted(tmp_path, "sweep", *arguments).calls if set(passed) & {*call}]
    assert set(passed) <= set(sweep)


def test_an_exported_variable_of_the_same_name_is_not_meant(tmp_path: Path) -> None:
    exported = {"OUT": "/tmp/elsewhere", "ARGS": "kernel=none", "ROWS": "/tmp/elsewhere"}
    for target in ("sweep", "figures"):
        called = noted(tmp_path, target, "EXPERIMENT=cpu", **exported).calls
        assert "elsewhere" not in str(called)
        assert "kernel=none" not in str(called)


@pytest.mark.parametrize(
    ("status", "drawn", "dry"),
    [(0, True, ""), (1, True, ""), (2, False, ""), (0, False, "1")],
)
def test_sweep_draws_what_was_measured_and_keeps_the_status(
    status: int, drawn: bool, dry: str, tmp_path: Path
) -> None:
    done = noted(tmp_path, "sweep", "EXPERIMENT=cpu", f"DRY_RUN={dry}", status=status)
    figures = ["-m", "analysis", "figures", "--rows", "outputs/cpu"]
    assert (figures in done.calls) == drawn
    assert (done.status == 0) == (status == 0)
    assert status == 0 or f"Error {status}" in done.stderr


HOSTILE = ["$(shell touch {})", "`touch {}`", 'a"; touch {}; "', "a b#c:d;e%f"]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_folders_name_is_never_run(text: str, tmp_path: Path) -> None:
    name = text.format(tmp_path / "ran")
    found = tmp_path / name.replace("/", "_")  # as a contributed folder may be called
    found.mkdir()
    (found / "rows.jsonl").write_text("")
    for kind in ("figures", "validate"):
        (call,) = noted(tmp_path, kind, f"ROWS={name}", f"OUT={name}").calls
        assert [word for word in call if word != "--if-changed"] == [
            *("-m", "analysis", kind, "--rows", name, "--out", name)
        ]
    (call,) = noted(tmp_path, "compare", f"BASE={found}", f"HEAD={name}").calls
    assert call == ["-m", "analysis", "compare", str(found), name]
    swept = noted(tmp_path, "sweep", "EXPERIMENT=cpu", f"OUT={name}")
    if "$" in name:
        assert "without a quote, a backslash and a dollar" in swept.stderr
        assert (swept.status, swept.calls) == (2, [])
    else:
        assert f"out='{name}'" in swept.calls[0]
    assert not (tmp_path / "ran").exists()


def test_a_target_names_the_variable_that_it_lacks(tmp_path: Path) -> None:
    for target, variable in (("compare", "BASE"), ("validate", "ROWS")):
        done = noted(tmp_path, target)
        assert f"error: {target} needs {variable}=dir" in done.stderr
        assert done.calls == []


def test_an_old_python_gets_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    source = (ROOT / "experiments" / "environment.py").read_text()
    ast.parse(source, feature_version=(3, 8))
    monkeypatch.setattr(sys, "version_info", (3, 14, 0))
    with pytest.raises(SystemExit, match=r"is Python 3\.14; 3\.11, 3\.12 or 3\.13 is needed"):
        environment.check()


def test_system_python_says_what_it_lacks(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    done = make(".system", "VENV=system", f"PYTHON={bare}", f"WHEELHOUSE={tmp_path}")
    assert done.returncode != 0
    assert "lacks torch, hydra" in done.stderr
    assert "make wheelhouse" in done.stderr


def test_extras_are_installed_as_pinned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ran: list[list[str]] = []
    monkeypatch.setattr(environment.subprocess, "call", lambda words: ran.append(words))
    with pytest.raises(SystemExit, match="make wheelhouse EXTRA=peers"):
        environment.build(str(tmp_path), "peers")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    environment.build(str(tmp_path), "peers")
    peers, alone = (" ".join(words) for words in ran)
    assert "-c" in peers.split()
    assert "quack-kernels" in peers
    assert alone.endswith("--no-deps flag-gems helion")


def test_ci_calls_the_test_command_and_says_what_it_skips(tmp_path: Path) -> None:
    for name, text in [("make", 'echo "make $*"\n[ "$1" != test ]'), ("nvidia-smi", "exit 9")]:
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    here = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "CHROMIUM": "sh", "SLURMCTLD": "absent"}
    done = subprocess.run([ROOT / ".ci/run"], env=os.environ | here, capture_output=True, text=True)
    skipped = "skipped: make test-gpu (no CUDA device)"
    no_slurm = "skipped: make test-slurm (no slurmctld and munged)"
    drawn = ["make reference"] * 2  # on this processor, and as on one without AVX-512
    called = ["make test", "make test-ptx", *drawn, skipped, "make test-browser", no_slurm]
    assert done.stdout.splitlines() == called
    assert done.returncode == 1
