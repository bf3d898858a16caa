"""C-prof and D-test: one launch for a profiler, and the answers at an irregular shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.format import Table
from analysis.lines import variant_order
from analysis.load import Inputs
from analysis.report.facts import microseconds, time_text
from analysis.selection import name_variants, records_of

IRREGULAR = (1823, 781)  # D-test; the shape of Triton's tutorial 02
WORKED = (8192, 32000, "float16")  # C4, the point that C profiles
ARGUMENTS = "grid=point grid.rows={} grid.cols={} dtype={} gpu=auto".format(*WORKED)


@dataclass(frozen=True)
class Command:
    """A command line and what it does."""

    line: str
    does: str


PROFILE = (
    Command(
        f"python -m experiments.profile kernel=hybrid,torch {ARGUMENTS} -m",
        "one warm call, then one call inside a profiler range, and nothing else",
    ),
    Command(
        "ncu --nvtx --profile-from-start off "
        f"python -m experiments.profile kernel=hybrid {ARGUMENTS}",
        "the same under Nsight Compute, which sees that one call",
    ),
    Command(
        f"python -m experiments.run kernel=hybrid,torch,copy {ARGUMENTS} -m",
        "the benchmark mode: samples until the interval is narrow enough",
    ),
)


def worked_table(material: Inputs) -> Table | None:
    """Times at C's worked point, a line a variant; None where no row has one."""
    rows, cols, dtype = WORKED
    found = _at(material.frame, rows, cols)
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


def irregular_table(material: Inputs) -> Table | None:
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
        for row in _ordered(_at(material.frame, *IRREGULAR))
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
