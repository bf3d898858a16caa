"""A worker: its protocol, what it says of its place, and the hash of a kernel's source."""

import importlib
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from experiments.parent import client
from experiments.parent.client import Worker, WorkerDied, WorkerError
from experiments.worker.describe import _unpacked, source_hash
from experiments.worker.machine import commit
from experiments.worker.measure import fields_of, recorded_launches
from tests.experiments.test_timers import protocol


def measured(worker: Worker, how: str) -> dict[str, Any]:
    point = {"rows": 2, "cols": 4, "dtype": "float32", "seed": 0, "workers": 1}
    point["kernel"] = {"_target_": "tests.doubles.kernels.Bad", "how": how}
    point["timing"] = vars(protocol(timer="auto", cache="warm"))
    return worker.request({"do": "measure", "point": point}, sampling=60.0, compiling=60.0)


def test_prints_of_any_kind_go_to_a_log_of_bounded_size(worker: Worker) -> None:
    worker.stop()
    worker.log.write_bytes(b"x" * client.LARGEST_LOG)  # full: it is emptied as a worker starts
    assert measured(worker, "print")["status"] == "ok"
    end = time.monotonic() + 30  # what was printed is on its way
    while len(text := worker.log.read_bytes()) < client.LARGEST_LOG and time.monotonic() < end:
        time.sleep(0.02)
    assert b"from a kernel\nhalf a pair: \\ud800\n\xfe" in text
    assert len(text) == client.LARGEST_LOG


def test_a_line_on_the_workers_own_pipe_costs_its_own_point_and_no_other(worker: Worker) -> None:
    with pytest.raises(WorkerDied, match="died while compiling: it sent 'this is not a message'"):
        measured(worker, "meddle")
    assert measured(worker, "")["status"] == "ok"


def test_code_that_is_changed_or_not_tracked_is_dirty(tmp_path: Path) -> None:
    assert commit(tmp_path) == {"commit": None, "dirty": None}  # no repository
    old, new = (tmp_path / "kernels" / f"{name}.py" for name in ("old", "new"))
    old.parent.mkdir()
    old.write_text("old\n")
    (tmp_path / ".gitignore").write_text("*.pyc\n")
    for words in ("init -q", "add -A", "-c user.name=a -c user.email=a@b commit -qm one"):
        subprocess.run(["git", "-C", str(tmp_path), *words.split()], check=True)
    (tmp_path / "outputs.txt").write_text("not tracked, and no code\n")
    old.with_suffix(".pyc").write_text("ignored\n")
    assert (commit(tmp_path)["dirty"], len(commit(tmp_path)["commit"])) == (False, 40)
    new.write_text("new\n")
    assert commit(tmp_path)["dirty"] is True
    new.replace(old)
    assert commit(tmp_path)["dirty"] is True


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on Python's path, in which modules of the test's own are found."""
    (tmp_path / "library").mkdir()
    monkeypatch.syspath_prepend(tmp_path / "library")
    yield tmp_path / "library"
    importlib.invalidate_caches()


def changes(library: Path, start: str, edited: str, kind: bytes = b"# more\n") -> bool:
    """Whether the hash of what imports ``start`` changes with an edited file."""
    (library / "begin.py").write_text(start)
    importlib.invalidate_caches()
    before = source_hash("begin")
    path = library / edited
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes((path.read_bytes() if path.exists() else b"") + kind)
    importlib.invalidate_caches()
    return source_hash("begin") != before


@pytest.mark.parametrize("start", [
    "import one.two.three as t", "from one.two import three", "from one.two.three import function",
    "def f():\n    from one.two import three", "from one import two", "import within",
    "from space.inner import three",
])  # fmt: skip
def test_each_way_to_import_is_followed_and_nothing_is_imported(library: Path, start: str) -> None:
    (library / "one" / "two").mkdir(parents=True)
    (library / "one" / "__init__.py").write_text("")
    (library / "one" / "two" / "__init__.py").write_text("from . import three\n")
    (library / "one" / "two" / "three.py").write_text("from ..four import *\nfrom .. import five\n")
    (library / "one" / "four.py").write_text("import outermost, not_there\n")
    (library / "one" / "five.py").write_text("")
    (library / "outermost.py").write_text("import one\n")  # in a circle
    (library / "within.py").write_text("if False:\n    from one.two.three import f\n")
    (library / "space" / "inner").mkdir(parents=True)  # folders without __init__.py
    (library / "space" / "inner" / "three.py").write_text("import one.two.three\n")
    for name in ("__init__", "two/__init__", "two/three", "four", "five"):
        assert changes(library, start, f"one/{name}.py"), name
    assert changes(library, start, "outermost.py")
    assert changes(library, start, "not_there.py")
    assert not changes(library, start, "unrelated.py")
    assert "one" not in sys.modules


@pytest.mark.parametrize("folder", ["site-packages", "unpacked"])
def test_what_counts_by_its_bytes_and_what_by_its_version_alone(library: Path, folder: str) -> None:
    binary = f"native{EXTENSION_SUFFIXES[0]}"
    assert changes(library, "import native", binary, b"\x7fELF")
    assert changes(library, "import native", binary, b"\0")
    (library / "broken.py").write_text("print 'of another Python'\n")
    assert changes(library, "import broken", "broken.py")
    assert changes(library, "import tabnanny", "tabnanny.py")  # which hides Python's
    installed = library / folder  # wheels may be unpacked into any; they lie beside their metadata
    (installed / "bought-1.0.dist-info").mkdir(parents=True)
    (installed / "bought.py").write_text("")
    sys.path.insert(0, str(installed))
    _unpacked.cache_clear()
    begin = "import bought, torch.nn, os, numpy.linalg"
    assert not changes(library, begin, f"{folder}/bought.py")


def test_a_log_that_is_a_link_is_not_followed_and_no_worker_starts(tmp_path: Path) -> None:
    log, elsewhere = tmp_path / "worker.log", tmp_path / "precious"
    elsewhere.write_text("untouched")
    log.symlink_to(elsewhere)
    with pytest.raises(WorkerError, match=r"worker\.log cannot be written: "):
        Worker("cpu", 0, log).start()
    assert elsewhere.read_text() == "untouched"


def test_a_compiled_kernel_that_a_library_kept_is_seen_too(monkeypatch: pytest.MonkeyPatch) -> None:
    kept_by = pytest.importorskip("triton.compiler").CompiledKernel
    monkeypatch.setattr(kept_by, "__getitem__", lambda self, grid: print)
    kernel = object.__new__(kept_by)
    vars(kernel).update(metadata=SimpleNamespace(num_warps=8, shared=64), n_regs=32, n_spills=0)
    with recorded_launches() as launches:
        kernel[5, 2, 1]("x")
        kernel[3, 1, 1]("y")
    kernel[9, 9, 9]("z")
    assert [*fields_of(launches).values()] == [10, 8, 32, 64, 0]
