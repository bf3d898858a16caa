"""``python -m experiments.count --out DIR``: executes every variant and records its requests.

It needs no GPU: Triton kernels run under Triton's interpreter, the others are seen by PyTorch's
dispatcher. ``counts.jsonl`` does not depend on the machine.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml

from experiments.data.jobs import ABOUT, CONF
from experiments.data.records import COUNTS, Count, write_records
from experiments.data.rows import ITEM_BYTES
from experiments.errors import Parser, UserError, command
from experiments.sweep.client import Worker, WorkerDied
from experiments.sweep.jobs import OUTSIDE

LIMIT_S = 300.0
# two square blocks of odd sizes, a row of one tile of most variants, and one beyond every tile
SHAPES = "198x99,3x1000,5x8192"
SHAPE = r"([1-9]\d*)[x×]([1-9]\d*)"
COUNTED_DTYPES = "float32,float16,bfloat16"


def main(arguments: Sequence[str] | None = None) -> int:
    """Counts what the command line asks for; returns the exit status."""
    parser = Parser(prog="python -m experiments.count", description="Counts memory traffic.")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="for the records")
    parser.add_argument("--kernel", metavar="NAMES", help="such as online,fused; default: all")
    parser.add_argument("--shapes", metavar="MxN,...", default=SHAPES, help="default: %(default)s")
    parser.add_argument("--dtypes", metavar="NAMES", default=COUNTED_DTYPES, help="%(default)s")
    options = parser.parse_args(arguments)
    return command(lambda: run(**vars(options)))


def run(out: Path, kernel: str | None, shapes: str, dtypes: str) -> None:
    """Writes the counts of all kernels asked for, and prints how each compares with its model.

    Raises:
        UserError: naming the option at fault; no record has been written.
    """
    paths = {path.stem: path for path in sorted((CONF / "kernel").glob("*.yaml"))}
    del paths[OUTSIDE]  # whatever file it is asked for
    names, types = kernel.split(",") if kernel else [*paths], dtypes.split(",")
    for option, asked, known in (("kernel", names, paths), ("dtypes", types, ITEM_BYTES)):
        for name in asked:
            if name not in known:
                raise UserError(f"--{option} {name!r} is unknown; there are {', '.join(known)}")
    if not re.fullmatch(rf"{SHAPE}(,{SHAPE})*", shapes):
        raise UserError(f"--shapes {shapes}; write rows x columns, as in {SHAPES}")
    sizes = [(int(m), int(n)) for m, n in re.findall(SHAPE, shapes)]
    counts: list[Count] = []
    worker = Worker("cpu", 0, out / "worker.log")
    try:
        for name in names:
            config = yaml.safe_load(paths[name].read_text("utf-8"))
            config = {key: value for key, value in config.items() if key not in ABOUT}
            mine = counts_of(worker, name, config, sizes, types)
            counts += mine
            verdicts = (c.difference or (c.reason if c.method == "none" else None) for c in mine)
            text = "; ".join(dict.fromkeys(filter(None, verdicts))) or "as modelled"
            print(f"{name:<12} {text}", flush=True)
    finally:
        worker.stop()
    worker.log.unlink(missing_ok=True)  # it describes failures, and there was none
    write_records(out / COUNTS, counts)
    print(out / COUNTS)


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
    found = []
    for dtype, (rows, cols) in ((dtype, shape) for dtype in dtypes for shape in shapes):
        point = {"kernel": config, "rows": rows, "cols": cols, "dtype": dtype, "seed": 0}
        request = {"do": "count", "point": point}
        try:
            reply = worker.request(request, counting=LIMIT_S)
        except WorkerDied as error:
            # a kernel that hangs or takes the worker down is recorded as such, by the next worker
            point["reason"] = f"not countable: {error}"
            reply = worker.request(request, counting=LIMIT_S)
        if "error" in reply:
            raise UserError(f"kernel={name}: {reply['error']}")
        found.append(Count(kernel=name, **reply))
    return found


if __name__ == "__main__":
    sys.exit(main())
