"""``python -m experiments.count --out DIR``: executes every variant and records what it requested.

It needs no GPU: Triton kernels run under Triton's interpreter, the others are seen by PyTorch's
dispatcher. ``counts.jsonl`` and ``traces.jsonl`` do not depend on the machine.
"""

from __future__ import annotations

import argparse
import re
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from experiments.counting import configurations, counts_of, traces_of
from experiments.data.records import Count, Trace, write_records
from experiments.errors import UserError, on_one_line
from experiments.sweep.checks import DTYPES
from experiments.sweep.client import Worker, WorkerError

# odd sizes, a row of one tile of most variants, and a row beyond the tile of every variant
SHAPES = "7x13,3x1000,5x8192"
COUNTED_DTYPES = "float32,float16,bfloat16"


def main(arguments: Sequence[str] | None = None) -> int:
    """Counts and traces what the command line asks for; returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        run(options)
    except (UserError, WorkerError, HydraException, OmegaConfBaseException, OSError) as error:
        if options.verbose:
            traceback.print_exc()
        print(f"error: {on_one_line(str(error))}", file=sys.stderr)
        return 2
    return 0


def run(options: argparse.Namespace) -> None:
    """Writes the records of all kernels asked for, and says of each how it compares.

    Raises:
        UserError: naming the option at fault; no record has been written.
    """
    shapes, dtypes = _shapes(options.shapes), _dtypes(options.dtypes)
    names = options.kernel.split(",") if options.kernel else None
    kernels = configurations(names, options.config_dir)
    counts: list[Count] = []
    traces: list[Trace] = []
    traced = _traced(kernels)
    worker = Worker("cpu", 0, options.out / "worker.log")
    try:
        for name, config in kernels.items():
            mine = counts_of(worker, name, config, shapes, dtypes)
            counts += mine
            if name in traced:
                traces += traces_of(worker, name, config, mine[0].operation)
            print(f"{name:<12} {_verdict(mine)}", flush=True)
    finally:
        worker.stop()
    worker.log.unlink(missing_ok=True)  # it tells of failures, and there was none
    for file, records in (("counts.jsonl", counts), ("traces.jsonl", traces)):
        write_records(options.out / file, records)
        print(options.out / file)


def _traced(kernels: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """A preset of each variant, that of its own name if there is one.

    A trace sets the tile itself, so another preset of the variant would be the same.
    """
    chosen: dict[str, str] = {}
    for name, config in kernels.items():
        target = config["_target_"]
        if target not in chosen or target.split(".")[-2] == name:
            chosen[target] = name
    return set(chosen.values())


def _verdict(counts: Sequence[Count]) -> str:
    """What a kernel's counts amount to, each thing said once."""
    said = [
        count.reason
        if count.method == "none"
        else count.difference or f"as modelled{f' ({count.reason})' if count.reason else ''}"
        for count in counts
    ]
    return "; ".join(dict.fromkeys(filter(None, said)))


def _shapes(text: str) -> list[tuple[int, int]]:
    found = [re.fullmatch(r"([1-9]\d*)[x×]([1-9]\d*)", part) for part in text.split(",")]
    shapes = [(int(match[1]), int(match[2])) for match in found if match]
    if len(shapes) < len(found):
        raise UserError(f"--shapes {text}; write rows x columns, as in {SHAPES}")
    return shapes


def _dtypes(text: str) -> list[str]:
    for name in text.split(","):
        if name not in DTYPES:
            raise UserError(f"--dtypes {name!r} is unknown; use one of {', '.join(DTYPES)}")
    return text.split(",")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message}\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m experiments.count", description="Counts memory traffic.")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="for the records")
    parser.add_argument("--kernel", metavar="NAMES", help="such as online,fused; default: all")
    parser.add_argument("--shapes", metavar="MxN,...", default=SHAPES, help="default: %(default)s")
    parser.add_argument("--dtypes", metavar="NAMES", default=COUNTED_DTYPES, help="%(default)s")
    parser.add_argument("--config-dir", type=Path, metavar="DIR", help="further configurations")
    parser.add_argument("--verbose", action="store_true", help="show the traceback of an error")
    return parser


if __name__ == "__main__":
    sys.exit(main())
