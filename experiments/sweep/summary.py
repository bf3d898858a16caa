"""What a sweep shows its user: the points of a dry run, the progress, the table, W&B's runs."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Table

from experiments.cost import by_card
from experiments.data.files import write_file
from experiments.data.metrics import derive
from experiments.data.rows import Row
from experiments.data.statistics import unconverged
from experiments.sweep.plan import Plan, Point
from experiments.sweep.record import Ledger

PLAIN_EVERY_S = 5.0
PRINTED = 66  # rows that still fit a screen; the table on disk has all
COLUMNS = ("dtype", "M×N", "kernel", "time µs", "95 %", "GB/s", "of roof", "traffic", "status")
WORKER_START_S = 4.0


def print_estimate(points: Sequence[Point]) -> None:
    """Lists the points in the order they would run, then the minutes."""
    for point in points:
        why = point.declared["unsupported"]
        how = f"  {point.job.variation}" if point.job.variation else ""
        print(f"{point}{how}  card {point.card}  round {point.round}{f'  ({why})' if why else ''}")
    by_card: dict[int, float] = {}
    for point in points:
        by_card[point.card] = by_card.get(point.card, 0.0) + point.estimate_s
    seconds = max(by_card.values(), default=0.0)  # cards work side by side
    rounds = len({point.round for point in points})
    visits = ""
    if rounds > 1:
        visits = f" in {rounds} rounds, one whole round after another"
        if points[0].job.config["fresh"]:
            visits += ", each in new worker processes"
            seconds += WORKER_START_S * rounds
    on = f" on {len(by_card)} cards" if len(by_card) > 1 else ""
    print(f"{len(points)} points to measure{visits}{on}, about {seconds / 60:.1f} minutes")


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
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(compact=True, elapsed_when_finished=True),
            TextColumn("{task.fields[current]}", style="bold"),
            TextColumn("{task.fields[last]}", style="dim"),
            console=console,
            disable=not (console.is_terminal and total),
        )
        self._task = self._bar.add_task("", total=total, rate="", current="", last="")
        if done_before:
            self._print(f"{done_before} points already done, {total} to measure")

    def __enter__(self) -> Progress:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def begins(self, point: Point) -> None:
        """A point is being measured now."""
        self._bar.update(self._task, current=str(point))

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
            now = time.monotonic()
            point_s = (now - self._began) / self._done
            rate = f"{1 / max(point_s, 1e-9):.1f} points/s"
            self._bar.update(self._task, advance=1, rate=rate, last=f"last: {last}")
            late = now - self._printed >= PLAIN_EVERY_S
            if self._bar.disable and (late or self._done == self._total):
                self._printed = now
                left = f"{point_s * (self._total - self._done) / 60:.1f} min left"
                self._print(f"{self._done}/{self._total} {rate}, {left}, {last}")

    def _print(self, line: str) -> None:
        # as it is: rich would wrap and colour a plain log's lines
        self._bar.console.print(line, markup=False, highlight=False, emoji=False, soft_wrap=True)


def _result(row: Row) -> str:
    """What came of a point, in a word or a time."""
    if row.time_us is not None:
        return f"{row.time_us:.4g} µs"
    return "checked, not timed" if row.status == "ok" else row.status.replace("_", " ")


def rows_of(plan: Plan, ledger: Ledger) -> list[Row]:
    """The last attempt at each point that was asked for."""
    found = (ledger.latest(point.identity) for point in plan.asked)
    return [row for row in found if row is not None]


def print_summary(
    rows: Sequence[Row], labels: Mapping[str, str], out: Path, spent: str, warnings: Sequence[str]
) -> None:
    """Prints the table, how the time was ``spent``, and where everything is.

    ``labels`` has by key the kernel with the tunables that were set.
    """
    _print_table(derive(list(rows)), labels, out / "table.md")
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)
    print(spent)
    failed = sum(not row.expected for row in rows)
    if failed:
        print(f"{failed} points failed; only_failed=true tries them again")
    suspect = [row for row in rows if row.suspect]
    if suspect:
        # the first word of a reason is its kind, as in "throttled: ..."
        kinds = Counter(
            kind for row in suspect for kind in {s.partition(":")[0] for s in row.suspect}
        )
        why = ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items()))
        print(f"{len(suspect)} of {len(rows)} points are suspect ({why}); their rows say how")
    print(f"rows      {out}/**/rows.jsonl")
    print(f"table     {out / 'table.md'}")
    print(f"variants  {out}/**/variants.json")


def _print_table(rows: Sequence[dict[str, Any]], labels: Mapping[str, str], path: Path) -> None:
    """Writes the whole table as Markdown and prints what fits a screen.

    A file that cannot be written is a warning: the rows are on disk, and they alone decide the exit
    status.
    """
    ordered = sorted(
        rows,
        key=lambda r: (r["dtype"], r["rows"], r["cols"], r["round"], r["time_us"] or 9e99),
    )
    cells = [_cells(row, labels) for row in ordered]
    head, *lines = (f"| {' | '.join(line)} |\n" for line in [COLUMNS, *cells])
    try:
        write_file(path, "".join([head, "|" + "---|" * len(COLUMNS) + "\n", *lines]))
    except OSError as error:
        print(f"warning: {path} could not be written: {error.strerror or error}", file=sys.stderr)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in COLUMNS:
        right = name in ("time µs", "GB/s", "of roof")
        table.add_column(name, justify="right" if right else "left", no_wrap=name != "status")
    for line in cells[:PRINTED]:
        table.add_row(*line)
    console = Console()
    (console if console.is_terminal else Console(width=140)).print(table)
    if len(cells) > PRINTED:
        print(f"shown: {PRINTED} of {len(cells)} points; all of them in {path}")


def _cells(row: dict[str, Any], labels: Mapping[str, str]) -> list[str]:
    share, times = row["fraction_of_roof"], ["", "", ""]
    if row["time_us"] is not None:
        gbps = row["effective_gbps"]
        low, high = _number(row["time_low_us"]), _number(row["time_high_us"])
        speed = f"{gbps:.0f}" if gbps >= 10 else f"{gbps:.2g}"
        times = [_number(row["time_us"]), f"{low}–{high}", speed]
    status = list(filter(None, ["ok", unconverged(row["stop_reason"]), *row["suspect"]]))
    if row["status"] != "ok":
        status = [": ".join(filter(None, [row["status"], row["reason"]]))]
    elif row["time_us"] is None:
        status.append("interpreted, not timed")
    elif row["above_roof"]:
        status.append("above the roof")
    return [
        row["dtype"],
        f"{row['rows']}×{row['cols']}",
        labels.get(row["key"], row["kernel"]),
        *times,
        "" if share is None else f"{share:.0%}{'!' if row['above_roof'] else ''}",
        row["model_formula"] or "",
        "; ".join(status),
    ]


def _number(value: float) -> str:
    return f"{value:.1f}" if value < 1000 else f"{value:.0f}"


def account(measured: Sequence[Row], elapsed_s: float) -> str:
    """How the wall time of this run was spent, on each of its cards."""
    if not measured:
        return f"nothing to measure; {elapsed_s:.1f} s"
    cards = by_card(measured, elapsed_s)
    spent = f"{len(measured)} points in {elapsed_s:.1f} s"
    if len(cards) == 1:
        return f"{spent}: {cards.popitem()[1]}"
    each = (f"  card {card}: {text}" for card, text in cards.items())
    return "\n".join([f"{spent} on {len(cards)} cards", *each])
