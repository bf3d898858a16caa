"""One progress display for a whole sweep: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from experiments.data.rows import Row
from experiments.sweep.points import Point

PLAIN_EVERY_S = 5.0


class Progress:
    """Points done, rate, time left, the current point and the last result; thread-safe."""

    def __init__(self, total: int, done_before: int) -> None:
        self._total = total
        self._done = 0
        self._began = self._told = time.monotonic()
        self._last = ""
        self._lock = threading.Lock()
        self._console = Console(stderr=True)
        self._bar: Bar | None = None
        if done_before:
            print(f"{done_before} points already done, {total} to measure", file=sys.stderr)
        if self._console.is_terminal and total:
            self._bar = Bar(
                BarColumn(24),
                MofNCompleteColumn(),
                TextColumn("{task.fields[rate]}"),
                TimeRemainingColumn(compact=True, elapsed_when_finished=True),
                TextColumn("{task.fields[current]}", style="bold"),
                TextColumn("{task.fields[last]}", style="dim"),
                console=self._console,
            )
            self._task = self._bar.add_task("", total=total, rate="", current="", last="")

    def __enter__(self) -> Progress:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar:
            self._bar.stop()

    def expects(self, total: int) -> None:
        """How many points there are now: cards that share none measure some of them twice."""
        with self._lock:
            self._total = total
            if self._bar:
                self._bar.update(self._task, total=total)

    def begins(self, point: Point) -> None:
        """A point is being measured now."""
        if self._bar:
            self._bar.update(self._task, current=str(point))

    def repeats(self, point: Point, row: Row) -> None:
        """A point's row is suspect, and it is measured once more."""
        with self._lock:
            self._say(f"{point}: {result(row)}, {'; '.join(row.suspect)}; measured once more")

    def ends(self, point: Point, row: Row) -> None:
        """A point has its row."""
        with self._lock:
            self._done += 1
            self._last = f"{point}: {result(row)}"
            failed = not row.expected
            if failed:
                self._say(f"{self._last}: {row.reason}")
            if self._bar:
                last = f"last: {self._last}"
                self._bar.update(self._task, advance=1, rate=self._rate(), last=last)
                return
            now = time.monotonic()
            if self._done == self._total or now - self._told >= PLAIN_EVERY_S:
                self._told = now
                self._say(
                    f"{self._done}/{self._total} {self._rate()}, {self._left()}, {self._last}"
                )

    def _say(self, line: str) -> None:
        # rich would wrap and colour a plain log's lines; on a terminal it must know of them
        if self._bar:
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)
        else:
            print(line, file=sys.stderr, flush=True)

    def _rate(self) -> str:
        seconds = time.monotonic() - self._began
        return f"{self._done / seconds:.1f} points/s" if seconds > 0 else ""

    def _left(self) -> str:
        seconds = (time.monotonic() - self._began) / self._done * (self._total - self._done)
        return f"{seconds / 60:.0f} min left" if seconds >= 90 else f"{seconds:.0f} s left"


def result(row: Row) -> str:
    """What came of a point, in a word or a time."""
    if row.time_us is not None:
        return f"{row.time_us:.4g} µs"
    return "checked, not timed" if row.status == "ok" else row.status.replace("_", " ")
