"""What a row says of the place where it was measured."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from experiments.worker.place import is_dirty


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with one committed kernel."""
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "old.py").write_text("old\n")
    (tmp_path / ".gitignore").write_text("*.pyc\n")
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"]):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", "-C", str(tmp_path), *identity, *command], check=True)
    return tmp_path


def test_a_commit_is_what_runs_while_nothing_differs(checkout: Path) -> None:
    (checkout / "outputs.txt").write_text("not tracked, and no code\n")
    (checkout / "kernels" / "old.pyc").write_text("ignored\n")
    assert is_dirty(checkout) is False


@pytest.mark.parametrize("file", ["kernels/old.py", "kernels/new.py", "conf/kernel/new.yaml"])
def test_code_that_is_changed_or_not_tracked_is_dirty(checkout: Path, file: str) -> None:
    (checkout / file).parent.mkdir(parents=True, exist_ok=True)
    (checkout / file).write_text("new\n")
    assert is_dirty(checkout) is True


def test_without_a_repository_nothing_is_said(tmp_path: Path) -> None:
    assert is_dirty(tmp_path) is None
