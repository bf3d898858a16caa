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


def test_code_that_is_changed_or_not_tracked_is_dirty(checkout: Path) -> None:
    (checkout / "outputs.txt").write_text("not tracked, and no code\n")
    (checkout / "kernels" / "old.pyc").write_text("ignored\n")
    (checkout / "conf" / "kernel").mkdir(parents=True)
    assert is_dirty(checkout) is False
    for file in ("kernels/old.py", "kernels/new.py", "conf/kernel/new.yaml"):
        before = (checkout / file).read_text() if (checkout / file).exists() else None
        (checkout / file).write_text("new\n")
        assert is_dirty(checkout) is True, file
        (checkout / file).unlink() if before is None else (checkout / file).write_text(before)
        assert is_dirty(checkout) is False


def test_without_a_repository_nothing_is_said(tmp_path: Path) -> None:
    assert is_dirty(tmp_path) is None
