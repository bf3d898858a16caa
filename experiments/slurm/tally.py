"""Which points have rows, read from the rows' files as they grow."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from experiments.data.rows import EXPECTED


class Tally:
    """Points by key and round, whatever card they were measured on, and whether they are done."""

    def __init__(self) -> None:
        self._read: dict[Path, int] = {}
        self._last: dict[tuple[str, int], tuple[int, bool]] = {}

    def update(self, files: Iterable[Path]) -> None:
        """Reads what was added; a line that is not whole yet is left for the next time."""
        for path in files:
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                whole, newline, _ = file.read().rpartition(b"\n")
            self._read[path] = self._read.get(path, 0) + len(whole) + len(newline)
            for line in whole.splitlines():
                self._take(line)

    def done(self, points: Iterable[Sequence[object]]) -> int:
        """How many of the points, pairs of key and round, have a row of expected status."""
        return sum(self._last.get((str(k), int(str(r))), (0, False))[1] for k, r in points)

    def failed(self, points: Iterable[Sequence[object]]) -> int:
        """How many of the points have a row, and the last is of no expected status."""
        return sum(not self._last.get((str(k), int(str(r))), (0, True))[1] for k, r in points)

    def _take(self, line: bytes) -> None:
        try:
            row = json.loads(line)
            point, attempt = (row["key"], row["round"]), row["attempt"]
            if attempt >= self._last.get(point, (0, False))[0]:
                self._last[point] = attempt, row["status"] in EXPECTED
        except (ValueError, KeyError, TypeError):
            return  # the ledger names a line that is no row; a count need not
