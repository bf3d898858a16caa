"""``compare``: two sets of rows point by point; exit status 1 where HEAD is worse than BASE."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.text import Text

from analysis.compare.picture import pages
from analysis.compare.points import SIDES, VERDICTS, Criteria, judged, matched, recorded_noise
from analysis.compare.tables import (
    changed_table,
    kernels_table,
    lines_of,
    mean_ratio,
    name_of,
    notes_of,
    points_table,
    ranges_table,
    ratio_text,
)
from analysis.load import Inputs, kernel_name, read_inputs, rows_hash
from experiments.data.files import RowsError, write_file

SHOWN = 10  # changed points in the terminal
SHORT = 12  # characters of a version or hash


def run(options: argparse.Namespace) -> int:
    """Compares, writes tables and pictures, prints a summary; 1 on a regression, else 0.

    Raises:
        RowsError: the two sets cannot be compared, or have no point in common.
    """
    criteria = Criteria(options.threshold, options.alpha)
    base, head = (
        read_inputs(rows, options.out, "compare") for rows in (options.base, options.head)
    )
    _check_gpus(base.frame, head.frame, options.across_gpus)
    points = matched(base.frame, head.frame, options.across_gpus)
    measured_on, ranges = recorded_noise()
    found = judged(points, criteria, ranges)
    if found.empty:
        lone = [f"{side.upper()} has {name_of(only[0])}" for side in SIDES
                if (only := lines_of(_only(points, side)))]  # fmt: skip
        raise RowsError(f"{base.rows} and {head.rows} have no point in common: {', '.join(lone)}")
    notes = _notes(base, head, points, found, measured_on)
    made = _write(base, head, found, criteria, notes)
    _show(found, criteria, notes, made)
    return int(found["regression"].any())


def _check_gpus(base: pd.DataFrame, head: pd.DataFrame, across: bool) -> None:
    was, now = (sorted(set(frame["gpu"])) for frame in (base, head))
    if across and (len(was), len(now)) != (1, 1):
        raise RowsError(
            f"--across-gpus compares one GPU model with one; BASE has {', '.join(was)}, "
            f"HEAD {', '.join(now)}"
        )
    if not across and not set(was) & set(now):
        raise RowsError(
            f"BASE was measured on {', '.join(was)}, HEAD on {', '.join(now)}: times of different "
            "GPU models say nothing about the code; --across-gpus compares them all the same"
        )


def _only(points: pd.DataFrame, side: str) -> pd.DataFrame:
    """The points that only ``"base"`` or only ``"head"`` has."""
    other = "head" if side == "base" else "base"
    return points[points[f"{other}_visits"] == 0]


def _notes(
    base: Inputs, head: Inputs, points: pd.DataFrame, found: pd.DataFrame, gpu: str
) -> list[str]:
    """What else a reader must know, a sentence each."""
    differences = _differences(base, head, found)
    notes = [f"Other differences: {'; '.join(differences)}."] if differences else []
    for side in SIDES:
        if lone := lines_of(_only(points, side)):
            notes.append(f"Only in {side.upper()}: {_many(len(lone))}, such as {name_of(lone[0])}.")
    timed = found[found["ratio"].notna()]
    if single := int(timed[["base_rounds", "head_rounds"]].min(axis=1).eq(1).sum()):
        notes.append(
            f"{_many(single)} {'has' if single == 1 else 'have'} one round: judged by the "
            "recorded noise between two sweeps, which is wide; rounds=8 resolves far less."
        )
    if others := sorted(set(timed["gpu"]) - {gpu}):
        notes.append(f"The noise between sweeps was recorded on {gpu}, not on {', '.join(others)}.")
    if flagged := int((timed["base_suspect"].eq(True) | timed["head_suspect"].eq(True)).sum()):
        notes.append(f"{_many(flagged)} with a row that was flagged suspect when it was measured.")
    return notes


def _differences(base: Inputs, head: Inputs, found: pd.DataFrame) -> list[str]:
    """What differs besides times: versions, sources, keys; the most important first."""
    was, now = (_versions(side.frame) for side in (base, head))
    pairs = {name: (was.get(name, "unknown"), now.get(name, "unknown")) for name in {**was, **now}}
    texts = [f"{name} {old} → {new}" for name, (old, new) in pairs.items() if old != new]
    shared = base.declarations.keys() & head.declarations.keys()
    edited = {kernel_name(label) for label in shared
              if base.declarations[label].source != head.declarations[label].source}  # fmt: skip
    if edited:
        texts.append(f"source differs: {', '.join(sorted(edited))}")
    other = int((found["base_keys"] != found["head_keys"]).sum())
    if other and not texts:
        texts.append(
            f"{other:,} of {len(found):,} points have other keys: source, seed, or how long "
            "was sampled differ"
        )
    return texts


def _versions(frame: pd.DataFrame) -> dict[str, str]:
    """Each fact of the environments, its values joined where rows differ."""
    values: dict[str, set[str]] = {}
    for facts in {id(one): one for one in frame["environment"]}.values():
        for name, value in facts.items():
            text = str(value)[: SHORT if name == "commit" else None]
            values.setdefault(name, set()).add(text)
    return {name: "/".join(sorted(texts)) for name, texts in values.items()}


def _many(count: int) -> str:
    return f"{count:,} point{'s' * (count != 1)}"


def _write(
    base: Inputs, head: Inputs, found: pd.DataFrame, criteria: Criteria, notes: Sequence[str]
) -> list[Path]:
    out = head.out
    tables = [kernels_table(found, [*notes, *notes_of(criteria)])]
    tables += [table for table in (ranges_table(found), changed_table(found)) if table.lines]
    made = [
        write_file(out / "compare.csv", points_table(found).csv()),
        write_file(out / "compare.md", "\n".join(table.markdown() for table in tables)),
        write_file(out / "compare.tex", "\n".join(table.latex() for table in tables)),
    ]
    level, band = 100 * (1 - criteria.alpha), 100 * criteria.threshold
    sources = [f"{name} rows {rows_hash(side.frame)} ({len(side.frame):,})"
               for name, side in (("BASE", base), ("HEAD", head))]  # fmt: skip
    small = [f"{level:g} % intervals of single points; band: within {band:g} % of 1",
             "  ·  ".join(sources)]  # fmt: skip
    for page in pages(found, criteria, small):
        made += page.files(out)
    return made


def _show(
    found: pd.DataFrame, criteria: Criteria, notes: Sequence[str], made: Sequence[Path]
) -> None:
    console = Console(highlight=False)

    def say(text: str, style: str = "") -> None:
        console.print(Text(text, style=style), soft_wrap=True)

    changed = changed_table(found)
    say(kernels_table(found).plain())
    for table in (ranges_table(found), replace(changed, lines=changed.lines[:SHOWN])):
        if table.lines:
            say(f"\n{table.plain()}")
    if len(changed.lines) > SHOWN:
        say(f"… and {len(changed.lines) - SHOWN:,} more in compare.md")
    say("")
    for note in notes:
        say(note, "dim")
    for path in made:
        say(str(path))
    counts = {verdict: int(found["verdict"].eq(verdict).sum()) for verdict in VERDICTS}
    each = ", ".join(f"{count:,} {verdict}" for verdict, count in counts.items() if count)
    say(f"\n{_many(len(found))}: {each}; mean ratio {ratio_text(mean_ratio(found))}.")
    limit = f"{100 * criteria.threshold:g} %"
    slow = int(found["regression"].sum()) - counts["failed"]
    worse = [f"{_many(slow)} significantly slower by more than {limit}"] * bool(slow)
    worse += [f"{_many(counts['failed'])} no longer ok"] * bool(counts["failed"])
    if worse:
        say(f"Regression: {', '.join(worse)}.", "bold red")
    else:
        say(f"No regression beyond {limit}.", "green")
