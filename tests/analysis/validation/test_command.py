"""Recorded folders are valid, and what a sweep leaves for its machine alone stays there."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from experiments.data.packed import recording
from experiments.data.rows import rows_files
from tests.analysis.validation.contributed import RECORDED, REFERENCE, TORCH, contributed, validated
from tests.conftest import ROOT


@pytest.mark.parametrize(
    ("name", "rows"), [("h200", "1,518 rows"), ("h200_exploration", "96 rows")]
)
def test_recorded_folders_are_valid(name: str, rows: str) -> None:
    told = validated(recording(REFERENCE / name))
    assert (told.status, told.problems()) == (0, [])
    assert told.verdict.startswith(f"valid: {rows} of NVIDIA H200")


@pytest.mark.parametrize("beside", [".hydra/multirun.yaml", "wandb/run/debug.log", "slurm/1.out"])
def test_what_is_a_machines_own_is_named_and_not_copied(beside: str, tmp_path: Path) -> None:
    folder = contributed(tmp_path)
    (folder / beside).parent.mkdir(parents=True)
    (folder / beside).write_text("cwd: /home/somebody/softmax\n")
    told = validated(folder)
    assert told.status == 1
    assert told.problems() == ["privacy: a home folder"]
    assert f"{beside}:1: a home folder: /home/somebody" in told.text
    assert "git ignores it below outputs/reference" in told.text
    out = tmp_path / "taken"
    assert validated(folder, "--out", str(out)).status == 0
    assert len(rows_files(out)) == len(rows_files(RECORDED))
    assert not (out / beside).exists()
    assert validated(out).verdict == validated(RECORDED).verdict


def test_an_invalid_folder_is_not_copied(tmp_path: Path) -> None:
    folder = contributed(tmp_path)
    (folder / TORCH).unlink()
    assert validated(folder, "--out", str(tmp_path / "taken")).status == 1
    assert not (tmp_path / "taken").exists()


def test_what_analysis_made_of_the_rows_may_lie_there(tmp_path: Path) -> None:
    folder = contributed(tmp_path)
    (folder / "tables").mkdir()
    (folder / "tables" / "traffic.md").write_text("| naive |\n")
    assert validated(folder).status == 0


@pytest.mark.parametrize("made", ["absent", "empty", "file"])
def test_bad_input_is_one_line(
    made: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    assert validated(tmp_path / made).status == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {tmp_path / made}: no ")
    assert error.count("\n") == 1


def test_a_folder_that_is_there_is_not_written_into(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert validated(RECORDED, "--out", str(tmp_path)).status == 2
    assert "there is something already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("wide/native-auto/online/rows.jsonl", True),
        ("wide/native-auto/online/config.json", True),
        ("variants.json", True),
        (".hydra/multirun.yaml", False),
        ("wandb/run/debug.log", False),
        ("slurm/1.out", False),
        ("worker.log", False),
        (".lock", False),
    ],
)
def test_git_takes_a_contributed_folder_as_it_is(path: str, kept: bool) -> None:
    asked = ["git", "check-ignore", "-q", f"outputs/reference/some_card/{path}"]
    assert subprocess.run(asked, cwd=ROOT).returncode == (1 if kept else 0)
