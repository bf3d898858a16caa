"""``compare``: two sets of rows point by point; exit status 1 where HEAD is worse than BASE."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from analysis.comparison import noise
from analysis.comparison.differences import check_gpus, differences, only
from analysis.comparison.pairs import Pair, pairs_of
from analysis.comparison.picture import plates
from analysis.comparison.ranges import ranges_table
from analysis.comparison.tables import (
    changed_table,
    kernels_table,
    mean_ratio,
    notes_of,
    points_table,
    ratio_text,
)
from analysis.comparison.verdicts import VERDICTS, Asked, Compared, judge
from analysis.format import write
from analysis.load import Inputs, read_inputs
from analysis.style import rows_hash
from experiments.data.files import RowsError

TOLD = 10  # changed points that the terminal shows
COLORS = {"failed": "red", "slower": "red", "faster": "green", "fixed": "green"}


def run(options: argparse.Namespace) -> int:
    """Compares, writes tables and pictures, prints a summary; 1 on a regression, else 0."""
    asked = Asked(options.threshold, options.alpha)
    base, head = (_read(side, options) for side in (options.base, options.head))
    check_gpus(base.frame, head.frame, options.across_gpus)
    pairs = pairs_of(base.frame, head.frame, options.across_gpus)
    measured_on, ranges = noise.recorded()
    found = judge(pairs, asked, ranges)
    if not found:
        raise RowsError(f"{base.rows} and {head.rows} have no point in common: {_examples(pairs)}")
    notes = _notes(base, head, pairs, found, measured_on)
    made = _write(head.out, found, asked, notes, _sources(base, head))
    _show(found, asked, notes, made)
    return int(any(one.regression for one in found))


def _read(rows: Path, options: argparse.Namespace) -> Inputs:
    return read_inputs(rows, options.out, "compare")


def _examples(pairs: Sequence[Pair]) -> str:
    lone = [(side.upper(), only(pairs, side)) for side in ("base", "head")]
    return ", ".join(f"{name} has {mine[0].name}" for name, mine in lone if mine)


def _sources(base: Inputs, head: Inputs) -> list[str]:
    told = [f"{name} rows {rows_hash(one.frame)} ({len(one.frame):,})"
            for name, one in (("BASE", base), ("HEAD", head))]  # fmt: skip
    return ["  ·  ".join(told)]


def _notes(
    base: Inputs, head: Inputs, pairs: Sequence[Pair], found: Sequence[Compared], gpu: str
) -> list[str]:
    """What else a reader must know, a sentence each."""
    notes = differences((base.frame, base.declarations), (head.frame, head.declarations), pairs)
    notes = [f"Differs besides: {'; '.join(notes)}."] if notes else []
    for side in ("base", "head"):
        if lone := only(pairs, side):
            notes.append(f"Only in {side.upper()}: {_points(len(lone))}, such as {lone[0].name}.")
    timed = [(p.base, p.head, p.place) for p in (one.pair for one in found) if p.base and p.head]
    timed = [one for one in timed if one[0].timed and one[1].timed]
    if single := sum(min(len(b.timed), len(h.timed)) == 1 for b, h, _ in timed):
        notes.append(
            f"{_points(single)} {'has' if single == 1 else 'have'} one round: judged by the "
            "recorded noise between two sweeps, which is wide; rounds=8 resolves far less."
        )
    if others := sorted({str(place["gpu"]) for *_, place in timed} - {gpu}):
        notes.append(f"The noise between sweeps was recorded on {gpu}, not on {', '.join(others)}.")
    if flagged := sum(b.suspect or h.suspect for b, h, _ in timed):
        notes.append(f"{_points(flagged)} with a row that was flagged suspect as it was measured.")
    return notes


def _points(count: int) -> str:
    return f"{count:,} point{'s' * (count != 1)}"


def _write(
    out: Path, found: Sequence[Compared], asked: Asked, notes: Sequence[str], small: Sequence[str]
) -> list[Path]:
    kernels = kernels_table(found, [*notes, *notes_of(asked)])
    changed, every, times = changed_table(found), points_table(found), ranges_table(found)
    made = [write(out / "compare.csv", every.csv())]
    parts = [kernels, *(part for part in (times, changed) if part.lines)]
    made.append(write(out / "compare.md", "\n".join(part.markdown() for part in parts)))
    made.append(write(out / "compare.tex", "\n".join(part.latex() for part in parts)))
    level, band = 100 * (1 - asked.alpha), 100 * asked.threshold
    first = f"{level:g} % intervals of single points; band: within {band:g} % of 1"
    for plate in plates(found, asked, [first, *small]):
        made += plate.files(out)
    return made


def _show(
    found: Sequence[Compared], asked: Asked, notes: Sequence[str], made: Sequence[Path]
) -> None:
    console = Console(highlight=False)

    def say(text: str, style: str = "") -> None:
        console.print(Text(text, style=style), soft_wrap=True)

    say(kernels_table(found, []).plain())
    if (times := ranges_table(found)).lines:
        say(f"\n{times.plain()}")
    changed = changed_table(found)
    if changed.lines:
        lines = type(changed)(changed.title, changed.heads, changed.lines[:TOLD])
        say(f"\n{lines.plain()}")
        if len(changed.lines) > TOLD:
            say(f"… and {len(changed.lines) - TOLD:,} more in compare.md")
    say("")
    for note in notes:
        say(note, "dim")
    for path in made:
        say(str(path))
    counts = Counter(one.verdict for one in found)
    each = ", ".join(f"{counts[v]:,} {v}" for v in VERDICTS if counts[v])
    say(f"\n{_points(len(found))}: {each}; mean ratio {ratio_text(mean_ratio(found))}.")
    limit = f"{100 * asked.threshold:g} %"
    lost = counts["failed"]
    slow = sum(one.regression for one in found) - lost
    told = [f"{_points(slow)} surely slower by more than {limit}"] * bool(slow)
    told += [f"{_points(lost)} ok no more"] * bool(lost)
    if told:
        say(f"Regression: {', '.join(told)}.", "bold red")
    else:
        say(f"No regression beyond {limit}.", "green")
