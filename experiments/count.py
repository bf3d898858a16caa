"""``python -m experiments.count --out DIR``: runs every variant and counts its memory requests.

It needs no GPU: Triton kernels run under Triton's interpreter, and PyTorch's dispatcher sees the
operations of the others. ``counts.jsonl`` does not depend on the machine.
"""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from experiments.data.errors import Parser, UserError, command
from experiments.data.jobs import CONF, NOT_TUNABLES, read_yaml
from experiments.data.records import COUNTS, Count, write_records
from experiments.parent.client import Worker, WorkerDied
from experiments.parent.jobs import OUTSIDE

LIMIT_S = 300.0
# 198×99 is two odd squares; a row of 1000 fits one tile of most variants, 8192 fits no tile
SHAPES = ((198, 99), (3, 1000), (5, 8192))
DTYPES = ("float32", "float16", "bfloat16")


def run(out: Path, names: Iterable[str] = ()) -> None:
    """Writes the counts of kernels, by default all, and prints how each compares with its model.

    Raises:
        UserError: a kernel cannot be built; no record has been written.
    """
    files = read_yaml(CONF / "kernel")
    every = [name for name in files if name != OUTSIDE]  # which stands for any file
    counts: list[Count] = []
    worker = Worker("cpu", 0, out / "worker.log")
    try:
        for name in names or every:
            config = {key: value for key, value in files[name].items() if key not in NOT_TUNABLES}
            mine = [
                counted(worker, name, {"kernel": config, "rows": m, "cols": n, "dtype": dtype})
                for dtype in DTYPES
                for m, n in SHAPES
            ]
            counts += mine
            verdicts = (c.difference or (c.reason if c.method == "none" else None) for c in mine)
            text = "; ".join(dict.fromkeys(filter(None, verdicts))) or "as modelled"
            print(f"{name:<12} {text}", flush=True)
    finally:
        worker.stop()
    worker.log.unlink(missing_ok=True)  # it describes failures, and there was none
    write_records(out / COUNTS, counts)
    print(out / COUNTS)


def counted(worker: Worker, name: str, point: dict[str, Any]) -> Count:
    """A kernel's count at a point; raises `UserError` if the kernel cannot be built."""
    request = {"do": "count", "point": point}
    try:
        reply = worker.request(request, counting=LIMIT_S)
    except WorkerDied as error:  # it hangs, or takes the worker down; the next worker records that
        point["reason"] = f"not countable: {error}"
        reply = worker.request(request, counting=LIMIT_S)
    if "error" in reply:
        raise UserError(f"kernel={name}: {reply['error']}")
    return Count(kernel=name, **reply)


if __name__ == "__main__":
    parser = Parser(prog="python -m experiments.count", description="Counts memory traffic.")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="for the records")
    options = parser.parse_args()
    sys.exit(command(lambda: run(options.out)))
