"""What a sweep shows its user: the points of a dry run, the progress, the table, W&B's runs."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Column, Table

from experiments.data.files import write_file
from experiments.data.metrics import derived
from experiments.data.rows import Row
from experiments.data.statistics import unconverged
from experiments.sweep.plan import Point
from experiments.sweep.ratios import Beside, beside

PLAIN_EVERY_S = 5.0
PLAIN_WIDTH = 160  # columns where there is no terminal
PRINTED = 66  # rows that still fit a screen; the table on disk has all
COLUMNS = ("dtype", "M×N", "kernel", "time µs", "95 %", "GB/s", "of roof", "× torch",
           "× best other", "traffic", "status")  # fmt: skip
# A narrow terminal does without these, the first first; time, kernel and status are always shown.
DROPPED = ("traffic", "95 %", "GB/s", "dtype", "× best other", "× torch", "of roof")
LEFT = ("dtype", "M×N", "kernel", "traffic", "status", "verdict")
FOLDED = {"kernel": 24, "status": 30, "verdict": 30}  # these go on in another line beyond a width
WORKER_START_S = 4.0


def print_estimate(points: Sequence[Point], cards: int) -> None:
    """Prints by kernel and grid how long the points may take, then their number and the minutes."""
    seconds, shards = defaultdict[str, Counter[str]](Counter), Counter[tuple[Any, ...]]()
    asked, refused = Counter[str](), Counter[str]()
    for point in points:
        label, grid, spent = point.job.label, point.job.grid, point.estimate_s
        seconds[label][grid] += spent  # type: ignore[assignment]
        shards[point.card, point.job.shard] += spent  # type: ignore[assignment]
        asked[label] += 1
        refused[label] += bool(point.refusal)
    grids = list(dict.fromkeys(point.job.grid for point in points))
    lines = [
        [
            label,
            *(_span(cells[grid]) for grid in grids),
            str(asked[label]),
            str(refused[label] or ""),
        ]
        for label, cells in sorted(seconds.items())
    ]
    names = ["kernel", *grids, "points", "cannot run"]
    print_columns(names, lines, ["cannot run", "points", *reversed(grids)])
    # cards work side by side, each shard on one of them
    longest = max(shards.total() / cards, max(shards.values(), default=0))
    rounds, visits = len({point.round for point in points}), ""
    if rounds > 1:
        visits = f" in {rounds} rounds, one whole round after another"
        if points[0].job.config["fresh"]:
            visits += ", each in new worker processes"
            longest += WORKER_START_S * rounds
    on = f" on {cards} cards" if cards > 1 else ""
    cannot = f"; {refused.total()} of them cannot run here" if refused.total() else ""
    print(f"{len(points)} points to measure{visits}{on}, about {longest / 60:.1f} minutes{cannot}")


def _span(seconds: float) -> str:
    """A time to wait for, roughly; nothing where nothing runs."""
    if seconds < 100:
        return f"{math.ceil(seconds)} s" if seconds else ""
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


class Progress:
    """Points done, rate, time left, the current point and the last result; thread-safe.

    A live line on a terminal, plain lines elsewhere.
    """

    def __init__(self, total: int, done_before: int) -> None:
        self._total, self._done = total, 0
        self._began = self._printed = time.monotonic()
        self._lock = threading.Lock()
        console = Console(stderr=True)
        self._bar = Bar(
            BarColumn(24),
            MofNCompleteColumn(),
            TimeRemainingColumn(compact=True, elapsed_when_finished=True),
            TextColumn("{task.description}", table_column=Column(no_wrap=True, ratio=1)),
            console=console,
            disable=not (console.is_terminal and total),
            expand=True,
        )
        self._task = self._bar.add_task("", total=total)
        if done_before:
            self._print(f"{done_before} points already done, {total} to measure")

    def __enter__(self) -> Progress:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def begins(self, point: Point) -> None:
        """A point is being measured now."""
        self._bar.update(self._task, description=escape(str(point)))

    def repeats(self, point: Point, row: Row) -> None:
        """A point's row is suspect, and it is measured once more."""
        self._print(f"{point}: {_result(row)}, {'; '.join(row.suspect)}; measured once more")

    def ends(self, point: Point, row: Row) -> None:
        """A point has its row."""
        with self._lock:
            self._done += 1
            last = f"{point}: {_result(row)}"
            if not row.expected:
                self._print(f"{last}: {row.reason}")
            self._bar.update(self._task, advance=1, description=escape(last))
            now = time.monotonic()
            late = now - self._printed >= PLAIN_EVERY_S
            if self._bar.disable and (late or self._done in (1, self._total)):
                self._printed, point_s = now, (now - self._began) / self._done
                left = f"{point_s * (self._total - self._done) / 60:.1f} min left"
                rate = f"{1 / max(point_s, 1e-9):.1f} points/s"
                self._print(f"{self._done}/{self._total} {rate}, {left}, {last}")

    def _print(self, line: str) -> None:
        # as it is: rich would wrap and colour a plain log's lines
        self._bar.console.print(line, markup=False, highlight=False, emoji=False, soft_wrap=True)


