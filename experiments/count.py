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

# 198×99 is two odd squares; a row of 1000 fits one tile of most variants, 8192 fits no tile
SHAPES = ((198, 99), (3, 1000), (5, 8192))
COUNTED_DTYPES = ("float32", "float16", "bfloat16")


def run(out: Path, names: Iterable[str] = ()) -> None:
    """Writes the counts of kernels, by default all, and prints how each compares with its model.

    Raises:
        UserError: a kernel cannot be built; no record has been written.
    """
    device = choose_device("cpu").device
    import torch  # and the kernels, now that Triton interprets them

    from experiments.worker.counting import count
    from experiments.worker.describe import build_kernel

    out.mkdir(parents=True, exist_ok=True)  # an error shows now and not after minutes
    files = read_yaml(CONF / "kernel")
    every = [name for name in files if name != OUTSIDE]  # which stands for any file
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
    warnings.simplefilter("ignore", RuntimeWarning)  # masked-off lanes make NaN in the interpreter
    sys.exit(command(lambda: run(options.out), interrupted="interrupted; nothing was written"))
