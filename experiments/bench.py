"""``python -m experiments.bench FILE.py::FUNCTION [operation=NAME] [overrides]``.

Measures one function of one file anywhere, beside PyTorch's, the compiler's, ours, the public
kernels that are installed, and a copy of the same matrix. Nothing is written beside the file.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from experiments.api import run
from experiments.data.jobs import CONF, kernel_makers
from experiments.errors import Parser, UserError, on_one_line
from experiments.sweep.client import Worker, WorkerDied, WorkerError, drives

if TYPE_CHECKING:
    import pandas as pd

OUTPUTS = Path("outputs") / "bench"
INSPECT_LIMIT_S = 60.0
IMPLAUSIBLE = 1.1  # of a copy's bandwidth from a cold L2: an answer was kept, or nobody waited
COLUMNS = ("kernel", "rows", "cols", "dtype", "time_us", "low_us", "high_us", "share", "share_low",
           "share_high", "over_torch", "over_torch_low", "over_torch_high", "best_other",
           "over_best", "over_best_low", "over_best_high", "verdict")  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints the table; returns the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    parser = Parser(prog="python -m experiments.bench", description=__doc__)
    parser.add_argument("kernel", metavar="FILE.py::FUNCTION", help="the function, of any file")
    parser.add_argument("overrides", nargs="*", metavar="name=value", help="operation=, grid=, …")
    parser.add_argument("--traffic", metavar="T", help="elements that it moves, such as '3*M*N'")
    parser.add_argument("--verbose", action="store_true", help="show an error's traceback")
    options = parser.parse_args(words)
    given = dict(word.partition("=")[::2] for word in options.overrides)
    overrides = [w for w in options.overrides if not w.startswith(("operation=", "out="))]
    try:
        names, out = measured(
            options.kernel,
            overrides,
            given.get("operation"),
            options.traffic,
            given.get("out"),
        )
        print(shown(table(out, names), names))
        print(f"rows  {out}/**/rows.jsonl")
    except (UserError, WorkerError, OSError) as error:
        if options.verbose:
            traceback.print_exc()
        print(f"error: {on_one_line(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; the same command goes on where it stopped", file=sys.stderr)
        return 130
    return 0


def measured(
    kernel: str,
    overrides: Sequence[str],
    operation: str | None,
    traffic: str | None,
    out: str | Path | None,
) -> tuple[list[str], Path]:
    """Runs the sweep; gives the names of the file's kernels in its rows, and its folder.

    Raises:
        UserError: the file cannot be measured, or the sweep was refused.
    """
    file, separator, function = kernel.rpartition("::")
    if not separator:
        raise UserError(f"{kernel} names no function; it is FILE.py::FUNCTION")
    path = Path(file).expanduser().resolve()
    if not path.is_file() or path.suffix != ".py":
        raise UserError(f"{file} is no Python file")
    usual = yaml.safe_load((CONF / "kernel" / "outside.yaml").read_text(encoding="utf-8"))
    operation = operation or str(usual["operation"])
    asked = {"file": str(path), "function": function, "operation": operation, "traffic": traffic}
    gpu = next((w.partition("=")[2] for w in overrides if w.startswith("gpu=")), "auto")
    found = inspected(asked, "cpu" if gpu == "cpu" or not drives() else "auto")
    folder = Path(out) if out else OUTPUTS / f"{path.stem}-{function}"
    words = [f"kernel={','.join(['outside', *found['rivals']])}"]
    words += [f"kernel.outside.file='{path}'", f"kernel.outside.operation={operation}"]
    words += [f"kernel.outside.function={','.join(found['functions'])}"]
    words += [f"kernel.outside.traffic='{traffic}'"] if traffic else []
    if not any(word.startswith("grid=") for word in overrides):
        words.append(f"grid={'bench' if drives() and gpu != 'cpu' else 'smoke'}")
    run([*words, *overrides], folder)
    taken = kernel_names()
    return [f"{path.stem}.{n}" if n in taken else n for n in found["functions"]], folder


def inspected(kernel: dict[str, Any], device: str) -> dict[str, Any]:
    """What a worker finds in a file: kernels, operation, and the rivals that are installed.

    Raises:
        UserError: the file or the function cannot be measured.
    """
    OUTPUTS.mkdir(parents=True, exist_ok=True)
    worker = Worker(device, 0, OUTPUTS / "worker.log")
    try:
        limits = {"inspecting": INSPECT_LIMIT_S}
        reply = worker.request({"do": "inspect", "kernel": kernel}, limits, "inspecting")
    except WorkerDied as error:
        raise UserError(f"{Path(kernel['file']).name}: {error}") from None
    finally:
        worker.stop()
    if "error" in reply:
        raise UserError(reply["error"])
    return reply


def kernel_names() -> set[str]:
    """The names of the kernels in ``conf/kernel``."""
    return {path.stem for path in (CONF / "kernel").glob("*.yaml")}


def table(out: Path, names: Sequence[str]) -> pd.DataFrame:
    """A line per shape and dtype of the kernels called ``names``, `COLUMNS`.

    Ratios divide two medians of one round; their interval goes from one end of both intervals to
    the other. ``best_other`` is the fastest other kernel of the operation at that place.
    """
    import pandas as pd

    from analysis.load import load

    frame = load(out)
    last = frame[frame["round"] == frame["round"].max()]
    lines = []
    for row in last[last["kernel"].isin(names)].to_dict("records"):
        place = ["rows", "cols", "dtype"]
        here = last[(last[place] == [row[name] for name in place]).all(axis=1)]
        timed = here[(here["status"] == "ok") & here["time_us"].notna()]
        rivals = timed[(timed["operation"] == row["operation"]) & ~timed["kernel"].isin(names)]
        roof = timed[timed["operation"] == row["roof"]].sort_values("time_us")
        torch = rivals[rivals["kernel"].map(kernel_makers().get) == "torch"].sort_values("time_us")
        best = rivals.sort_values("time_us")
        over_best = _ratio(best, row)
        less = row["compulsory_bytes"] / roof["compulsory_bytes"].iloc[0] if len(roof) else 1.0
        share = [end * less for end in _ratio(roof, row)]
        lines.append([
            *(row[name] for name in ("kernel", *place, "time_us", "time_low_us", "time_high_us")),
            *share, *_ratio(torch, row),
            best["kernel"].iloc[0] if len(best) else "", *over_best,
            _verdict(row, over_best, share),
        ])  # fmt: skip
    return pd.DataFrame(lines, columns=list(COLUMNS))


def _ratio(others: pd.DataFrame, row: dict[str, Any]) -> list[float]:
    """The first other's time over the row's, with its interval; NaN where there is none."""
    if others.empty or row["status"] != "ok" or not row["time_us"] > 0:
        return [float("nan")] * 3
    other = others.iloc[0]
    return [
        other["time_us"] / row["time_us"],
        other["time_low_us"] / row["time_high_us"],
        other["time_high_us"] / row["time_low_us"],
    ]


def _verdict(row: dict[str, Any], ratio: Sequence[float], share: Sequence[float]) -> str:
    """Faster or slower than the best other by more than the noise of one round, or neither.

    A time far below the copy's from a cold L2 is no kernel's: its verdict is ``implausible``.

    The noise of a GPU is the recorded distance of two equal sweeps at such times; of a CPU the
    interval alone counts.
    """
    if row["status"] != "ok":
        return str(row["status"]) + (f": {row['reason']}" if isinstance(row["reason"], str) else "")
    if not row["time_us"] > 0:
        return "right; interpreted, not timed"
    if row["device"] == "cuda" and share[1] > IMPLAUSIBLE:
        return "implausible: faster than a copy of the same matrix"
    value, low, high = ratio
    if value != value:
        return "nothing to compare with"
    floor = 0.0
    if row["device"] == "cuda":
        from analysis.compare import noise_at, recorded_noise

        _, ranges = recorded_noise()
        floor = float(noise_at(ranges, np.array([row["time_us"]]))[2][0])
    if low > 1 + floor:
        return "faster"
    return "slower" if high < 1 - floor else "no difference"


def shown(lines: pd.DataFrame, names: Sequence[str]) -> str:
    """The table for a terminal."""
    heads = ["M×N", "dtype", *["kernel"] * (len(names) > 1), "µs", "of roof", "× torch",
             "× best other", "", "verdict"]  # fmt: skip
    cells = [
        [
            f"{line['rows']}×{line['cols']}", line["dtype"],
            *[line["kernel"]] * (len(names) > 1),
            "" if line["time_us"] != line["time_us"] else f"{line['time_us']:,.4g}",
            _interval(line, "share", 100, "%"), _interval(line, "over_torch"),
            _interval(line, "over_best"), line["best_other"], line["verdict"],
        ]
        for line in lines.to_dict("records")
    ]  # fmt: skip
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    left = {0, 1, len(heads) - 1, len(heads) - 2}
    rows = (
        "  ".join(
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in (heads, *cells)
    )
    return "\n".join(rows)


def _interval(line: Mapping[Any, Any], name: str, scale: float = 1, unit: str = "") -> str:
    value, low, high = (line[f"{name}{end}"] for end in ("", "_low", "_high"))
    if value != value:
        return "–"
    return f"{scale * value:.3g}{unit} ({scale * low:.3g}–{scale * high:.3g})"


if __name__ == "__main__":
    sys.exit(main())
