"""The rows of a sweep's folder: what is done, and the one hand that adds to it."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

from experiments.data.files import RowsError
from experiments.data.rows import Row, parse_row, read_rows, rows_files
from experiments.errors import UserError
from experiments.sweep.folder_lock import FolderLock


class Ledger:
    """All rows below ``out``. One sweep at a time holds it.

    With ``files``, the rows files of one shard that nobody else writes, they alone are read, and
    the folder is not held.

    Attributes:
        cards: By job name, the cards that its rows were measured on when the sweep began.

    Raises:
        UserError: the folder cannot be written, another sweep holds it, or a row is malformed.
    """

    def __init__(self, out: Path, files: Sequence[Path] | None = None) -> None:
        self._latest: dict[tuple[str, int, int], Row] = {}
        self._suspect: dict[tuple[str, int, int], int] = {}  # attempts in succession, to the last
        self._highest_mhz: dict[tuple[str, int], float] = {}
        self.cards: dict[str, Counter[int]] = {}
        self._threads = threading.Lock()
        self._lock = FolderLock(out) if files is None else None
        for path in rows_files(out) if files is None else files:
            try:
                heal(path)
                mine = self.cards.setdefault(path.parent.relative_to(out).as_posix(), Counter())
                for row in read_rows(path):
                    self._take(row)
                    mine[row.card] += 1
            except RowsError as error:
                raise UserError(
                    f"{error}; mend or remove that line, or choose another out="
                ) from None
            except OSError as error:
                raise UserError(f"{path} cannot be read or written: {error.strerror}") from None

    def rows(self) -> Collection[Row]:
        """The last attempt at every point."""
        return self._latest.values()

    def latest(self, identity: tuple[str, int, int]) -> Row | None:
        """The last attempt at a point, None if there was none."""
        return self._latest.get(self._slot(identity))

    def is_done(self, identity: tuple[str, int, int]) -> bool:
        """Whether a point has a row of expected status."""
        row = self.latest(identity)
        return row is not None and row.expected

    def is_due_again(self, identity: tuple[str, int, int]) -> bool:
        """Whether a point's last row is suspect and was not the second visit for that reason."""
        return self._suspect.get(self._slot(identity), 0) % 2 == 1

    def highest_mhz(self, gpu: str, card: int) -> float | None:
        """The highest SM clock that any row saw on a card."""
        return self._highest_mhz.get((gpu, card))

    def next_attempt(self, identity: tuple[str, int, int]) -> int:
        """The number of the next attempt at a point, from 1."""
        row = self.latest(identity)
        return 1 if row is None else row.attempt + 1

    def record(self, folder: Path, row: Row) -> None:
        """Adds a row to a job's file; when this returns it is on disk.

        Raises:
            UserError: it could not be written, or the folder's lock was removed.
        """
        with self._threads:
            if self._lock is not None:
                self._lock.check()
            try:
                append_row(folder / "rows.jsonl", row)
            except OSError as error:
                raise UserError(f"{folder / 'rows.jsonl'}: {error.strerror}") from None
            self._take(row)

    def _take(self, row: Row) -> None:
        slot = self._slot(row.identity)
        known = self._latest.get(slot)
        if known is None or row.attempt > known.attempt:
            self._suspect[slot] = self._suspect.get(slot, 0) + 1 if row.suspect else 0
        if known is None or row.attempt >= known.attempt:
            self._latest[slot] = row
        if row.sm_clock_mhz is not None:
            card = row.gpu, row.card
            self._highest_mhz[card] = max(row.sm_clock_mhz, self._highest_mhz.get(card, 0.0))

    def close(self) -> None:
        """Lets another sweep have the folder."""
        if self._lock is not None:
            self._lock.close()

    def _slot(self, identity: tuple[str, int, int]) -> tuple[str, int, int]:
        """What counts as the same point."""
        return identity


def append_row(path: Path, row: Row) -> None:
    """Adds one row and waits until it is on disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(row.model_dump_json() + "\n")
        file.flush()
        os.fsync(file.fileno())


def heal(path: Path) -> None:
    """Removes a last line that a crash cut short, so that the next row starts a line."""
    data = path.read_bytes()
    if not data or data.endswith(b"\n"):
        return
    whole, _, torn = data.rpartition(b"\n")
    try:
        parse_row(torn.decode())
        kept = data + b"\n"
    except (ValueError, RecursionError):
        kept = whole + b"\n" if whole else b""
    with path.open("r+b") as file:
        file.seek(0)
        file.write(kept)
        file.truncate()
        os.fsync(file.fileno())
