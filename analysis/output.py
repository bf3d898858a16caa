"""What a command made and from what: files, their paths on the terminal, ``<kind>.manifest.json``.

The manifest says whether a picture still belongs to its rows and code: by its bytes where the same
versions draw it, by the digests of what went in everywhere else.
"""

from __future__ import annotations

import hashlib
import json
import platform
import sys
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from analysis.format import visible
from analysis.load import COUNTED, Inputs
from experiments.data.files import RowsError, files_below, write_file
from experiments.data.packed import packed_below
from experiments.data.records import HOSTCOST, KINDS
from experiments.data.rows import rows_files

ROOT = Path(__file__).parents[1]
SEVERAL = 3  # things left out, of which each can still be explained in a line
# All that decides what is drawn: analysis itself, what it takes from the other side, the cards.
CODE = (
    "analysis/**/*",
    "conf/gpu/*.yaml",
    "conf/grid/*.yaml",
    "conf/kernel/*.yaml",
    "experiments/data/*.py",
)
DRAWN_BY = ("matplotlib", "numpy", "pandas", "seaborn", "pillow", "fonttools", "contourpy",
            "sympy", "jinja2", "markupsafe", "pydantic", "pyyaml")  # fmt: skip


def check_names(asked: Sequence[str], known: Sequence[str]) -> None:
    """Refuses a name that nothing here has.

    Raises:
        RowsError: it names the first of them and those that would be right.
    """
    for name in asked:
        if name not in known:
            raise RowsError(f"--only: no {visible(name)!r}; known are {', '.join(known)}")


def finish(
    kind: str,
    inputs: Inputs,
    made: Sequence[Path],
    missing: Sequence[str],
    asked: Sequence[str] = (),
) -> None:
    """Writes the manifest of what a command made and prints it.

    Paths go to standard output; what was left out, to standard error in one line, and why where
    that is short. ``asked`` are the names or files that the command was limited to.
    """
    write_manifest(kind, inputs.rows, inputs.out, made, asked)
    for path in made:
        print(path)
    skipped = "; ".join(missing)
    if len(missing) > SEVERAL and kind in ("figures", "tables"):
        names = ", ".join(needs.partition(" needs ")[0] for needs in missing)
        skipped = f"{names}; --only NAME says what one needs"
    if skipped:
        print(f"skipped: {skipped}", file=sys.stderr)


def write_manifest(
    kind: str, rows: Path, out: Path, made: Iterable[Path], asked: Sequence[str] = ()
) -> Path:
    """Writes ``out/<kind>.manifest.json`` for the files ``made`` from ``rows``; returns it."""
    manifest = _inputs(rows) | {
        "asked": list(asked),
        "files": {path.relative_to(out).as_posix(): digest([path]) for path in sorted(set(made))},
    }
    return write_file(out / f"{kind}.manifest.json", json.dumps(manifest, indent=1) + "\n")


def is_current(kind: str, rows: Path, out: Path) -> bool:
    """Whether ``out`` still has all that a whole command made of these rows by today's code."""
    try:
        manifest = json.loads((out / f"{kind}.manifest.json").read_text(encoding="utf-8"))
        kept = all(digest([out / name]) == one for name, one in manifest["files"].items())
        inputs = {name: manifest[name] for name in ("inputs", "drawn_by", "asked")}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return False
    return kept and inputs == _inputs(rows) | {"asked": []}


def _inputs(rows: Path) -> dict[str, Any]:
    folders = (rows.parent if rows.is_file() else rows, COUNTED)
    names = (*KINDS, HOSTCOST, "variants.json")
    found = (files_below(folder, *names).values() for folder in folders)
    beside = {path for kinds in found for paths in kinds for path in paths}
    code = {path for pattern in CODE for path in ROOT.glob(pattern) if _is_code(path)}
    digests = {
        "rows": digest(rows_files(rows)),
        "packed": digest(packed_below(rows)),
        "records": digest(beside),
        "code": digest(code),
    }
    return {"inputs": digests, "drawn_by": drawn_by()}


def drawn_by() -> dict[str, str]:
    """The versions and the platform that decide about bytes."""
    found = {"python": ".".join(map(str, sys.version_info[:2])),
             "platform": f"{platform.system()} {platform.machine()}"}  # fmt: skip
    for name in DRAWN_BY:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    return found


def digest(files: Iterable[Path]) -> str:
    """A short hash of the files' contents, each once, whatever their names and order."""
    hashes = sorted({hashlib.sha256(path.read_bytes()).hexdigest() for path in files})
    return hashlib.sha256("\n".join(hashes).encode()).hexdigest()[:16]


def _is_code(path: Path) -> bool:
    """Whether a file below the code's folders is code: no cache, no hidden file."""
    parts = path.relative_to(ROOT).parts
    return path.is_file() and not any(p == "__pycache__" or p.startswith(".") for p in parts)
