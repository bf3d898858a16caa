"""The hash of a kernel's source changes with each module that it imports, wherever that lies."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from experiments.worker.describe import _unpacked, source_hash


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


def test_a_module_without_source_counts_as_it_is_and_so_does_one_that_hides_pythons(
    library: Path,
) -> None:
    binary = f"native{EXTENSION_SUFFIXES[0]}"
    assert changes(library, "import native", binary, b"\x7fELF")
    assert changes(library, "import native", binary, b"\0")
    (library / "broken.py").write_text("print 'of another Python'\n")
    assert changes(library, "import broken", "broken.py")
    assert changes(library, "import tabnanny", "tabnanny.py")


@pytest.mark.parametrize("folder", ["site-packages", "unpacked"])
def test_an_installed_module_counts_by_its_version_alone(library: Path, folder: str) -> None:
    """Wheels may be unpacked into any folder; they lie beside their metadata."""
    installed = library / folder
    (installed / "bought-1.0.dist-info").mkdir(parents=True)
    (installed / "bought.py").write_text("")
    sys.path.insert(0, str(installed))
    _unpacked.cache_clear()
    begin = "import bought, torch.nn, os, numpy.linalg"
    assert not changes(library, begin, f"{folder}/bought.py")
