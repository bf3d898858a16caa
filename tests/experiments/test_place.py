"""What a row says of the place and the code that it comes from, and of what was launched."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from experiments.worker.launches import fields_of, recorded
from experiments.worker.place import commit


def test_code_that_is_changed_or_not_tracked_is_dirty(tmp_path: Path) -> None:
    assert commit(tmp_path) == {"commit": None, "dirty": None}  # no repository
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "old.py").write_text("old\n")
    (tmp_path / ".gitignore").write_text("*.pyc\n")
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"]):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", "-C", str(tmp_path), *identity, *words], check=True)
    (tmp_path / "outputs.txt").write_text("not tracked, and no code\n")
    (tmp_path / "kernels" / "old.pyc").write_text("ignored\n")
    assert commit(tmp_path)["dirty"] is False
    assert len(commit(tmp_path)["commit"]) == 40
    new = tmp_path / "kernels" / "new.py"
    new.write_text("new\n")
    assert commit(tmp_path)["dirty"] is True
    new.unlink()
    (tmp_path / "kernels" / "old.py").write_text("new\n")
    assert commit(tmp_path)["dirty"] is True


def test_a_compiled_kernel_that_a_library_kept_is_seen_too(monkeypatch: pytest.MonkeyPatch) -> None:
    kept_by = pytest.importorskip("triton.compiler").CompiledKernel
    launched: list[tuple[Any, ...]] = []

    def runner(self: Any, grid: Any) -> Any:
        return lambda *arguments: launched.append((grid, *arguments))

    monkeypatch.setattr(kept_by, "__getitem__", runner)
    kernel = object.__new__(kept_by)
    vars(kernel).update(metadata=SimpleNamespace(num_warps=8, shared=64), n_regs=32, n_spills=0)
    with recorded() as launches:
        kernel[5, 2, 1]("x")
        kernel[3, 1, 1]("y")
    kernel[9, 9, 9]("z")
    assert launched == [((5, 2, 1), "x"), ((3, 1, 1), "y"), ((9, 9, 9), "z")]
    assert fields_of(launches) == {
        "programs": 10, "warps": 8, "registers": 32, "shared_bytes": 64, "spills": 0,
    }  # fmt: skip
    assert kept_by.__getitem__ is runner
