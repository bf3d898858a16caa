"""Sweeps and benchmarks from Python: ``from experiments import bench, sweep``.

Both run ``python -m experiments.run`` in a process of its own, so that a worker measures
as ever, whatever the calling program has imported.
"""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.child import ROOT, environment
from experiments.data.metrics import derive, latest
from experiments.data.rows import Row, read_rows, rows_files
from experiments.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

MEASURED = (0, 1)  # statuses of a sweep that ran: 1 where a point failed


def sweep(*overrides: str, out: str | Path) -> pd.DataFrame:
    """Runs a sweep and gives its rows.

    Args:
        overrides: As on the command line: ``"kernel=naive,fused"``, ``"grid=smoke"``.
        out: The sweep's folder; rows that it has already are not measured again.

    Returns:
        A line per point: the row's fields and the derived ones, as `analysis.load.load` has them.

    Raises:
        UserError: the request was refused; the error says why.
    """
    import pandas as pd

    run([*overrides], Path(out))
    return pd.DataFrame(derive(rows_of(Path(out))))


def bench(
    kernel: str | Callable[..., Any],
    *overrides: str,
    operation: str | None = None,
    traffic: str | None = None,
    out: str | Path | None = None,
) -> pd.DataFrame:
    """Measures a function beside PyTorch's, the compiler's, ours, the public ones and a copy.

    Args:
        kernel: ``"FILE.py::FUNCTION"``, or a function whose source can be read; a function of a
            notebook may use its arguments, ``torch`` and ``triton`` alone.
        overrides: Of the sweep, such as ``"grid=vocab"``.
        operation: What it computes, as ``kernels/`` calls it; None for the one that
            ``conf/kernel/outside.yaml`` names.
        traffic: Elements that it moves, such as ``"3*M*N"``; the compulsory traffic by default.
        out: The folder of the rows; ``outputs/bench/<function>`` by default.

    Returns:
        A line per shape and dtype: time, share of the roof, ratios and the verdict.

    Raises:
        UserError: the function cannot be measured, or the request was refused.
    """
    import pandas as pd

    from experiments.bench import lines_of, measured

    with tempfile.TemporaryDirectory() as scratch:
        place = kernel if isinstance(kernel, str) else written(kernel, Path(scratch))
        names, folder = measured(place, list(overrides), operation, traffic, out)
    return pd.DataFrame(lines_of(rows_of(folder), names))


def rows_of(out: Path) -> list[Row]:
    """The last row of each point of a sweep."""
    return latest(row for path in rows_files(out) for row in read_rows(path))


def run(overrides: Sequence[str], out: Path) -> None:
    """Runs ``python -m experiments.run``; progress and warnings are printed, its table is not.

    Raises:
        UserError: it was refused; the error is its own line.
    """
    words = [*overrides, f"out='{out.resolve()}'"]
    # a notebook's own standard error is no file, so lines are handed on as they come
    with subprocess.Popen(
        [sys.executable, "-m", "experiments.run", *words],
        cwd=ROOT,
        env=environment(os.environ),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        error = ""
        for line in process.stderr:
            if line.startswith("error: "):
                error = line.removeprefix("error: ").strip()
            else:
                print(line, end="", file=sys.stderr, flush=True)
    if process.returncode not in MEASURED:
        raise UserError(error or f"experiments.run ended with status {process.returncode}")


def written(function: Callable[..., Any], folder: Path) -> str:
    """A function as ``FILE.py::NAME``: its file's, or one with its source and the usual imports.

    Raises:
        UserError: its source cannot be read, or it uses what stands around it.
    """
    name = getattr(function, "__name__", "")
    code = getattr(function, "__code__", None)
    if code is None or not name.isidentifier():
        raise UserError(f"{function!r} is no function that can be measured; name FILE.py::FUNCTION")
    advice = f"write it to a file and name FILE.py::{name}"
    if code.co_freevars:
        raise UserError(
            f"{name} uses {', '.join(code.co_freevars)} of the function around it; {advice}"
        )
    file = Path(code.co_filename)
    if file.is_file() and file.suffix == ".py":
        return f"{file}::{name}"
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        raise UserError(f"the source of {name} cannot be read here; {advice}") from None
    imports = {"torch": "import torch", "triton": "import triton",
               "tl": "import triton.language as tl"}  # fmt: skip
    used = {one for one in code.co_names if one in function.__globals__}
    if others := sorted(used - imports.keys()):
        raise UserError(f"{name} uses {', '.join(others)} of the cells around it; {advice}")
    needed = [line for one, line in imports.items() if re.search(rf"\b{one}\b", source)]
    path = folder / f"{name}_cell.py"
    path.write_text("\n".join([*needed, "\n", source]), encoding="utf-8")
    return f"{path}::{name}"
