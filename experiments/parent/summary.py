"""What a sweep prints: a dry run's estimate, the progress, and the table at the end."""

import math
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Column, Table

from experiments.data.errors import printable
from experiments.data.files import write_file
from experiments.data.metrics import compared, derived, timed
from experiments.data.rows import Row
from experiments.data.statistics import unconverged
from experiments.parent.plan import Point

PLAIN_WIDTH = 160  # columns where there is no terminal
PRINTED = 66  # lines of the table to print; the file has all
COLUMNS = ("dtype", "M×N", "kernel", "time µs", "95 %", "GB/s", "of roof", "× torch",
           "× best other", "traffic", "status")  # fmt: skip
INTERVAL = re.compile(r" \([\d.e+-]+–[\d.e+-]+\)")  # in a cell, after its number
# which column to leave out next if a table is too wide; "intervals" are those inside cells
DROP_ORDER = ("traffic", "95 %", "intervals", "GB/s", "dtype", "× best other", "× torch", "of roof")
WRAPPED = {"kernel": 24, "status": 30, "verdict": 30}  # widest that these columns get; longer wraps
LEFT_ALIGNED = ("dtype", "M×N", "traffic", "× best other", *WRAPPED)


def print_estimate(points: Sequence[Point]) -> None:
    """Prints the number of points and the estimated minutes of each kernel, then the totals."""
    kernels, cards = defaultdict[str, list[Point]](list), defaultdict[int, float](float)
    for point in points:
        kernels[point.job.label].append(point)
        cards[point.card] += point.estimate_s
    lines = []
    for label, mine in sorted(kernels.items()):
        minutes, refused = sum(p.estimate_s for p in mine) / 60, sum(bool(p.refusal) for p in mine)
        lines.append([label, f"{minutes:.1f}", str(len(mine)), str(refused or "")])
    print_table(["kernel", "minutes", "points", "cannot run"], lines)
    rounds = len({point.round for point in points})
    visits = f" in {rounds} rounds, one whole round after another" if rounds > 1 else ""
    on = f" on {len(cards)} cards" if len(cards) > 1 else ""
    minutes = max(cards.values(), default=0) / 60  # cards work at the same time
    print(f"{len(points)} points to measure{visits}{on}, about {minutes:.1f} minutes")


class Progress(Bar):
    """Progress of a sweep: a live line on a terminal, plain lines elsewhere. Thread-safe."""

    def __init__(self, total: int, done_before: int) -> None:
        console = Console(stderr=True, force_jupyter=False)
        super().__init__(
            BarColumn(24),
            MofNCompleteColumn(),
            TimeRemainingColumn(compact=True, elapsed_when_finished=True),
            TextColumn("{task.description}", table_column=Column(no_wrap=True, ratio=1)),
            console=console,
            disable=not (console.is_terminal and total),
            expand=True,
        )
        self._all = self.add_task("", total=total)
        if done_before:
            self.note(f"{done_before} points already done, {total} to measure")

    def began(self, point: Point) -> None:
        """Shows a point whose measurement has begun."""
        self.update(self._all, description=escape(str(point)))

    def ended(self, point: Point, row: Row) -> None:
        """Shows the result of a point, and advances the bar."""
        untimed = "checked, not timed" if row.status == "ok" else row.status.replace("_", " ")
        line = f"{point}: {untimed if row.time_us is None else time_text(row.time_us) + ' µs'}"
        self.update(self._all, advance=1, description=escape(line))
        if not row.expected:
            self.note(f"{line}: {row.reason}")
        elif self.disable:
            self.note(f"{self.tasks[0].completed:.0f}/{self.tasks[0].total} {line}")

    def note(self, line: str) -> None:
        """Prints a line unchanged: by default rich would wrap and colour it, in a log too."""
        line = printable(line)
        self.console.print(line, markup=False, highlight=False, emoji=False, soft_wrap=True)


def print_summary(
    rows: Sequence[Row], labels: Mapping[str, str], out: Path, spent: str, warnings: Sequence[str]
) -> None:
    """Prints the table, the line ``spent``, the warnings, and the paths of the files.

    ``labels`` maps a row's key to the kernel and the tunables that were set. The whole table goes
    to ``out/table.md``; if that cannot be written, a warning says so.
    """
    # the rows of a roof are listed among its kernels'; other operations one after another
    several = len({r.operation for r in rows} - {r.roof for r in rows}) > 1
    places = ("dtype", "cols", "rows", "round", *["operation"] * several)
    ordered = sorted(
        zip(rows, derived(rows), compared(rows), strict=True),
        key=lambda line: (*(getattr(line[0], name) for name in places), line[0].time_us or 9e99),
    )
    cells = [
        _cells(row, own | beside, labels.get(row.key, row.kernel)) for row, own, beside in ordered
    ]
    lines = [COLUMNS, ["---"] * len(COLUMNS), *cells]
    path = out / "table.md"
    try:
        write_file(path, "".join(f"| {' | '.join(line)} |\n" for line in lines))
    except OSError as error:
        warnings = [*warnings, f"{path} could not be written: {error.strerror or error}"]
    print_table(COLUMNS, cells[:PRINTED])
    if len(cells) > PRINTED:
        print(f"shown: {PRINTED} of {len(cells)} points")
    for line in _best_settings(rows, labels):
        print(line)
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)
    print(spent)
    for gpu in dict.fromkeys(row.gpu for row in rows):
        if len(cards := {row.recording for row in rows if row.gpu == gpu}) > 1:
            print(f"rows of {len(cards)} cards called {gpu}: a ratio compares rows of one card")
    if failed := sum(not row.expected for row in rows):
        print(f"{failed} points failed; only_failed=true tries them again")
    if suspect := [row for row in rows if row.suspect]:
        # the first word of a reason is its kind, as in "throttled: ..."
        kinds = Counter(k for row in suspect for k in {s.partition(":")[0] for s in row.suspect})
        why = ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items()))
        print(f"{len(suspect)} of {len(rows)} points are suspect ({why}); none is a baseline")
    print(f"rows      {out}/**/rows.jsonl\ntable     {path}\nvariants  {out}/**/variants.json")


