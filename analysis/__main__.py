"""``python -m analysis figures|roofline|tables|claims|report --rows DIR``: never measures.

``python -m analysis compare BASE HEAD`` reads two folders, ``validate --rows DIR`` checks one.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from analysis.compare import add_arguments
from experiments.data.files import RowsError, write_file

COMMANDS = {
    "figures": "draw the sources' figures from rows and records",
    "roofline": "draw the roofline three ways, and check which times traffic explains",
    "tables": "write the sources' tables, traffic three ways, and the models priced for cards",
    "claims": "judge every claim of the sources by rows and records, and audit their numbers",
    "report": "write figures, tables and claims as one HTML file",
    "selftest": "report the noise floor: variants against themselves, timers, cold caches",
}
VALIDATE = "check a contributed folder of rows; exit status 1 where it cannot be taken"
VALIDATED = "copy the files of a valid folder there, such as outputs/reference/rtx_4090"
COMPARE = "compare two sets of rows point by point; exit status 1 where HEAD is worse"


def _names(listed: str) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, listed.split(","))))


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a subcommand; returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        if getattr(options, "if_changed", False) and _is_current(options):
            return 0
        return _command(options.command)(options)
    except (RowsError, OSError) as error:
        if options.verbose:
            traceback.print_exc()
        print(f"error: {error}", file=sys.stderr)
        return 2


def _is_current(options: argparse.Namespace) -> bool:
    """Whether nothing changed since the command last made all of its files; then it says so."""
    from analysis.load import places
    from analysis.output import is_current

    limited = getattr(options, "only", ()) or getattr(options, "claims", None)
    rows, out = places(options.rows, options.out, options.command)
    if limited or not is_current(options.command, rows, out):
        return False
    print(f"{out}: made of {rows}, and nothing changed since")
    return True


def _command(name: str) -> Callable[[argparse.Namespace], int]:
    """A command's function; what a wrong option does not need is imported no earlier."""
    if name == "claims":
        from analysis.claims.command import run
    elif name == "compare":
        from analysis.compare.command import run
    elif name == "selftest":
        from analysis.compare.selftest_report import run
    elif name == "validate":
        from analysis.validate import run
    else:
        return {"figures": _figures, "tables": _tables, "roofline": _roofline}.get(name, _report)
    return run


def _figures(options: argparse.Namespace) -> int:
    """Draws every figure that the rows and records allow, and prints the paths."""
    from analysis.gallery import DRAWN, missing, pictures_with_packed
    from analysis.load import read_inputs
    from analysis.output import check_names, finish

    check_names(options.only, [entry.id for entry in DRAWN])
    inputs = read_inputs(options.rows, options.out, "figures")
    asked = tuple(entry for entry in DRAWN if not options.only or entry.id in options.only)
    drawn = list(pictures_with_packed(inputs, asked))
    made = [path for picture in drawn for path in picture.page.files(inputs.out)]
    lacking = missing(drawn, asked)
    if not made:
        raise RowsError(f"{inputs.rows}: no figure can be drawn: {'; '.join(lacking)}")
    finish("figures", inputs, made, lacking, options.only)
    return 0


def _tables(options: argparse.Namespace) -> int:
    """Writes each table as Markdown, CSV and LaTeX, and prints the paths."""
    from analysis.load import read_inputs
    from analysis.output import check_names, finish
    from analysis.tables import TABLES, tables_of

    check_names(options.only, list(TABLES))
    inputs = read_inputs(options.rows, options.out, "tables")
    tables, lacking = tables_of(inputs, options.only)
    if not tables:
        raise RowsError(f"{inputs.rows}: no table can be written: {'; '.join(lacking)}")
    made = [path for one in tables for path in one.files(inputs.out)]
    finish("tables", inputs, made, lacking, options.only)
    return 0


def _roofline(options: argparse.Namespace) -> int:
    """Draws the roofline three ways, writes the check and prints how many points it explains."""
    from analysis.gallery import missing, pictures
    from analysis.load import read_inputs
    from analysis.output import finish
    from analysis.roofline.pictures import ROOFLINE_FIGURES
    from analysis.roofline.verdicts import check_table, checked, summary_table

    inputs = read_inputs(options.rows, options.out, "roofline")
    points = checked(inputs.frame, inputs.records)
    if points.empty:
        raise RowsError(
            f"{inputs.rows}: no roofline can be drawn: it needs timed rows and those of "
            "their roof, at the same shapes"
        )
    drawn = list(pictures(inputs, ROOFLINE_FIGURES))
    made = [path for picture in drawn for path in picture.page.files(inputs.out)]
    check, summary = check_table(points), summary_table(points)
    text = f"{summary.markdown()}\n{check.markdown()}"
    made.append(write_file(inputs.out / "roofline.md", text))
    made.append(write_file(inputs.out / "roofline.csv", check.csv()))
    finish("roofline", inputs, made, missing(drawn, ROOFLINE_FIGURES))
    print(f"\n{summary.plain()}")
    share = (points["verdict"] == "traffic").mean()
    print(f"\n{share:.0%} of {len(points):,} points are explained by traffic within 10 %.")
    if not inputs.records.counters:
        print("No counters were found: re-reads, spills and occupancy are judged from rows alone.")
    return 0


def _report(options: argparse.Namespace) -> int:
    """Writes figures, tables, claims and all else as one HTML file, and prints its path."""
    from analysis.load import read_inputs
    from analysis.output import finish
    from analysis.report.page import page

    inputs = read_inputs(options.rows, options.out, "report")
    finish("report", inputs, [write_file(inputs.out / "report.html", page(inputs))], [])
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m analysis", description="What recorded rows mean.")
    commands = parser.add_subparsers(
        required=True, metavar="COMMAND", dest="command", parser_class=_Parser
    )
    newest = "a folder; default: this machine's newest sweep, else outputs/reference"
    for name, summary in (COMMANDS | {"validate": VALIDATE, "compare": COMPARE}).items():
        command = commands.add_parser(name, help=summary, description=summary)
        command.add_argument("--verbose", action="store_true", help="show an error's traceback")
        if name == "compare":
            add_arguments(command)
            continue
        given = {"required": True, "help": "the folder"} if name == "validate" else {"help": newest}
        command.add_argument("--rows", type=Path, metavar="DIR", **given)
        where = VALIDATED if name == "validate" else f"default: {name}/ in the rows"
        command.add_argument("--out", type=Path, metavar="DIR", help=where)
        if name in ("figures", "tables"):
            some = f"make only these {name}, such as limits,limits_summary"
            command.add_argument("--only", type=_names, metavar="NAMES", default=(), help=some)
        if name == "claims":
            another = "judge another file's claims (default: analysis/claims.yaml)"
            command.add_argument("--claims", type=Path, metavar="FILE", help=another)
        if name in COMMANDS:
            unchanged = "make nothing where rows, records and code are the same as last time"
            command.add_argument("--if-changed", action="store_true", help=unchanged)
    return parser


if __name__ == "__main__":
    sys.exit(main())
