"""``python -m analysis COMMAND`` draws and judges recorded rows. No command measures.

``figures``, ``tables``, ``roofline``, ``claims``, ``report`` and ``selftest`` draw the rows of
``--rows``, by default the recorded ones in ``outputs/reference``. ``compare`` reads two sweeps,
``validate`` checks a contributed folder, ``trace`` prints the rows behind a line of a table.
"""

import argparse
import gc
import importlib
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from experiments.data.errors import Parser, command
from experiments.data.files import RowsError

# A command is a module of analysis. Its `run(options)` returns the exit status; a module with
# arguments of its own adds them in `arguments(parser)`. Only the asked module is imported.
DRAWING = {
    "figures": "draw the sources' figures and this project's own",
    "tables": "write the sources' tables and this project's own",
    "roofline": "draw shares of the roof, and check what traffic explains",
    "claims": "judge every claim by rows, and audit the printed numbers",
    "report": "write figures, tables and claims as one HTML page",
    "selftest": "report the noise floor: variants against themselves",
}
OTHERS = {
    "compare": "compare two sweeps point by point; status 1 if HEAD is worse",
    "validate": "check a contributed folder; status 1 if it is refused",
    "trace": "print the rows behind a line of a table's CSV",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; returns the exit status, as `command` gives it."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    gc.set_threshold(50_000)  # rows are millions of objects that stay

    def act() -> int:
        options = _parser(words[:1]).parse_args(words)
        with pd.option_context("mode.string_storage", "python"):  # pyarrow's are slower to group
            return int(importlib.import_module(f"analysis.{options.command}").run(options))

    return command(act, "--verbose" in words, interrupted="interrupted")


def only(listed: str, known: Sequence[str]) -> tuple[str, ...]:
    """The names in the comma-separated list of ``--only``; all of them are known.

    Raises:
        RowsError: a name is unknown; the message has it, and the known names.
    """
    names = tuple(filter(None, map(str.strip, listed.split(","))))
    for name in names:
        if name not in known:
            raise RowsError(f"--only: no {name!r}; known are {', '.join(known)}")
    return names


def finish(made: Iterable[Path], missing: Sequence[str] = ()) -> None:
    """Prints each path when its file is written, and then one line on what was skipped."""
    for path in made:
        print(path, flush=True)
    if missing:
        print(f"skipped: {'; '.join(missing)}", file=sys.stderr)


def _parser(asked: Sequence[str]) -> argparse.ArgumentParser:
    parser = Parser(prog="python -m analysis", description="Draws and judges recorded rows.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, summary in (DRAWING | OTHERS).items():
        own = commands.add_parser(name, help=summary, description=summary)
        own.set_defaults(command=name)
        own.add_argument("--verbose", action="store_true", help="show an error's traceback")
        if name in DRAWING:
            recorded = "a folder of rows (default: the recorded rows in outputs/reference)"
            beside = f"default: {name}/ in the rows' folder; outputs/{name} for the recorded rows"
            own.add_argument("--rows", type=Path, metavar="DIR", help=recorded)
            own.add_argument("--out", type=Path, metavar="DIR", help=beside)
        if name in ("figures", "tables", "claims", "report"):
            ours = "the kernel compared with the public ones"
            own.add_argument("--ours", default="", metavar="KERNEL", help=ours)
        if name in ("figures", "tables"):
            some = f"make only these {name}, such as limits,headline"
            own.add_argument("--only", default="", metavar="NAMES", help=some)
        if name in asked and hasattr(
            found := importlib.import_module(f"analysis.{name}"), "arguments"
        ):
            found.arguments(own)
    return parser


if __name__ == "__main__":
    sys.exit(main())