def _best_settings(rows: Sequence[Row], labels: Mapping[str, str]) -> Iterator[str]:
    """A line for each shape and kernel with several settings: the fastest one, and its lead."""
    times = defaultdict[tuple[Any, ...], dict[str, float]](dict)
    for row in filter(timed, rows):
        mine = times[row.kernel, row.dtype, row.rows, row.cols]
        label = labels.get(row.key, row.kernel)
        mine[label] = min(row.time_us or 0.0, mine.get(label, math.inf))
    for (_, dtype, m, n), mine in sorted(times.items()):
        best, *others = sorted(mine, key=lambda label: mine[label])
        if others:
            ahead = mine[others[0]] / mine[best]
            yield f"best at {m}×{n} {dtype}: {best}, {ahead:.2f} times as fast as {others[0]}"


def print_table(names: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    """Prints the non-empty columns; leaves out, and names, what of `DROP_ORDER` does not fit."""
    console = Console(force_jupyter=False)  # plain text in notebooks, too
    if not console.is_terminal:
        console = Console(width=PLAIN_WIDTH, force_jupyter=False)
    columns = {name: [line[i] for line in lines] for i, name in enumerate(names)}
    columns = {name: cells for name, cells in columns.items() if any(cells)}
    left_out = []
    for name in DROP_ORDER:
        if sum(_widths(columns).values()) + 2 * (len(columns) - 1) <= console.width:
            break
        if name == "intervals":
            columns = {k: [INTERVAL.sub("", cell) for cell in columns[k]] for k in columns}
        elif columns.pop(name, None) is None:
            continue
        left_out.append(name)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, width in _widths(columns).items():
        table.add_column(
            name,
            justify="left" if name in LEFT_ALIGNED else "right",
            min_width=min(width, 12) if name in WRAPPED else width,
            no_wrap=name not in WRAPPED,
            overflow="fold",
        )
    for cells in zip(*columns.values(), strict=True):
        table.add_row(*map(escape, cells))
    console.print(table)
    if left_out:
        print(f"left out in {console.width} columns: {', '.join(left_out)}")


def _widths(columns: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """The width of each column in characters; columns in `WRAPPED` have at most theirs."""
    return {
        name: min(max(map(len, (name, *cells))), WRAPPED.get(name, PLAIN_WIDTH))
        for name, cells in columns.items()
    }


def _cells(row: Row, own: Mapping[str, Any], label: str) -> list[str]:
    """The cells of a row, by `COLUMNS`; ``own`` has what `derived` and `compared` give for it."""
    share, above, times = own["fraction_of_roof"], own["above_roof"], ["", "", ""]
    if (gbps := own["effective_gbps"]) is not None and row.time_us is not None:
        # an implausible time is not shown
        ends = f"{time_text(row.time_low_us or 0.0)}–{time_text(row.time_high_us or 0.0)}"
        times = [time_text(row.time_us), ends, f"{gbps:,.0f}" if gbps >= 10 else f"{gbps:.2g}"]
    status = [": ".join(filter(None, [row.status, row.reason]))]
    if row.status == "ok":
        status += filter(None, [unconverged(row.stop_reason), *row.suspect])
        status += ["interpreted, not timed"] * (row.time_us is None)
        status += ["above the roof"] * bool(above)
    return [
        row.dtype,
        f"{row.rows}×{row.cols}",
        label,
        *times,
        "" if share is None else f"{share:.0%}{'!' if above else ''}",
        interval(own, "over_torch"),
        f"{interval(own, 'over_best')} {own['best_other']}".strip(),
        row.model_formula or "",
        "; ".join(status),
    ]


def interval(line: Mapping[str, Any], name: str, scale: float = 1, unit: str = "") -> str:
    """A ratio of `compared` times ``scale``, such as ``1.03 (1.01–1.05)``; "" if it is NaN."""
    value, low, high = (scale * line[f"{name}{end}"] for end in ("", "_low", "_high"))
    return "" if math.isnan(value) else f"{value:.3g}{unit} ({low:.3g}–{high:.3g})"


def time_text(value: float) -> str:
    """A time rounded for print, such as 4.27, 76.8 or 76,830."""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 1000 else f"{value:,.0f}"


def time_spent(measured: Sequence[Row], elapsed_s: float) -> str:
    """A line on the wall time of this run: sampling, compiling, the rest (checks, inputs, plan)."""
    if not measured:
        return f"nothing to measure; {elapsed_s:.1f} s"
    sampling_s = sum(row.sampling_s or 0.0 for row in measured)
    compiling_s = sum(row.compile_s or 0.0 for row in measured)
    cards = len({row.card for row in measured})
    on = f" on {cards} cards" if cards > 1 else ""
    return (
        f"{len(measured)} rows in {elapsed_s:.1f} s{on}: sampling {sampling_s:.1f} s, compiling "
        f"{compiling_s:.1f} s, the rest {cards * elapsed_s - sampling_s - compiling_s:.1f} s"
    )
