"""Files of a contributed folder read line by line: what cannot be read is a finding."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.format import visible
from analysis.validation.finding import Finding
from experiments.data.rows import Row, parse_row


@dataclass(frozen=True)
class Placed:
    """A row and where it stands, ``file:line``."""

    row: Row
    where: str


def read_placed(folder: Path, path: Path, found: list[Finding]) -> Iterator[Placed]:
    """The rows of a file; each line that is none goes to ``found``."""
    lines = (folder / path).read_bytes().splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        where = f"{path}:{number}"
        try:
            yield Placed(parse_row(line.decode()), where)
        except (ValueError, RecursionError) as error:
            what = visible(str(error), 160) or type(error).__name__
            if not line.endswith(b"\n"):
                what = "cut short: the same sweep again mends it"
            found.append(Finding("schema", "no row", where, what))


def read_object(folder: Path, path: Path, found: list[Finding]) -> dict[str, Any]:
    """A file's JSON object; empty where it has none, which goes to ``found``."""
    try:
        told = json.loads((folder / path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        what = f"not JSON: {visible(str(error), 120)}"
        found.append(Finding("schema", "not JSON", str(path), what))
        return {}
    if isinstance(told, dict):
        return told
    found.append(Finding("schema", "not JSON", str(path), "a JSON object belongs here"))
    return {}
