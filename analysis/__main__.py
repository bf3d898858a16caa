"""``python -m analysis figures --rows DIR --out DIR``: reads rows, never measures."""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from experiments.rows import RowsError

OUTPUTS = Path("outputs")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a subcommand; returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except (RowsError, OSError) as error:
        if options.verbose:
            traceback.print_exc()
        print(f"error: {error}", file=sys.stderr)
        return 2


def figures(options: argparse.Namespace) -> int:
    """Draws every figure the rows allow and prints the paths of what it made."""
    from analysis.figure import draw_files
    from analysis.figures import FIGURES
    from analysis.load import load, newest_rows

    rows = options.rows or newest_rows(OUTPUTS)
    out = options.out or _beside(rows)
    frame = load(rows)
    made, missed = [], []
    for figure in FIGURES:
        files = draw_files(figure, frame, out)
        made += files
        missed += [] if files else [figure.needs]
    for path in made:
        print(path)
    if not made:
        raise RowsError(f"{rows}: no figure can be drawn: {'; '.join(missed)}")
    for needs in missed:
        print(f"skipped: {needs}", file=sys.stderr)
    return 0


def _beside(rows: Path) -> Path:
    """``figures/`` in the rows' folder; what is drawn from the reference goes to the outputs."""
    folder = rows.parent if rows.is_file() else rows
    return (OUTPUTS if folder == OUTPUTS / "reference" else folder) / "figures"


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m analysis", description="What recorded rows mean.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=_Parser)
    command = commands.add_parser("figures", help="draw the sources' figures from rows")
    newest = "default: this machine's newest sweep, else outputs/reference"
    command.add_argument("--rows", type=Path, metavar="DIR", help=newest)
    command.add_argument("--out", type=Path, metavar="DIR", help="default: figures/ in the rows")
    command.add_argument("--verbose", action="store_true", help="show the traceback of an error")
    command.set_defaults(run=figures)
    return parser


if __name__ == "__main__":
    sys.exit(main())
