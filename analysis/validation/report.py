"""A folder's findings, and how they are told on a terminal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from analysis.format import visible
from analysis.validation.contents import Contents, contents_of
from analysis.validation.finding import ASPECTS, Aspect, Finding, some
from analysis.validation.folders import folders
from analysis.validation.limits import limits
from analysis.validation.machine import machine
from analysis.validation.points import points
from analysis.validation.preset import preset
from analysis.validation.privacy import privacy
from analysis.validation.schema import schema
from analysis.validation.sweeps import Sweep, sweeps_of
from analysis.validation.timing import timing
from experiments.data.files import RowsError

TOLD = {True: 12, False: 5}  # problems and warnings of one kind that are listed


@dataclass(frozen=True)
class Report:
    """What was found in a folder.

    Attributes:
        contents: Its files.
        sweeps: Its sweeps.
        findings: Problems and warnings, each once, in the order of the aspects.
        read: The files that privacy was asked about.
    """

    contents: Contents
    sweeps: Sequence[Sweep]
    findings: Sequence[Finding]
    read: Sequence[Path]

    @property
    def problems(self) -> list[Finding]:
        """What the folder cannot be taken with."""
        return [one for one in self.findings if one.grave]


def validate(folder: Path, data_alone: bool = False) -> Report:
    """Checks a folder of rows.

    Args:
        folder: The folder, whole as a sweep left it.
        data_alone: Only rows and what lies beside them: the rest is not to be taken.

    Raises:
        RowsError: there is no such folder, or no rows file in it.
    """
    if not folder.is_dir():
        raise RowsError(f"{folder}: no such folder; a sweep's whole folder can be validated")
    contents = contents_of(folder)
    if not any(path.name == "rows.jsonl" for path in contents.data):
        raise RowsError(f"{folder}: no rows.jsonl in it; a sweep's whole folder can be validated")
    found: list[Finding] = []
    sweeps = sweeps_of(contents, found)
    found += schema(contents, sweeps)
    for sweep in sweeps:
        found += [*folders(sweep), *preset(sweep), *points(sweep)]
        found += [*limits(sweep), *machine(sweep)]
        for placed in sweep.rows:
            for kind, what in timing(placed.row):
                found.append(Finding("plausibility", kind, placed.where, what))
    read = contents.data if data_alone else contents.every
    found += [*(() if data_alone else contents.findings()), *privacy(folder, read)]
    found.sort(key=lambda one: (ASPECTS.index(one.aspect), not one.grave))
    return Report(contents, sweeps, list(dict.fromkeys(found)), read)


def show(report: Report, console: Console) -> None:
    """Prints the four answers, then every finding, a kind's first few, and the verdict."""
    table = Table("", "problems", "warnings", "checked", box=None, pad_edge=False)
    checked = _checked(report)
    for aspect in ASPECTS:
        mine = [one for one in report.findings if one.aspect == aspect]
        grave = sum(one.grave for one in mine)
        table.add_row(
            aspect,
            Text(f"{grave:,}", style="red" if grave else "green"),
            Text(f"{len(mine) - grave:,}", style="yellow" if len(mine) > grave else ""),
            Text(checked[aspect]),
        )
    console.print(table)
    kinds: dict[tuple[Aspect, str, bool], list[Finding]] = defaultdict(list)
    for one in report.findings:
        kinds[one.aspect, one.kind, one.grave].append(one)
    for (about, kind, grave), ones in kinds.items():
        style = "red" if grave else "yellow"
        heading = f"\n{about}: {kind}" + ("" if grave else " (warning)")
        console.print(Text(heading, style=style), soft_wrap=True)
        for one in ones[: TOLD[grave]]:
            console.print(Text(f"  {visible(one.where, 200)}: {one.what}"), soft_wrap=True)
        if (rest := len(ones) - TOLD[grave]) > 0:
            console.print(Text(f"  … and {rest:,} more"), soft_wrap=True)


def verdict(report: Report) -> str:
    """The last line: whether the folder can be taken, and in which respects it cannot."""
    problems, warnings = len(report.problems), len(report.findings) - len(report.problems)
    noted = f"{warnings:,} warning{'s' * (warnings != 1)}"
    if not problems:
        return f"valid: {_rows(report)}; {noted}"
    lacking = [name for name in ASPECTS if any(p.aspect == name for p in report.problems)]
    return f"not valid: {problems:,} problem{'s' * (problems != 1)} ({', '.join(lacking)}); {noted}"


def _rows(report: Report) -> str:
    rows = [placed.row for sweep in report.sweeps for placed in sweep.rows]
    return f"{len(rows):,} rows of {some(sorted({visible(row.gpu, 80) for row in rows}))}"


def _checked(report: Report) -> dict[str, str]:
    jobs = [job for sweep in report.sweeps for job in sweep.jobs]
    planned = sum(len(job.shapes) * len(job.dtypes) * job.rounds for job in jobs)
    timed = sum(placed.row.time_us is not None for job in jobs for placed in job.rows)
    return {
        "schema": f"{_rows(report)}, {len(report.sweeps)} sweep{'s' * (len(report.sweeps) != 1)}",
        "completeness": f"{planned:,} planned points of {len(jobs):,} jobs",
        "privacy": f"{len(report.read):,} files",
        "plausibility": f"{timed:,} times",
    }
