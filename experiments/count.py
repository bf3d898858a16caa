"""``python -m experiments.count --out DIR``: executes every variant and records its requests.

It needs no GPU: Triton kernels run under Triton's interpreter, the others are seen by PyTorch's
dispatcher. ``counts.jsonl`` does not depend on the machine.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml

from experiments.child import ROOT
from experiments.data.jobs import ABOUT
from experiments.data.records import COUNTS, Count, write_records
from experiments.data.rows import ITEM_BYTES
from experiments.errors import Parser, UserError, command
from experiments.sweep.client import Worker, WorkerDied
from experiments.sweep.jobs import OUTSIDE

CONF = ROOT / "conf"
LIMIT_S = {"counting": 300.0}
# two square blocks of odd sizes, a row of one tile of most variants, and one beyond every tile
SHAPES = "198x99,3x1000,5x8192"
COUNTED_DTYPES = "float32,float16,bfloat16"
AS_MODELLED = "as modelled"


def main(arguments: Sequence[str] | None = None) -> int:
    """Counts what the command line asks for; returns the exit status."""
    parser = Parser(prog="python -m experiments.count", description="Counts memory traffic.")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="for the records")
    parser.add_argument("--kernel", metavar="NAMES", help="such as online,fused; default: all")
    parser.add_argument("--shapes", metavar="MxN,...", default=SHAPES, help="default: %(default)s")
    parser.add_argument("--dtypes", metavar="NAMES", default=COUNTED_DTYPES, help="%(default)s")
    parser.add_argument("--config-dir", type=Path, metavar="DIR", help="further configurations")
    parser.add_argument("--verbose", action="store_true", help="show the traceback of an error")
    options = parser.parse_args(arguments)
    return command(lambda: run(options), options.verbose)


def run(options: argparse.Namespace) -> None:
    """Writes the counts of all kernels asked for, and prints how each compares with its model.

    Raises:
        UserError: naming the option at fault; no record has been written.
    """
    shapes, dtypes = _shapes(options.shapes), options.dtypes.split(",")
    for name in dtypes:
        if name not in ITEM_BYTES:
            raise UserError(f"--dtypes {name!r} is unknown; use one of {', '.join(ITEM_BYTES)}")
    names = options.kernel.split(",") if options.kernel else None
    kernels = configurations(names, options.config_dir)
    counts: list[Count] = []
    worker = Worker("cpu", 0, options.out / "worker.log")
    try:
        for name, config in kernels.items():
            mine = counts_of(worker, name, config, shapes, dtypes)
            counts += mine
            verdicts = [
                count.difference or (count.reason if count.method == "none" else AS_MODELLED)
                for count in mine
            ]
            print(f"{name:<12} {'; '.join(dict.fromkeys(filter(None, verdicts)))}", flush=True)
    finally:
        worker.stop()
    worker.log.unlink(missing_ok=True)  # it describes failures, and there was none
    write_records(options.out / COUNTS, counts)
    print(options.out / COUNTS)


def configurations(
    names: Sequence[str] | None, config_dir: Path | None = None
) -> dict[str, dict[str, Any]]:
    """Kernel configurations by name: those named, or all that there are.

    Args:
        names: Of files in ``conf/kernel`` or ``config_dir/kernel``.
        config_dir: A folder of further configurations.

    Raises:
        UserError: there is no kernel of a name.
    """
    folders = [CONF, *([config_dir.resolve()] if config_dir else [])]
    paths = {path.stem: path for folder in folders for path in sorted(folder.glob("kernel/*.yaml"))}
    del paths[OUTSIDE]  # whatever file it is asked for
    known = sorted(paths)
    for name in names or []:
        if name not in known:
            raise UserError(f"kernel {name!r} is unknown; there are {', '.join(known)}")
    found = {name: yaml.safe_load(paths[name].read_text("utf-8")) for name in names or known}
    return {
        name: {key: value for key, value in config.items() if key not in ABOUT}
        for name, config in found.items()
    }


def counts_of(
    worker: Worker,
    name: str,
    config: dict[str, Any],
    shapes: Iterable[tuple[int, int]],
    dtypes: Iterable[str],
) -> list[Count]:
    """A kernel's counts, shape by shape in each dtype.

    Raises:
        UserError: the configuration makes no kernel.
    """
    pairs = [(shape, dtype) for dtype in dtypes for shape in shapes]
    found = (_ask(worker, name, config, shape, dtype) for shape, dtype in pairs)
    return [Count(kernel=name, **reply) for reply in found]


def _ask(
    worker: Worker,
    name: str,
    config: dict[str, Any],
    shape: tuple[int, int],
    dtype: str,
) -> dict[str, Any]:
    rows, cols = shape
    point = {"kernel": config, "rows": rows, "cols": cols, "dtype": dtype, "seed": 0}
    try:
        reply = worker.request({"do": "count", "point": point}, LIMIT_S, "counting")
    except WorkerDied as error:
        # a kernel that hangs or takes the worker down is recorded as such, by the next worker
        point["reason"] = f"not countable: {error}"
        reply = worker.request({"do": "count", "point": point}, LIMIT_S, "counting")
    if "error" in reply:
        raise UserError(f"kernel={name}: {reply['error']}")
    return reply


def _shapes(text: str) -> list[tuple[int, int]]:
    if not re.fullmatch(r"([1-9]\d*[x×][1-9]\d*)(,[1-9]\d*[x×][1-9]\d*)*", text):
        raise UserError(f"--shapes {text}; write rows x columns, as in {SHAPES}")
    return [(int(m), int(n)) for m, n in re.findall(r"(\d+)[x×](\d+)", text)]


if __name__ == "__main__":
    sys.exit(main())
