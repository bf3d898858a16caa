"""``python -m experiments.count --out DIR``: runs every variant and counts its memory requests.

It needs no GPU: Triton kernels run under Triton's interpreter, and PyTorch's dispatcher sees the
operations of the others. ``counts.jsonl`` does not depend on the machine.
"""

import sys
import warnings
from collections.abc import Iterable
from pathlib import Path

from experiments.data.errors import Parser, command
from experiments.data.jobs import CONF, NOT_TUNABLES, read_yaml
from experiments.data.records import COUNTS, Count, write_records
from experiments.parent.jobs import OUTSIDE
from experiments.worker.machine import choose_device

# (198, 99): two odd squares; most variants take a row of 1000 in one tile, tiled ones split 8192
SHAPES = ((198, 99), (3, 1000), (5, 8192))
COUNTED_DTYPES = ("float32", "float16", "bfloat16")


def run(out: Path, names: Iterable[str] = ()) -> None:
    """Writes ``out/counts.jsonl`` for kernels by ``names`` (default: all); prints each difference.

    Raises:
        UserError: a kernel cannot be built; no record has been written.
    """
    device = choose_device("cpu").device
    import torch  # and the kernels, now that Triton interprets them

    from experiments.worker.counting import count
    from experiments.worker.describe import build_kernel

    out.mkdir(parents=True, exist_ok=True)  # so that an error shows now and not after minutes
    files = read_yaml(CONF / "kernel")
    every = [name for name in files if name != OUTSIDE]  # which names no kernel of its own
    counts: list[Count] = []
    for name in names or every:
        kernel = build_kernel({k: v for k, v in files[name].items() if k not in NOT_TUNABLES})
        shapes = [shape for shape in SHAPES if kernel.operation.refuses(shape) is None]
        points = [(shape, getattr(torch, dtype)) for dtype in COUNTED_DTYPES for shape in shapes]
        mine = [count(name, kernel, *point, device) for point in points]
        counts += mine
        verdicts = (c.difference or (c.reason if c.method == "none" else None) for c in mine)
        text = "; ".join(dict.fromkeys(filter(None, verdicts))) or "as modelled"
        print(f"{name:<12} {text}", flush=True)
    write_records(out / COUNTS, counts)
    print(out / COUNTS)


if __name__ == "__main__":
    parser = Parser(prog="python -m experiments.count", description="Counts memory traffic.")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="for the records")
    options = parser.parse_args()
    warnings.simplefilter("ignore", RuntimeWarning)  # NaN in masked-off lanes of the interpreter
    sys.exit(command(lambda: run(options.out), interrupted="interrupted; nothing was written"))
