"""Privacy: no file of the folder says whose machine it was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from analysis.format import visible
from analysis.validation.contents import PACKED, PICTURES
from analysis.validation.finding import Finding
from analysis.validation.private import private

TOLD = 3  # lines of one kind that are named in one file


def privacy(folder: Path, files: Iterable[Path]) -> Iterator[Finding]:
    """Every line that names a host, a user, a path, an address, a key or a serial number.

    Names of files and folders are read too. What is packed and what holds no text is not.
    """
    for path in files:
        for kind, text in private(f"/{path.as_posix()}".replace("/", " ")):
            yield Finding("privacy", kind, str(path), f"its name holds {kind}: {visible(text, 80)}")
        if _is_text(folder / path):
            yield from _lines(folder, path)


def _is_text(path: Path) -> bool:
    whole = path.is_file() and not path.is_symlink()
    return whole and path.suffix not in PICTURES and not path.name.endswith(PACKED)


def _lines(folder: Path, path: Path) -> Iterator[Finding]:
    counts: Counter[str] = Counter()
    with (folder / path).open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, start=1):
            for kind, text in private(line):
                counts[kind] += 1
                if counts[kind] <= TOLD:
                    what = f"{kind}: {visible(text, 80)}"
                    yield Finding("privacy", kind, f"{path}:{number}", what)
    for kind, count in counts.items():
        if count > TOLD:
            what = f"{kind}: in {count - TOLD:,} more lines"
            yield Finding("privacy", kind, str(path), what)
