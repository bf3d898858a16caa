"""Is the time explained by traffic? Every timed point's prediction, and the reason where it is not.

A reason is one small rule, its threshold named. The prediction is the model's bytes at the
bandwidth of the roof at the same shape; of what multiplies matrices or takes many exponentials the
longest of that and of what these take at their own roofs there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from analysis.figures.style import variant_order
from analysis.format import Table, number, thousands
from analysis.load import Records, key_of, once_per_frame
from analysis.selection import name_variants, records_of
from experiments.data.cards import Card, card_of
from experiments.data.records import Counters
from experiments.data.rows import ITEM_BYTES
from experiments.data.statistics import unconverged

EXPLAINED = 0.10  # traffic explains a time within a tenth of bytes / roof: the question asked
# An empty kernel's event time grows by 3.3 µs from one program to 4096 on an H200, so a time this
# near the variant's smallest measures launching, whatever it moves.
LAUNCH_SLACK_US = 4.0
LONGEST_LAUNCH_US = 25.0  # a variant whose smallest time is longer was never seen near its floor
# From half of an SM's warps on, more of them hardly hide more latency (CUDA Best Practices Guide).
LOW_OCCUPANCY = 0.50
BUSY_PIPE_PERCENT = 70.0  # above it a pipe, not memory, sets the pace; ncu's own rule says 80
MOVED = 0.10  # traffic that differs by less could not explain a time that differs by more

VERDICTS = (
    "traffic",
    "launch",
    "spills",
    "re-reads served by L2",
    "moves more than its model",
    "occupancy",
    "compute",
    "unexplained",
)


# CUDA C++ Programming Guide, technical specifications per compute capability, 8.0 to 9.0.
REGISTERS_PER_SM = 65536
WARPS_PER_SM = 64  # of 8.0 and 9.0; cards of 8.6 and 8.9 hold 48, and there it is an upper bound
PROGRAMS_PER_SM = 32  # likewise
WARP = 32
RESERVED_SHARED = 1024  # bytes the driver takes of each program's shared memory
PROTOCOL = ["gpu", "timer", "cache"]


def verdict(row: Mapping[str, Any], card: Card, seen: Counters | None = None) -> str:
    """The first reason that holds, of those that can make a time differ in its direction.

    Args:
        row: A timed row with the columns of `checked` but the verdict.
        card: Whose row it is.
        seen: What hardware counters saw there, where they did.
    """
    if abs(row["ratio"] - 1) <= EXPLAINED:
        arithmetic = number(row, "arithmetic_us")
        by_it = arithmetic is not None and arithmetic >= row["predicted_us"]
        return "compute" if by_it else "traffic"
    if row["time_us"] <= min(row["floor_us"], LONGEST_LAUNCH_US) + LAUNCH_SLACK_US:
        return "launch"
    if row["ratio"] < 1:
        return "re-reads served by L2" if _served_by_l2(row, card) else "unexplained"
    local = (seen.local_load_bytes or 0) + (seen.local_store_bytes or 0) if seen else 0
    if local > 0 or (number(row, "spills") or 0) > 0:  # registers that no model counts
        return "spills"
    if row["reads_ratio"] > 1 + MOVED:
        return "moves more than its model"
    share = occupancy(row, card)
    if seen and seen.occupancy_percent is not None:  # achieved, rather than from the launch
        share = seen.occupancy_percent / 100
    if share is not None and share < LOW_OCCUPANCY:
        return "occupancy"
    if seen and max(seen.pipes_percent.values(), default=0.0) > BUSY_PIPE_PERCENT:
        return "compute"
    return "unexplained"


def _served_by_l2(row: Mapping[str, Any], card: Card) -> bool:
    """Re-reads that DRAM never saw: by counters, else because what is re-read fits L2.

    What is re-read is the matrix, or the rows in flight where each program re-reads its own row.
    A variant that reads everything once has no re-reads.
    """
    moved = float(row["compulsory_bytes"])
    if float(row["model_bytes"]) <= moved * (1 + EXPLAINED):
        return False
    if not math.isnan(row["reads_ratio"]):
        return bool(row["reads_ratio"] < 1 - MOVED)
    flying = rows_in_flight(row, card)
    again = moved if flying is None else min(moved, flying * moved / 2 / row["rows"])
    return card.l2_bytes is not None and again <= card.l2_bytes


def rows_in_flight(row: Mapping[str, Any], card: Card) -> int | None:
    """Rows under way at once where a program works on one.

    An SM holds programs up to its warps, registers and shared memory, whichever ends first. None
    where the launch is unknown, as that of a library's kernel is.
    """
    warps, programs = number(row, "warps"), number(row, "programs")
    sms = card.facts.get("sms")
    if not warps or not programs or not sms:
        return None
    limits = [WARPS_PER_SM // int(warps), PROGRAMS_PER_SM]
    if registers := number(row, "registers"):
        limits.append(int(REGISTERS_PER_SM // (registers * WARP * warps)))
    shared, room = number(row, "shared_bytes"), card.facts.get("shared_kib_per_sm")
    if shared is not None and room:
        limits.append(int(room * 1024 // (shared + RESERVED_SHARED)))
    return int(min(programs, max(1, min(limits)) * sms))


def occupancy(row: Mapping[str, Any], card: Card) -> float | None:
    """Resident warps of the first wave as a share of what the whole card could hold, 0 to 1."""
    flying = rows_in_flight(row, card)
    if flying is None:
        return None
    return flying * float(row["warps"]) / (card.facts["sms"] * WARPS_PER_SM)


@once_per_frame
def checked(frame: pd.DataFrame, records: Records) -> pd.DataFrame:
    """Timed rows that have a roof, with ``predicted_us``, ``ratio``, ``floor_us``, ``verdict``.

    ``floor_us`` is the smallest time of the variant under the protocol, its launch floor.
    ``reads_ratio`` is DRAM's reads over the model's, NaN where no counters were taken. Rows of
    Triton's interpreter are left out: their time means nothing.
    """
    own = (frame["status"] == "ok") & (frame["backend"] != "interpreter")
    timed = name_variants(frame[own & frame["time_us"].gt(0)])
    timed = timed[timed["roof_gbps"].notna() & timed["model_bytes"].gt(0)]
    traffic_us = timed["model_bytes"] / timed["roof_gbps"] / 1e3
    timed["predicted_us"] = traffic_us.combine(timed["arithmetic_us"].astype(float), np.fmax)
    timed["ratio"] = timed["time_us"] / timed["predicted_us"]
    timed["floor_us"] = timed.groupby(["operation", *PROTOCOL, "variant"])["time_us"].transform(
        "min"
    )
    measured = {gpu: records.counters_of(str(gpu)) for gpu in timed["gpu"].unique()}
    cards = {gpu: card_of(str(gpu)) for gpu in timed["gpu"].unique()}
    judged = []
    for row in records_of(timed):
        seen = measured[row["gpu"]].get(key_of(row))
        row["reads_ratio"] = math.nan
        if seen and seen.model_reads:
            row["reads_ratio"] = seen.dram_read_bytes / (seen.model_reads * ITEM_BYTES[seen.dtype])
        judged.append((row["reads_ratio"], verdict(row, cards[row["gpu"]], seen)))
    found = ["reads_ratio", "verdict"]
    timed[found] = pd.DataFrame(judged, index=timed.index, columns=found)
    keys = [*PROTOCOL, "dtype", "rows", "cols", "_order", "round"]
    timed["_order"] = timed["variant"].map(variant_order)
    return timed.sort_values(keys, kind="stable").drop(columns="_order")


def predicted_by(points: pd.DataFrame) -> str:
    """What the prediction is, in a few words."""
    alone = points["arithmetic_us"].isna().all()
    return "model bytes / roof" if alone else "longest of model bytes, flops, exp / roof"


def check_table(points: pd.DataFrame) -> Table:
    """One line per point: times, their ratio, and why."""
    lines = [
        [row["gpu"], row["variant"], f"{row['rows']}×{row['cols']}", row["dtype"],
         f"{row['time_us']:.1f}", f"{row['predicted_us']:.1f}", f"{row['ratio']:.3f}",
         "" if pd.isna(row["reads_ratio"]) else f"{row['reads_ratio']:.3f}", row["verdict"],
         unconverged(row["stop_reason"])]
        for row in records_of(points)
    ]  # fmt: skip
    heads = ["GPU", "variant", "M×N", "dtype", "time µs", predicted_by(points) + " µs", "ratio",
             "DRAM reads / model", "verdict", "sampling"]  # fmt: skip
    return Table("Is the time explained by traffic?", heads, lines)


def summary_table(points: pd.DataFrame) -> Table:
    """Points per variant, by verdict; only verdicts that occur have a column."""
    counts = pd.crosstab(points["variant"], points["verdict"])
    seen = [verdict for verdict in VERDICTS if verdict in counts]
    lines = [
        [variant, *(thousands(n) if n else "" for n in each), thousands(sum(each))]
        for variant in sorted(counts.index, key=variant_order)
        for each in [counts.loc[variant, seen].tolist()]
    ]
    return Table("Verdicts: points per variant", ["variant", *seen, "points"], lines)
