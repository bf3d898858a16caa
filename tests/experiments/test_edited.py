"""Edited code is measured anew, wherever the modules lie that a kernel imports."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from experiments.data.rows import Row, read_rows, rows_files
from experiments.worker.describe import _unpacked, source_hash
from tests.conftest import QUICK, ROOT, shape

KERNEL = """\
from dataclasses import dataclass

import torch

from {module} import softmax
from kernels.kernel import Kernel
from kernels.softmax.operation import SOFTMAX
from kernels.traffic import M, N, Traffic


@dataclass(frozen=True)
class Borrowed(Kernel):
    operation, backend, moves, on_chip = SOFTMAX, "torch", Traffic(M * N, M * N), N

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return softmax(x)
"""
RIGHT = "import torch\n\n\ndef softmax(x):\n    return torch.softmax(x, -1)\n"
WRONG = "import torch\n\n\ndef softmax(x):\n    return torch.zeros_like(x)\n"
# a module on PYTHONPATH, one in a folder of the checkout, and one that another of them imports
EDITED = {"outside": "outside", "inside": "mine.inside", "further": "mine.further"}
BORROWED = EDITED | {"kept": "kept"}


def test_an_edit_outside_of_kernels_is_measured_and_not_taken_from_old_rows(tmp_path: Path) -> None:
    checkout, library = tmp_path / "checkout", tmp_path / "library"
    for room in ("conf", "experiments", "kernels"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / room, checkout / room, ignore=ignored)
    files = [library / "outside.py", checkout / "mine" / "inside.py", library / "deep" / "there.py"]
    for path in files:
        path.parent.mkdir(exist_ok=True)
        path.write_text(RIGHT)
    (library / "kept.py").write_text(RIGHT)
    (checkout / "mine" / "further.py").write_text("from deep.there import softmax\n")
    for name, module in BORROWED.items():
        (checkout / "kernels" / "softmax" / f"{name}.py").write_text(KERNEL.format(module=module))
        target = f"_target_: kernels.softmax.{name}.Borrowed\n"
        (checkout / "conf" / "kernel" / f"{name}.yaml").write_text(target)
    asked = [f"kernel={','.join(BORROWED)}", *shape(4, 16), "dtype=float32", *QUICK]
    command = [sys.executable, "-m", "experiments.run", *asked, "gpu=cpu", "tracker=none",
               "remeasure=false", f"out={tmp_path / 'out'}"]  # fmt: skip

    def measured(status: int) -> list[Row]:
        done = subprocess.run(
            command, cwd=checkout, capture_output=True, text=True,
            env=os.environ | {"PYTHONPATH": str(library)},
        )  # fmt: skip
        assert done.returncode == status, done.stderr
        return [row for path in rows_files(tmp_path / "out") for row in read_rows(path)]

    before = measured(0)
    assert {row.kernel: row.status for row in before} == dict.fromkeys([*BORROWED, "copy"], "ok")
    for path in files:
        path.write_text(WRONG)
    after = measured(1)
    new = [row for row in after if row not in before]
    assert {row.kernel: row.status for row in new} == dict.fromkeys(EDITED, "incorrect")
    assert all(row in after for row in before), "what is as it was is taken from its row"
    assert {row.attempt for row in new} == {1}


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
    before = source_hash("begin", ROOT)
    path = library / edited
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes((path.read_bytes() if path.exists() else b"") + kind)
    importlib.invalidate_caches()
    return source_hash("begin", ROOT) != before


@pytest.mark.parametrize("start", [
    "import one.two.three", "import one.two.three as t", "from one.two import three",
    "from one.two.three import function", "def f():\n    from one.two import three",
    "class A:\n    import one.two.three", "from one import two", "import within",
    "from space.inner import three",
])  # fmt: skip
def test_each_way_to_import_is_followed(library: Path, start: str) -> None:
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


def test_what_has_no_source_counts_as_it_is(library: Path) -> None:
    binary = f"native{EXTENSION_SUFFIXES[0]}"
    assert changes(library, "import native", binary, b"\x7fELF")
    assert changes(library, "import native", binary, b"\0")
    (library / "broken.py").write_text("print 'of another Python'\n")
    assert changes(library, "import broken", "broken.py")


def test_a_module_that_hides_one_of_the_standard_library_counts(library: Path) -> None:
    assert changes(library, "import colorsys", "colorsys.py")


@pytest.mark.parametrize("folder", ["site-packages", "unpacked"])
def test_what_is_installed_counts_by_its_version_alone(library: Path, folder: str) -> None:
    """Wheels may be unpacked into any folder; they lie beside their metadata."""
    installed = library / folder
    (installed / "bought-1.0.dist-info").mkdir(parents=True)
    (installed / "bought.py").write_text("")
    sys.path.insert(0, str(installed))
    _unpacked.cache_clear()
    begin = "import bought, torch.nn, os, numpy.linalg"
    assert not changes(library, begin, f"{folder}/bought.py")


def test_an_editable_install_counts(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Setuptools finds one by a finder of its own, others by a folder on the path."""
    package = library.parent / "elsewhere" / "edited"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")

    class Finder:
        @staticmethod
        def find_spec(name: str, path: object = None, target: object = None) -> object:
            init = package / "__init__.py"
            places = {"submodule_search_locations": [str(package)]}
            if name != "edited":
                return None
            return importlib.util.spec_from_file_location(name, init, **places)  # type: ignore[arg-type]

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder])
    assert changes(library, "import edited.module", "../elsewhere/edited/module.py")
    assert changes(library, "import edited.module", "../elsewhere/edited/__init__.py")
