"""``python -m experiments.bench FILE.py::FUNCTION [operation=NAME] [overrides]``, and in Python.

Measures one function of any file, beside PyTorch's, torch.compile's, ours, the installed public
kernels, and a copy of the same matrix. ``experiments.run --help`` lists the overrides.
Nothing is written into the file's folder. ``from experiments import bench, sweep`` does the same.
"""

from __future__ import annotations

import inspect
import io
import json
import math
import re
import tempfile
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any

from experiments.data.errors import Parser, SweepFailed, UserError, command
from experiments.data.jobs import CONF, ROOT, read_yaml
from experiments.data.metrics import compared, derive, mark_implausible
from experiments.data.rows import EXPECTED, Row
from experiments.parent.client import Worker, WorkerDied, has_cuda_driver
from experiments.parent.jobs import OUTSIDE, outside_name
from experiments.parent.summary import interval, print_table, time_text
from experiments.run import act_on

if TYPE_CHECKING:
    import pandas as pd

OUTPUTS = Path("outputs") / "bench"
INSPECT_LIMIT_S = 60.0
NOISE_FILE = ROOT / "analysis" / "noise.json"  # how much repeated sweeps on a card differ, by time
CPU_NOISE = 0.2  # one function in two processes on a shared CPU differed by up to 17 %
COLUMNS = ("M×N", "dtype", "kernel", "µs", "of roof", "× torch", "× best other", "verdict")
IMPORTS = {"torch": "import torch", "triton": "import triton", "tl": "import triton.language as tl"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints the table; returns the exit status."""
    parser = Parser(prog="python -m experiments.bench", description=__doc__)
    parser.add_argument("kernel", metavar="FILE.py::FUNCTION", help="the function, of any file")
    parser.add_argument("overrides", nargs="*", metavar="name=value", default=[])
    parser.add_argument("--traffic", metavar="T", help="elements that it moves, such as '3*M*N'")
    parser.add_argument("--verbose", action="store_true", help="show an error's traceback")
    options = parser.parse_intermixed_args(arguments)
    given = dict(word.partition("=")[::2] for word in options.overrides)
    overrides = [w for w in options.overrides if not w.startswith(("operation=", "out="))]

    def act() -> None:
        asked = given.get("operation"), options.traffic, given.get("out")
        lines, out = measure_file(options.kernel, overrides, *asked)
        if lines:  # a dry run has none
            print_table(COLUMNS, [_cells(line) for line in lines])
            print(f"rows  {out}/**/rows.jsonl")
        if any(line["status"] not in EXPECTED for line in lines):
            raise SweepFailed

    return command(act, options.verbose)


def sweep(*overrides: str, out: str | Path | None = None) -> pd.DataFrame:
    """Runs a sweep and returns the rows of its points.

    Args:
        overrides: As on the command line: ``"kernel=naive,fused"``, ``"grid=smoke"``.
        out: The sweep's folder, by default the command line's; points that already have a row
            there are not measured again.

    Returns:
        A line per point: the row's fields and the derived columns, as from `analysis.load.load`.

    Raises:
        UserError: the request was refused; the error says why.
    """
    import pandas as pd

    return pd.DataFrame(derive(mark_implausible([row for _, row in _sweep(overrides, out)])))


def bench(
    kernel: str | Callable[..., Any],
    *overrides: str,
    operation: str | None = None,
    traffic: str | None = None,
    out: str | Path | None = None,
) -> pd.DataFrame:
    """Measures a function, a copy of the matrix, and other kernels of the function's operation.

    Args:
        kernel: ``"FILE.py::FUNCTION"``, or a function whose source can be read. A notebook's
            function may use only its arguments, builtins, ``torch``, ``triton`` and ``tl``.
        overrides: Overrides of the sweep, such as ``"grid=vocab"``.
        operation: The name of an operation in ``kernels/``, which the function computes; None
            stands for the one in ``conf/kernel/outside.yaml``.
        traffic: The elements that it moves, such as ``"3*M*N"``; None: the compulsory traffic.
        out: The folder for the rows; None stands for ``outputs/bench/<file>-<function>``.

    Returns:
        A line per shape and dtype: time, share of the roof, ratios and the verdict.

    Raises:
        UserError: the function cannot be measured, or the request was refused.
    """
    import pandas as pd

    with tempfile.TemporaryDirectory() as scratch:
        place = kernel if isinstance(kernel, str) else location_of(kernel, Path(scratch))
        lines, _ = measure_file(place, overrides, operation, traffic, out)
    return pd.DataFrame(lines)


def _sweep(overrides: Sequence[str], out: str | Path | None) -> list[tuple[str, Row]]:
    """Runs a sweep as the command line does, without its table; returns (label, row) pairs."""
    place = [] if out is None else [f"out={_quoted(str(Path(out).resolve()))}"]
    shown = "dry_run=true" in overrides
    with nullcontext() if shown else redirect_stdout(io.StringIO()):
        try:
            found: list[tuple[str, Row]] = act_on([*overrides, *place]) or []  # Slurm returns none
        except SweepFailed as failed:
            found = [*failed.found]
            if not found:
                raise UserError("the sweep ended before its points were measured") from None
        except UserError as error:  # without its cause, Hydra's error, which lists every option
            raise UserError(str(error)) from None
    return found


def _quoted(text: str) -> str:
    """A text as a quoted string in Hydra's grammar; unquoted, ``nan`` would be a number."""
    escaped = text.replace("'", "\\'")
    return f"'{escaped}'"


def location_of(function: Callable[..., Any], folder: Path) -> str:
    """``FILE.py::NAME`` of a function: in its own file, or in a copy of its source in ``folder``.

    Raises:
        UserError: its source cannot be read, or it uses names that are defined outside of it.
    """
    name, code = getattr(function, "__name__", ""), getattr(function, "__code__", None)
    if code is None or not name.isidentifier():
        raise UserError(f"{function!r} is no function that can be measured; name FILE.py::FUNCTION")
    file = Path(code.co_filename)
    outer = [*code.co_freevars, *({*_names(code)} & {*function.__globals__} - {*IMPORTS})]
    alone = function.__module__ == "__main__" and not outer  # no need to run its script again
    if file.is_file() and file.suffix == ".py" and not code.co_freevars and not alone:
        return f"{file}::{name}"
    advice = f"write it to a file and name FILE.py::{name}"
    if outer:
        raise UserError(f"{name} uses {', '.join(outer)} of the code around it; {advice}")
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        raise UserError(f"the source of {name} cannot be read here; {advice}") from None
    path = folder / f"{name}_cell.py"
    needed = [line for one, line in IMPORTS.items() if re.search(rf"\b{one}\b", source)]
    path.write_text("\n".join([*needed, "\n", source]), encoding="utf-8")
    return f"{path}::{name}"


def _names(code: CodeType) -> Iterator[str]:
    """The names of globals and attributes that code uses, its nested functions included."""
    yield from code.co_names
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _names(one)


def measure_file(
    kernel: str,
    overrides: Sequence[str],
    operation: str | None,
    traffic: str | None,
    out: str | Path | None,
) -> tuple[list[dict[str, Any]], Path]:
    """Measures ``FILE.py::FUNCTION``; returns the lines of `lines_of`, and the folder of the rows.

    Raises:
        UserError: the file cannot be measured, or the sweep was refused.
    """
    file, separator, function = kernel.rpartition("::")
    path = Path(file).expanduser().resolve()
    if not separator:
        raise UserError(f"{kernel} names no function; write FILE.py::FUNCTION")
    if not path.is_file() or path.suffix != ".py":
        raise UserError(f"{file} is no Python file" if path.exists() else f"{file}: no such file")
    chosen = [word.partition("=")[2] for word in overrides if re.match(r"[+~]*kernel=", word)]
    if any({OUTSIDE, ""}.isdisjoint(names.split(",")) for names in chosen):  # the sweep refuses ""
        raise UserError(f"kernel={chosen[0]} leaves the file out; write kernel=outside,{chosen[0]}")
    operation = operation or str(read_yaml(CONF / "kernel")[OUTSIDE]["operation"])
    asked = {"file": str(path), "function": function, "operation": operation, "traffic": traffic}
    on_card = "gpu=cpu" not in overrides and has_cuda_driver()
    found = _inspect_file(asked, "auto" if on_card else "cpu")
    folder = Path(out) if out else OUTPUTS / f"{path.stem}-{function}"
    words = [
        f"kernel={','.join(['outside', *found['rivals']])}",
        f"grid={'bench' if on_card else 'smoke'}",
        f"kernel.outside.file={_quoted(str(path))}",
        f"kernel.outside.operation={operation}",
        "only_beside=true",
        f"kernel.outside.function={','.join(map(_quoted, found['functions']))}",
        *[f"kernel.outside.traffic='{traffic}'"] * bool(traffic),
    ]
    if not on_card:  # on a CPU each sample flushes a large cache first, which takes 0.1 s
        words += ["timing.min_samples=10", "timing.max_samples=30"]
    names = [outside_name(path, one) for one in found["functions"]]
    return lines_of(_sweep([*words, *overrides], folder), names), folder


def _inspect_file(kernel: dict[str, Any], device: str) -> dict[str, Any]:
    """A worker's answer on a file from outside: see `experiments.worker.describe.inspect`."""
    worker = Worker(device, 0, OUTPUTS / "worker.log")
    try:
        reply = worker.request({"do": "inspect", "kernel": kernel}, inspecting=INSPECT_LIMIT_S)
    except WorkerDied as error:
        reply = {"error": f"{Path(kernel['file']).name}: {error}"}
    finally:
        worker.stop()
    if "error" in reply:
        raise UserError(reply["error"])
    return reply


def lines_of(found: Sequence[tuple[str, Row]], names: Sequence[str]) -> list[dict[str, Any]]:
    """The results of the kernels in ``names``, one for each setting, shape and dtype.

    ``found`` are pairs (label, row) of the whole sweep; only its last round counts.
    """
    newest = max((row.round for _, row in found), default=0)
    last = [one for one in found if one[1].round == newest]
    last.sort(key=lambda one: (one[1].dtype, one[1].cols, one[1].rows, one[0]))
    lines = []
    for (label, row), ratios in zip(last, compared([row for _, row in last], names), strict=True):
        if row.kernel in names:
            line = {"kernel": label} | {k: getattr(row, k) for k in ("rows", "cols", "dtype")}
            line["status"] = row.status
            times = {"time_us": row.time_us, "low_us": row.time_low_us, "high_us": row.time_high_us}
            line |= times | ratios
            lines.append(line | {"verdict": _verdict(row, line)})
    return lines


def _verdict(row: Row, line: Mapping[str, Any]) -> str:
    """Whether the row is faster or slower than the best other kernel by more than the noise."""
    if row.status != "ok":
        return ": ".join(filter(None, [row.status, row.reason]))
    if row.time_us is None:
        return "right; interpreted, not timed"
    left_out = [f"{line['left_out']} suspect, left out"] * bool(line["left_out"])
    if not line["best_other"]:
        return "; ".join(["nothing to compare with", *left_out])
    floor = CPU_NOISE
    if row.device == "cuda":  # repeated sweeps on an H200 differ by more in at most 5 % of cases
        ranges = json.loads(NOISE_FILE.read_text(encoding="utf-8"))["ranges"]
        floor = next(x["floor"] for x in ranges if row.time_us < (x["below_us"] or math.inf))
    slower = "slower" if line["over_best_high"] < 1 - floor else "no difference"
    doubts = {reason.partition(":")[0] for reason in row.suspect}
    verdict = "faster" if line["over_best_low"] > 1 + floor else slower
    return "; ".join([verdict, *sorted(doubts), *left_out])


def _cells(line: dict[str, Any]) -> list[str]:
    time = "" if line["time_us"] is None else time_text(line["time_us"])
    return [
        f"{line['rows']}×{line['cols']}", line["dtype"], line["kernel"], time,
        interval(line, "share", 100, "%"), interval(line, "over_torch"),
        f"{interval(line, 'over_best')} {line['best_other']}".strip(), line["verdict"],
    ]  # fmt: skip