def _result(row: Row) -> str:
    """What came of a point, in a word or a time."""
    if row.time_us is not None:
        return f"{_number(row.time_us)} µs"
    return "checked, not timed" if row.status == "ok" else row.status.replace("_", " ")


def print_summary(
    rows: Sequence[Row], labels: Mapping[str, str], out: Path, spent: str, warnings: Sequence[str]
) -> None:
    """Prints the table, how the time was ``spent``, and where everything is.

    ``labels`` has by key the kernel with the tunables that were set.
    """
    labels = {row.key: row.kernel for row in rows} | dict(labels)
    _print_table(rows, labels, out / "table.md")
    for line in _best_settings(rows, labels):
        print(line)
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)
    print(spent)
    for gpu in dict.fromkeys(row.gpu for row in rows):
        if len(cards := {row.recording for row in rows if row.gpu == gpu}) > 1:
            print(f"rows of {len(cards)} cards called {gpu}: a ratio compares rows of one card")
    failed = sum(not row.expected for row in rows)
    if failed:
        print(f"{failed} points failed; only_failed=true tries them again")
    suspect = [row for row in rows if row.suspect]
    if suspect:
        # the first word of a reason is its kind, as in "throttled: ..."
        kinds = Counter(k for row in suspect for k in {s.partition(":")[0] for s in row.suspect})
        why = ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items()))
        print(f"{len(suspect)} of {len(rows)} points are suspect ({why}); their rows say how")
    print(f"rows      {out}/**/rows.jsonl")
    print(f"table     {out / 'table.md'}")
    print(f"variants  {out}/**/variants.json")


def _best_settings(rows: Sequence[Row], labels: Mapping[str, str]) -> Iterator[str]:
    """For kernels that ran with several settings the fastest at each shape, a line each."""
    times: dict[tuple[Any, ...], dict[str, float]] = {}
    for row in rows:
        if row.status == "ok" and row.time_us is not None:
            place = row.kernel, row.dtype, row.rows, row.cols
            mine = times.setdefault(place, {})
            mine[labels[row.key]] = min(row.time_us, mine.get(labels[row.key], math.inf))
    for (_, dtype, m, n), mine in sorted(times.items()):
        best, *others = sorted(mine, key=lambda label: mine[label])
        if others:
            ahead = mine[others[0]] / mine[best]
            yield f"best at {m}×{n} {dtype}: {best}, {ahead:.2f} times as fast as {others[0]}"


def _print_table(rows: Sequence[Row], labels: Mapping[str, str], path: Path) -> None:
    """Writes the whole table as Markdown and prints what fits a screen.

    A file that cannot be written is a warning: the rows are on disk, and they alone decide the exit
    status.
    """
    # a roof stands among the kernels that it is the roof of, several operations each by itself
    several = len({r.operation for r in rows} - {r.roof for r in rows}) > 1
    places = ("dtype", "rows", "cols", "round", *["operation"] * several)
    ordered = sorted(
        zip(rows, derived(rows), beside(rows), strict=True),
        key=lambda line: (*(getattr(line[0], name) for name in places),
                                 line[0].time_us or 9e99),
    )  # fmt: skip
    cells = [_cells(row, own, others, labels[row.key]) for row, own, others in ordered]
    lines = [COLUMNS, ["---"] * len(COLUMNS), *cells]
    text = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    try:
        write_file(path, text)
    except OSError as error:
        print(f"warning: {path} could not be written: {error.strerror or error}", file=sys.stderr)
    print_columns(COLUMNS, cells[:PRINTED], DROPPED)
    if len(cells) > PRINTED:
        print(f"shown: {PRINTED} of {len(cells)} points; all of them in {path}")


