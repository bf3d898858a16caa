"""What every subcommand does at its end."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from analysis.format import visible
from analysis.load import Inputs
from analysis.manifest import write_manifest
from experiments.data.files import RowsError


def check_names(asked: Sequence[str], known: Sequence[str]) -> None:
    """Refuses a name that nothing here has.

    Raises:
        RowsError: it names the first of them and those that would be right.
    """
    for name in asked:
        if name not in known:
            raise RowsError(f"--only: no {visible(name)!r}; known are {', '.join(known)}")


def finish(
    kind: str,
    found: Inputs,
    made: Sequence[Path],
    missed: Sequence[str],
) -> None:
    """Writes the manifest of what a command made and prints it.

    Paths go to standard output; what was left out and why, to standard error.
    """
    write_manifest(kind, found.rows, found.out, made)
    for path in made:
        print(path)
    for needs in missed:
        print(f"skipped: {needs}", file=sys.stderr)
