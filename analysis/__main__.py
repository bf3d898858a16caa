"""``python -m analysis figures|roofline|tables|claims|report --rows DIR``: never measures.

``python -m analysis compare BASE HEAD`` reads two folders, ``validate --rows DIR`` checks one.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from analysis.compare import add_arguments
from experiments.data.files import RowsError

COMMANDS = {
    "figures": "draw the sources' figures from rows and records",
    "roofline": "draw the roofline three ways, and check which times traffic explains",
    "tables": "write the sources' tables, traffic three ways, and the models priced for cards",
    "claims": "judge every claim of the sources by rows and records, and audit their numbers",
    "report": "write figures, tables and claims as one HTML file",
    "selftest": "tell the noise floor: variants against themselves, timers, cold caches",
}
ROOMS = {"validate": "analysis.validate"}
VALIDATE = "check a contributed folder of rows; exit status 1 where it cannot be taken"
COMPARE = "compare two sets of rows point by point; exit status 1 where HEAD is worse"


def _names(told: str) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, told.split(","))))


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a subcommand; returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        return _command(options.command)(options)
    except (RowsError, OSError) as error:
        if options.verbose:
            traceback.print_exc()
        print(f"error: {error}", file=sys.stderr)
        return 2


def _command(name: str) -> Callable[[argparse.Namespace], int]:
    # pandas and matplotlib take a second; a wrong option need not
    command: Callable[[argparse.Namespace], int] = import_module(
        ROOMS.get(name, f"analysis.commands.{name}")
    ).run
    return command


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m analysis", description="What recorded rows mean.")
    commands = parser.add_subparsers(
        required=True, metavar="COMMAND", dest="command", parser_class=_Parser
    )
    newest = "a folder; default: this machine's newest sweep, else outputs/reference"
    verbose = "show an error's traceback"
    for name, told in COMMANDS.items():
        command = commands.add_parser(name, help=told, description=told)
        command.add_argument("--rows", type=Path, metavar="DIR", help=newest)
        beside = f"default: {name}/ in the rows"
        command.add_argument("--out", type=Path, metavar="DIR", help=beside)
        if name in ("figures", "tables"):
            some = f"make no other {name} than these, such as limits,limits_summary"
            command.add_argument("--only", type=_names, metavar="NAMES", default=(), help=some)
        if name == "claims":
            another = "judge another file's claims (default: analysis/claims.yaml)"
            command.add_argument("--claims", type=Path, metavar="FILE", help=another)
        command.add_argument("--verbose", action="store_true", help=verbose)
    validating = commands.add_parser("validate", help=VALIDATE, description=VALIDATE)
    validating.add_argument("--rows", type=Path, metavar="DIR", required=True, help="the folder")
    copied = "copy what belongs of a valid folder there, such as outputs/reference/rtx_4090"
    validating.add_argument("--out", type=Path, metavar="DIR", help=copied)
    validating.add_argument("--verbose", action="store_true", help=verbose)
    comparing = commands.add_parser("compare", help=COMPARE, description=COMPARE)
    add_arguments(comparing)
    comparing.add_argument("--verbose", action="store_true", help=verbose)
    return parser


if __name__ == "__main__":
    sys.exit(main())
