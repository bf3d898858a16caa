"""Where the rows come from, how they were measured, and how to measure them again.

C-prof and D-test stand here too: one launch for a profiler, and answers at an irregular shape.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pandas as pd

from analysis.figures.style import CACHES, TIMERS, variant_order
from analysis.format import Table, thousands
from analysis.load import Inputs, rows_hash
from analysis.report.facts import microseconds, time_text
from analysis.selection import name_variants, records_of

PRESETS = Path(__file__).resolve().parents[2] / "conf" / "experiment"
NAMES = {
    "torch": "PyTorch", "triton": "Triton", "cuda": "CUDA", "driver": "NVIDIA driver",
    "python": "Python", "commit": "commit of this project", "dirty": "edited since that commit",
}  # fmt: skip
IRREGULAR = (1823, 781)  # D-test; the shape of Triton's tutorial 02
WORKED = (8192, 32000, "float16")  # C4, the point that C profiles
ARGUMENTS = "grid=point grid.rows={} grid.cols={} dtype={} gpu=auto".format(*WORKED)
PROFILE = (
    (
        f"python -m experiments.profile kernel=hybrid,torch {ARGUMENTS} -m",
        "one warm call, then one call inside a profiler range, and nothing else",
    ),
    (
        "ncu --nvtx --profile-from-start off "
        f"python -m experiments.profile kernel=hybrid {ARGUMENTS}",
        "the same under Nsight Compute, which sees that one call",
    ),
    (
        f"python -m experiments.run kernel=hybrid,torch,copy {ARGUMENTS} -m",
        "the benchmark mode: samples until the interval is narrow enough",
    ),
)


def reproduction(inputs: Inputs) -> dict[str, Any]:
    """Versions, a column per GPU; protocols, a line each; what to type, each with what it does."""
    frame = inputs.frame
    gpus = sorted(frame["gpu"].unique())
    return {
        "environment": _environment(frame, gpus),
        "protocol": _protocol(frame, gpus),
        "commands": _commands(frame),
    }


def _environment(frame: pd.DataFrame, gpus: list[str]) -> Table:
    rows = {gpu: frame[frame["gpu"] == gpu] for gpu in gpus}
    facts = sorted({name for seen in frame["environment"] for name in seen})
    order = [n for n in NAMES if n in facts] + [n for n in facts if n not in NAMES]
    lines = [[NAMES.get(n) or n, *(_stated(rows[gpu], n) for gpu in gpus)] for n in order]
    lines.append(["rows", *(thousands(len(rows[gpu])) for gpu in gpus)])
    lines.append(["hash of the rows", *(rows_hash(rows[gpu]) for gpu in gpus)])
    return Table("Environment", ["", *gpus], lines)


def _stated(rows: pd.DataFrame, name: str) -> str:
    values = {_plain(seen[name]) for seen in rows["environment"] if seen.get(name) is not None}
    return ", ".join(sorted(values)) or "not recorded"


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _protocol(frame: pd.DataFrame, gpus: list[str]) -> Table:
    timed = frame[(frame["status"] == "ok") & frame["time_us"].notna()]
    lines: list[list[str]] = []
    for place, mine in timed.groupby(["gpu", "timer", "cache"], sort=True):
        gpu, timer, cache = cast(tuple[str, str, str], place)
        samples = mine["samples_us"].map(lambda taken: len(taken) if taken else 0)
        stops = mine["stop_reason"].value_counts().sort_index()
        lines.append(
            [
                gpu,
                f"{TIMERS.get(timer, timer)}, {CACHES[cache]}",
                f"{samples.min()} to {samples.max()}, median {samples.median():.0f}",
                ", ".join(f"{reason} {count}" for reason, count in stops.items()),
                str(mine["round"].nunique()),
                thousands(len(mine)),
            ]
        )
    heads = ["GPU", "timer and cache", "samples per point", "stopped by", "rounds", "timed points"]
    note = (
        "The published time is the median of all samples with a rank-based 95 % interval. Answers "
        "are checked against float64 before and after timing; the roof is the fastest copy of the "
        "same shape and dtype, measured in the same sweep on the same card."
    )
    lacking = [] if lines else ["No row has a time, so nothing here describes speed."]
    return Table("Protocol", heads, lines, [note, *lacking])


def _commands(frame: pd.DataFrame) -> tuple[tuple[str, str], ...]:
    commits = sorted({str(seen["commit"]) for seen in frame["environment"] if seen.get("commit")})
    checkout = [(f"git checkout {commit}", "the code that measured") for commit in commits]
    presets = sorted({sweep.rpartition("-")[0] or sweep for sweep in frame["sweep"]})
    known = [name for name in presets if (PRESETS / f"{name}.yaml").is_file()]
    sweeps = [(f"make sweep EXPERIMENT={name}", "measures again, on a GPU") for name in known]
    return (
        ("make report", "this page from the newest rows, else the recorded ones; no GPU"),
        ("make figures tables roofline claims", "its parts as files"),
        *checkout,
        *sweeps,
    )


def worked_table(inputs: Inputs) -> Table | None:
    """Times at C's worked point, a line per variant; None where no row has one."""
    rows, cols, dtype = WORKED
    found = _at(inputs.frame, rows, cols)
    found = found[(found["dtype"] == dtype) & (found["status"] == "ok") & found["time_us"].notna()]
    found = found[found["backend"] != "interpreter"]
    lines = [
        [
            row["gpu"],
            row["sweep"],
            row["variant"],
            time_text(row),
            f"{row['effective_gbps']:,.0f}",
            str(len(row["samples_us"] or [])),
        ]
        for row in _ordered(found)
    ]
    heads = ["GPU", "sweep", "variant", "time (95 % interval)", "GB/s", "samples"]
    return Table(f"Benchmark mode at {rows}×{cols} {dtype}", heads, lines) if lines else None


def irregular_table(inputs: Inputs) -> Table | None:
    """Outcome and error at 1823×781, a line a variant and dtype; None where no row has it."""
    lines = [
        [
            row["gpu"],
            row["variant"],
            row["dtype"],
            row["status"],
            _error(row["max_abs_error"]),
            _error(row["relative_error"]),
            "" if pd.isna(row["time_us"]) else microseconds(row["time_us"]),
        ]
        for row in _ordered(_at(inputs.frame, *IRREGULAR))
        if row["operation"] != "copy"
    ]
    heads = [
        "GPU",
        "variant",
        "dtype",
        "status",
        "max. absolute error",
        "relative error",
        "time µs",
    ]
    note = (
        "ok: every element and row sum lies within the dtype's tolerance of the float64 answer, "
        "before timing and after. Relative error is ‖y − ref‖ / ‖ref‖."
    )
    title = "The answer at {}×{}".format(*IRREGULAR)
    return Table(title, heads, lines, [note]) if lines else None


def _at(frame: pd.DataFrame, rows: int, cols: int) -> pd.DataFrame:
    return name_variants(frame[(frame["rows"] == rows) & (frame["cols"] == cols)])


def _ordered(found: pd.DataFrame) -> list[dict[str, Any]]:
    order = found["variant"].map(variant_order)
    keys = ["gpu", "sweep", "dtype", "_order", "round"]
    return records_of(found.assign(_order=order).sort_values(keys, kind="stable"))


def _error(value: float | None) -> str:
    return "" if value is None or value != value else f"{value:.1e}"
