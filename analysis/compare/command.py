"""``compare``: two sets of rows point by point; exit status 1 where HEAD is worse than BASE."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace

import pandas as pd

from analysis.compare.picture import pages
from analysis.compare.points import ALPHA, SIDES, VERDICTS, judged, matched, recorded_noise
from analysis.compare.tables import (
    changed_table,
    kernels_table,
    lines_of,
    mean_ratio,
    name_of,
    points_table,
    ranges_table,
    ratio_text,
)
from analysis.load import Inputs, kernel_name, read_inputs, rows_hash
from experiments.data.files import RowsError, write_file

SHOWN = 10  # changed points in the terminal


def run(options: argparse.Namespace) -> int:
    """Compares, writes tables and pictures, prints a summary; 1 on a regression, else 0.

    Raises:
        RowsError: the two sets cannot be compared, or have no point in common.
    """
    threshold, across = options.threshold, options.across_gpus
    base, head = (
        read_inputs(rows, options.out, "compare") for rows in (options.base, options.head)
    )
    _check_gpus(base.frame, head.frame, across)
    points = matched(base.frame, head.frame, across)
    found = judged(points, threshold)
    if found.empty:
        lone = " ".join(_lone(points))
        raise RowsError(f"{base.rows} and {head.rows} have no point in common. {lone}")
    notes = [*_differences(base, head), *_lone(points), *_notes(found)]
    changed = changed_table(found)
    tables = [kernels_table(found, notes, threshold), ranges_table(found), changed]
    tables = [table for table in tables if table.lines]
    made = [
        write_file(head.out / "compare.csv", points_table(found).csv()),
        write_file(head.out / "compare.md", "\n".join(table.markdown() for table in tables)),
        write_file(head.out / "compare.tex", "\n".join(table.latex() for table in tables)),
    ]
    sources = [f"{name} rows {rows_hash(side.frame)} ({len(side.frame):,})"
               for name, side in (("BASE", base), ("HEAD", head))]  # fmt: skip
    band = f"band: within {100 * threshold:g} % of 1"
    small = [f"{100 * (1 - ALPHA):g} % intervals of single points; {band}", "  ·  ".join(sources)]
    for page in pages(found, threshold, small):
        made += page.files(head.out)
    for table in (tables[0], replace(changed, lines=changed.lines[:SHOWN])):
        print(table.plain(), end="\n\n")
    print(*notes, *made, sep="\n")
    print(f"\n{_verdict(found, threshold)}")
    return int(found["regression"].any())


def _check_gpus(base: pd.DataFrame, head: pd.DataFrame, across: bool) -> None:
    was, now = (sorted(set(frame["gpu"])) for frame in (base, head))
    measured = f"BASE was measured on {', '.join(was)}, HEAD on {', '.join(now)}"
    if across and (len(was), len(now)) != (1, 1):
        raise RowsError(f"{measured}: --across-gpus compares one GPU model with one")
    if not across and not set(was) & set(now):
        raise RowsError(
            f"{measured}: times of different GPU models say nothing about the code; "
            "--across-gpus compares them all the same"
        )


def _lone(points: pd.DataFrame) -> Iterator[str]:
    """The points that only one side has."""
    for side, other in zip(SIDES, reversed(SIDES), strict=True):
        if only := lines_of(points[points[f"{other}_visits"] == 0]):
            yield f"Only in {side.upper()}: {_many(len(only))}, such as {name_of(only[0])}."


def _notes(found: pd.DataFrame) -> Iterator[str]:
    """What else a reader must know of the points that both sides have."""
    timed = found[found["ratio"].notna()]
    if single := int(timed[["base_rounds", "head_rounds"]].min(axis=1).eq(1).sum()):
        yield (
            f"{_many(single)} {'has' if single == 1 else 'have'} one round: judged by the "
            "recorded noise between two sweeps, which is wide; rounds=8 resolves far less."
        )
    gpu = recorded_noise()[0]
    if others := sorted(set(timed["gpu"]) - {gpu}):
        yield f"The noise between sweeps was recorded on {gpu}, not on {', '.join(others)}."
    if flagged := int((timed["base_suspect"].eq(True) | timed["head_suspect"].eq(True)).sum()):
        yield f"{_many(flagged)} with a row that was flagged suspect when it was measured."


def _differences(base: Inputs, head: Inputs) -> Iterator[str]:
    """What differs besides times: versions and sources."""
    was, now = (_versions(side.frame) for side in (base, head))
    names = [name for name in {**was, **now} if was.get(name) != now.get(name)]
    texts = [f"{n} {was.get(n, 'unknown')} → {now.get(n, 'unknown')}" for n in names]
    shared = base.declarations.keys() & head.declarations.keys()
    edited = {kernel_name(label) for label in shared
              if base.declarations[label].source != head.declarations[label].source}  # fmt: skip
    if edited:
        texts.append(f"source differs: {', '.join(sorted(edited))}")
    if texts:
        yield f"Other differences: {'; '.join(texts)}."


def _versions(frame: pd.DataFrame) -> dict[str, str]:
    """Each fact of the environments, its values joined where rows differ."""
    facts = pd.DataFrame(list({id(one): one for one in frame["environment"]}.values()))
    return {str(name): "/".join(sorted(set(map(str, facts[name].dropna())))) for name in facts}


def _many(count: int) -> str:
    return f"{count:,} point{'s' * (count != 1)}"


def _verdict(found: pd.DataFrame, threshold: float) -> str:
    counts = {verdict: int(found["verdict"].eq(verdict).sum()) for verdict in VERDICTS}
    each = ", ".join(f"{count:,} {verdict}" for verdict, count in counts.items() if count)
    slow = int(found["regression"].sum()) - counts["failed"]
    limit = f"{100 * threshold:g} %"
    worse = [f"{_many(slow)} significantly slower by more than {limit}"] * bool(slow)
    worse += [f"{_many(counts['failed'])} no longer ok"] * bool(counts["failed"])
    last = f"Regression: {', '.join(worse)}." if worse else f"No regression beyond {limit}."
    return f"{_many(len(found))}: {each}; mean ratio {ratio_text(mean_ratio(found))}.\n{last}"