def print_columns(
    names: Sequence[str], lines: Sequence[Sequence[str]], dropped: Sequence[str]
) -> None:
    """Prints a table without as many of the ``dropped`` columns, in their order, as do not fit.

    Nothing of the others is cut off. A column left out that says one thing is said above.
    """
    console = Console()
    console = console if console.is_terminal else Console(width=PLAIN_WIDTH)
    columns = dict(zip(names, zip(*lines, strict=True), strict=False))
    columns = {name: cells for name, cells in columns.items() if any(cells)}
    wanted = {
        name: min(max(map(len, (name, *cells))), FOLDED.get(name, console.width))
        for name, cells in columns.items()
    }
    for name in dropped:
        if sum(wanted.values()) + 2 * (len(wanted) - 1) <= console.width:
            break
        if wanted.pop(name, None) and len({*columns[name]}) == 1:
            print(f"{name} {columns[name][0]}")
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, width in wanted.items():
        folds = name in FOLDED
        table.add_column(
            name,
            justify="left" if name in LEFT else "right",
            min_width=12 if folds else width,
            no_wrap=not folds,
            overflow="fold",
        )
    for i in range(len(lines)):
        table.add_row(*(escape(columns[name][i]) for name in wanted))
    console.print(table)


def _cells(row: Row, own: Mapping[str, Any], others: Beside, label: str) -> list[str]:
    share, above, times = own["fraction_of_roof"], own["above_roof"], ["", "", ""]
    gbps = own["effective_gbps"]
    if gbps is not None and row.time_us is not None:  # an implausible time is not shown
        low, high = _number(row.time_low_us or 0.0), _number(row.time_high_us or 0.0)
        speed = f"{gbps:,.0f}" if gbps >= 10 else f"{gbps:.2g}"
        times = [_number(row.time_us), f"{low}–{high}", speed]
    status = list(filter(None, ["ok", unconverged(row.stop_reason), *row.suspect]))
    if row.status != "ok":
        status = [": ".join(filter(None, [row.status, row.reason]))]
    elif row.time_us is None:
        status.append("interpreted, not timed")
    elif above:
        status.append("above the roof")
    return [
        row.dtype,
        f"{row.rows}×{row.cols}",
        label,
        *times,
        "" if share is None else f"{share:.0%}{'!' if above else ''}",
        str(others.torch or ""),
        f"{others.best} {others.other}" if others.best else "",
        row.model_formula or "",
        "; ".join(status),
    ]


def _number(value: float) -> str:
    """A time as a person writes it: 4.27, 76.8, 76,830."""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 1000 else f"{value:,.0f}"


def account(measured: Sequence[Row], elapsed_s: float) -> str:
    """How the wall time of this run was spent, on each of its cards.

    Cards work side by side, so each has all of it. The rest is planning, inputs, checks, and
    waiting for the other cards.
    """
    if not measured:
        return f"nothing to measure; {elapsed_s:.1f} s"
    lines = {}
    for card in sorted({row.card for row in measured}):
        rows = [row for row in measured if row.card == card]
        sampling, compiling = (
            sum(getattr(row, name) or 0.0 for row in rows) for name in ("sampling_s", "compile_s")
        )
        rest = elapsed_s - sampling - compiling
        spent = f"sampling {sampling:.1f} s, compiling {compiling:.1f} s, the rest {rest:.1f} s"
        lines[card] = spent
    head = f"{len(measured)} points in {elapsed_s:.1f} s"
    if len(lines) == 1:
        return f"{head}: {lines.popitem()[1]}"
    each = (f"  card {card}: {spent}" for card, spent in lines.items())
    return "\n".join([f"{head} on {len(lines)} cards", *each])
