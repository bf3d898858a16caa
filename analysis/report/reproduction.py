"""Where the rows come from, how they were measured, and how to measure them again.

C-prof and D-test stand here too: one launch for a profiler, and answers at an irregular shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pandas as pd

from analysis.figures.style import CACHES, variant_order
from analysis.format import Table, thousands
from analysis.load import rows_hash
from analysis.report.facts import time_text
from analysis.selection import name_variants, records_of, timer_label

PRESETS = Path(__file__).resolve().parents[2] / "conf" / "experiment"
NAMES = {
    "torch": "PyTorch", "triton": "Triton", "cuda": "CUDA", "driver": "NVIDIA driver",
    "python": "Python", "commit": "commit of this project", "dirty": "edited since that commit",
}  # fmt: skip
COMMIT = 12  # letters of a commit that name it
IRREGULAR = (1823, 781)  # D-test; the shape of Triton's tutorial 02
WORKED = (8192, 32000, "float16")  # C4, the point that C profiles
PROTOCOL_NOTE = (
    "The published time is the median of all samples with a rank-based 95 % interval. Answers "
    "are checked against float64 before and after timing; the roof is the fastest copy of the "
    "same shape and dtype, measured in the same sweep on the same card."
)
ERROR_NOTE = (
    "ok: every element and row sum lies within the dtype's tolerance of the float64 answer, "
    "before timing and after. Relative error is ‖y − ref‖ / ‖ref‖."
)


def environment_table(frame: pd.DataFrame) -> Table:
    """What rows record of versions and commits, a column per GPU, and a hash of the rows."""
    gpus = {str(gpu): rows for gpu, rows in frame.groupby("gpu")}
    stated = {gpu: _stated(rows) for gpu, rows in gpus.items()}
    facts = sorted({name for mine in stated.values() for name in mine})
    order = [n for n in NAMES if n in facts] + [n for n in facts if n not in NAMES]
    lines = [[NAMES.get(n) or n, *(mine.get(n, "not recorded") for mine in stated.values())]
             for n in order]  # fmt: skip
    lines.append(["rows", *(thousands(len(rows)) for rows in gpus.values())])
    lines.append(["hash of the rows", *map(rows_hash, gpus.values())])
    return Table("Environment", ["", *gpus], lines)


def _stated(rows: pd.DataFrame) -> dict[str, str]:
    """Every fact that some row states, with its values; what a fact consists of is facts too."""
    found: dict[str, set[str]] = {}
    environments = {id(seen): seen for seen in rows["environment"]}  # rows share a few
    for seen in environments.values():
        for name, value in _flat(seen):
            found.setdefault(name, set()).add(_plain(name, value))
    return {name: ", ".join(sorted(values)) for name, values in found.items()}


def _flat(facts: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in facts.items():
        whole = f"{before}{name}"
        if isinstance(value, Mapping):
            yield from _flat(value, f"{whole}: ")
        elif value is not None:
            yield whole, value


def _plain(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return " ".join(_plain(name, one) for one in value)
    return str(value)[:COMMIT] if name == "commit" else str(value)


def protocol_table(frame: pd.DataFrame) -> Table:
    """How points were timed: a line per GPU, timer and cache."""
    timed = frame[(frame["status"] == "ok") & frame["time_us"].notna()]
    lines: list[list[str]] = []
    for place, mine in timed.groupby(["gpu", "timer", "cache"]):
        gpu, timer, cache = cast(tuple[str, str, str], place)
        samples = mine["samples_us"].map(lambda taken: len(taken) if taken else 0)
        stops = mine["stop_reason"].value_counts().sort_index()
        lines.append(
            [
                gpu,
                f"{timer_label(timer)}, {CACHES[cache]}",
                f"{samples.min()} to {samples.max()}, median {samples.median():.0f}",
                ", ".join(f"{reason} {count}" for reason, count in stops.items()),
                str(mine["round"].nunique()),
                thousands(len(mine)),
            ]
        )
    heads = ["GPU", "timer and cache", "samples per point", "stopped by", "rounds", "timed points"]
    lacking = [] if lines else ["No row has a time, so nothing here describes speed."]
    return Table("Protocol", heads, lines, [PROTOCOL_NOTE, *lacking])


def checkouts(frame: pd.DataFrame) -> dict[str, list[str]]:
    """The ``commits`` that measured, and those ``presets`` of today that did."""
    commits = {str(seen["commit"]) for seen in frame["environment"] if seen.get("commit")}
    names = {sweep.rpartition("-")[0] or sweep for sweep in frame["sweep"]}
    presets = [name for name in sorted(names) if (PRESETS / f"{name}.yaml").is_file()]
    return {"commits": sorted(commits), "presets": presets}


def worked_table(frame: pd.DataFrame) -> Table | None:
    """Times at C's worked point, a line per variant; None where no row has one."""
    found = frame[(frame["dtype"] == WORKED[2]) & (frame["backend"] != "interpreter")]
    found = found[(found["status"] == "ok") & found["time_us"].notna()]
    lines = [
        [row["gpu"], row["sweep"], row["variant"], time_text(row),
         f"{row['effective_gbps']:,.0f}", str(len(row["samples_us"] or []))]
        for row in _at(found, *WORKED[:2])
    ]  # fmt: skip
    heads = ["GPU", "sweep", "variant", "time (95 % interval)", "GB/s", "samples"]
    title = "Benchmark mode at {}×{} {}".format(*WORKED)
    return Table(title, heads, lines) if lines else None


def irregular_table(frame: pd.DataFrame) -> Table | None:
    """Outcome and error at 1823×781, a line per variant and dtype; None where no row has it."""
    lines = []
    for row in _at(frame, *IRREGULAR):
        if row["operation"] != row["roof"]:
            place = [row[name] for name in ("gpu", "variant", "dtype", "status")]
            errors = [row["max_abs_error"], row["relative_error"]]
            texts = ["" if pd.isna(error) else f"{error:.1e}" for error in errors]
            time = "" if pd.isna(row["time_us"]) else time_text(row)
            lines.append([*place, *texts, time])
    heads = ["GPU", "variant", "dtype", "status", "max. absolute error", "relative error",
             "time (95 % interval)"]  # fmt: skip
    title = "The answer at {}×{}".format(*IRREGULAR)
    return Table(title, heads, lines, [ERROR_NOTE]) if lines else None


def _at(frame: pd.DataFrame, rows: int, cols: int) -> list[dict[str, Any]]:
    found = name_variants(frame[(frame["rows"] == rows) & (frame["cols"] == cols)])
    order = found["variant"].map(variant_order)
    keys = ["gpu", "sweep", "dtype", "_order", "round"]
    return records_of(found.assign(_order=order).sort_values(keys, kind="stable"))
