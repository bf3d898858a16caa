"""``validate``: whether a folder of rows from someone's card can be taken; status 1 where not."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from rich.console import Console
from rich.text import Text

from analysis.validation.contents import Contents
from analysis.validation.report import show, validate, verdict
from experiments.data.files import RowsError


def run(options: argparse.Namespace) -> int:
    """Checks a folder and prints what was found; with ``--out`` copies what belongs of a valid one.

    Raises:
        RowsError: there is no folder of rows, or something lies at ``--out`` already.
    """
    out: Path | None = options.out
    if out is not None and out.exists():
        raise RowsError(f"--out {out}: there is something already; name a folder that is not there")
    report = validate(options.rows, data_alone=out is not None)
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=120)
    show(report, console)
    if report.problems:
        if out is None and report.contents.local:
            told = "What is this machine's own can stay: --out DIR checks and copies the rest."
            console.print(Text(f"\n{told}", style="dim"), soft_wrap=True)
        console.print(Text(f"\n{verdict(report)}", style="bold red"), soft_wrap=True)
        return 1
    if out is not None:
        _copy(report.contents, out)
        console.print(Text(f"\ncopied to {out}", style="dim"), soft_wrap=True)
    console.print(Text(f"\n{verdict(report)}", style="bold green"), soft_wrap=True)
    return 0


def _copy(contents: Contents, out: Path) -> None:
    """Rows and what lies beside them, into a folder that was not there."""
    for path in contents.data:
        (out / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(contents.folder / path, out / path)
