"""What a command made and from what: ``<kind>.manifest.json``, written last, beside what it made.

For `make` it is the file that stands for all the others. For a reader it says whether a picture
still belongs to its rows and code: by its bytes where the same versions draw it, by the digests of
what went in everywhere else.
"""

from __future__ import annotations

import hashlib
import json
import platform
import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from analysis.load import COUNTED
from experiments.data.rows import rows_files

ROOT = Path(__file__).parents[1]
# All that decides what is drawn: analysis itself, what it takes from the other side, the cards.
CODE = (
    "analysis/**/*",
    "conf/gpu/*.yaml",
    "conf/grid/*.yaml",
    "conf/kernel/*.yaml",
    "experiments/data/*.py",
)
RECORDS = ("counts.jsonl", "traces.jsonl", "counters.jsonl", "probe.jsonl", "variants.json")
DRAWN_BY = ("matplotlib", "numpy", "pandas", "seaborn", "pillow", "fonttools", "contourpy",
            "sympy", "jinja2", "markupsafe", "pydantic", "pyyaml")  # fmt: skip


def write_manifest(kind: str, rows: Path, out: Path, made: Iterable[Path]) -> Path:
    """Writes ``out/<kind>.manifest.json`` for the files ``made`` from ``rows``; returns it."""
    files = {path.relative_to(out).as_posix(): digest([path]) for path in sorted(set(made))}
    told = {"inputs": inputs(rows), "drawn_by": drawn_by(), "files": files}
    path = out / f"{kind}.manifest.json"
    path.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    return path


def read_manifest(kind: str, out: Path) -> dict[str, Any]:
    """A manifest as it was written."""
    read: dict[str, Any] = json.loads((out / f"{kind}.manifest.json").read_text(encoding="utf-8"))
    return read


def inputs(rows: Path, counted: Path = COUNTED) -> dict[str, str]:
    """Digests of the rows, of the records beside them, and of the code, wherever they lie."""
    folders = (rows.parent if rows.is_file() else rows, counted)
    beside = {path for folder in folders for name in RECORDS for path in folder.rglob(name)}
    code = {path for pattern in CODE for path in ROOT.glob(pattern) if is_code(path)}
    return {"rows": digest(rows_files(rows)), "records": digest(beside), "code": digest(code)}


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


def is_code(path: Path) -> bool:
    """Whether a file below the code's folders is code: no cache, no hidden file."""
    parts = path.relative_to(ROOT).parts
    return path.is_file() and not any(p == "__pycache__" or p.startswith(".") for p in parts)


def mismatches(kind: str, out: Path, rows: Path) -> list[str]:
    """Why what lies in ``out`` is not what ``rows`` and today's code make; nothing where it is.

    It compares digests alone, so it holds wherever the bytes of a picture would come out otherwise.
    """
    told = read_manifest(kind, out)
    now = inputs(rows)
    changed = [
        f"the {name} changed" for name, known in told["inputs"].items() if known != now[name]
    ]
    edited = [
        f"{name} is {'another file' if (out / name).exists() else 'missing'}"
        for name, known in told["files"].items()
        if not (out / name).exists() or digest([out / name]) != known
    ]
    return [f"{kind}: {reason}" for reason in changed + edited]
