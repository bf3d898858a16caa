"""The roofline: each operation's shares of the roof, and which times their traffic explains.

The prediction is the model's bytes at the bandwidth of the roof at the same shape. Where the
operation multiplies matrices or takes many exponentials, it is the longest of that and of the time
that these take at roofs of their own.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from analysis.__main__ import finish
from analysis.figures.lines import ROOF_SHARE, LineFigure, Panel
from analysis.figures.specs import SHARE
from analysis.figures.style import file_name, variant_order
from analysis.format import Table, thousands, write_table
from analysis.load import Inputs, key_of, read_inputs
from analysis.published import OPERATION
from analysis.selection import Query, name_variants, records_of
from analysis.tables.frames import ordered, texts, timed
from experiments.data.files import RowsError
from experiments.data.records import Counters
from experiments.data.rows import ITEM_BYTES

EXPLAINED = 0.10  # traffic explains a time within a tenth of the prediction
# An empty kernel's event time grows by 3.3 µs from one program to 4096 on an H200, so a time this
# near the variant's smallest measures launching, whatever it moves.
LAUNCH_SLACK_US = 4.0
LONGEST_LAUNCH_US = 25.0  # a variant whose smallest time is longer was never seen near its floor
LOW_OCCUPANCY = 50.0  # percent; from here on more warps hardly hide more latency
BUSY_PIPE = 70.0  # percent; above it a pipe sets the pace and not memory
VERDICTS = (
    *("traffic", "arithmetic", "launch", "caches served re-reads", "spills"),
    *("moves more than its model", "occupancy", "unexplained"),
)
COLUMNS = [
    *("operation", "gpu", "variant", "rows", "cols", "dtype", "timer", "cache", "time_us"),
    *("predicted_us", "ratio", "reads_ratio", "verdict"),
]


def verdict(row: Mapping[str, Any], seen: Counters | None = None) -> str:
    """The first reason that holds, of those that can make a time differ in its direction.

    Args:
        row: A timed row with the columns of `checked` but the verdict.
        seen: The record of hardware counters there, if any.
    """
    if abs(row["ratio"] - 1) <= EXPLAINED:
        bound = row["arithmetic_us"] or 0.0
        return "arithmetic" if bound >= row["predicted_us"] else "traffic"
    if row["time_us"] <= min(row["floor_us"], LONGEST_LAUNCH_US) + LAUNCH_SLACK_US:
        return "launch"
    if row["ratio"] < 1:
        again = row["model_bytes"] > (row["compulsory_bytes"] or math.inf) * (1 + EXPLAINED)
        from_dram = row["reads_ratio"] >= 1 - EXPLAINED  # not so where counters were not read
        return "caches served re-reads" if again and not from_dram else "unexplained"
    local = (seen.local_load_bytes or 0) + (seen.local_store_bytes or 0) if seen else 0
    if local > 0 or (row["spills"] or 0) > 0:  # registers that no model counts
        return "spills"
    if row["reads_ratio"] > 1 + EXPLAINED:
        return "moves more than its model"
    if seen and (seen.occupancy_percent or LOW_OCCUPANCY) < LOW_OCCUPANCY:
        return "occupancy"
    if seen and max(seen.pipes_percent.values(), default=0.0) > BUSY_PIPE:
        return "arithmetic"
    return "unexplained"


def checked(inputs: Inputs) -> pd.DataFrame:
    """Timed rows that have a roof, with ``predicted_us``, ``ratio``, ``floor_us``, ``verdict``.

    ``floor_us`` is the variant's smallest time under the protocol, its launch floor.
    ``reads_ratio`` is DRAM's reads over the model's, NaN where no counters were read.
    """
    frame = inputs.main
    rows = frame[timed(frame) & frame["roof_gbps"].notna() & frame["model_bytes"].gt(0)]
    points = name_variants(rows[rows["operation"] != rows["roof"]])
    traffic_us = points["model_bytes"] / points["roof_gbps"] / 1e3
    points["predicted_us"] = np.fmax(traffic_us, points["arithmetic_us"].astype(float))
    points["ratio"] = points["time_us"] / points["predicted_us"]
    alike = ["operation", "gpu", "timer", "cache", "variant"]
    points["floor_us"] = points.groupby(alike)["time_us"].transform("min")
    counters = {(one.gpu, key_of(one.model_dump())): one for one in inputs.records.counters}
    seen = [counters.get((row["gpu"], key_of(row))) for row in records_of(points)]
    points["reads_ratio"] = [
        one.dram_read_bytes / (one.model_reads * ITEM_BYTES[one.dtype])
        if one and one.model_reads
        else math.nan
        for one in seen
    ]
    pairs = zip(records_of(points), seen, strict=True)
    points["verdict"] = [verdict(row, one) for row, one in pairs]
    points = points.sort_values(["dtype", "rows", "cols", "round"], kind="stable")
    return ordered(points, "operation", "gpu", "timer", "cache")


def check_table(points: pd.DataFrame) -> Table:
    """Points per variant by verdict; for machines a line per point with both times."""
    counts = pd.crosstab([points["operation"], points["variant"]], points["verdict"])
    known = [name for name in VERDICTS if name in counts]
    lines = []
    for row in records_of(counts.reset_index()):
        total = sum(row[name] for name in known)
        cells = [thousands(row[name]) if row[name] else "" for name in known]
        by_traffic = f"{row.get('traffic', 0) / total:.0%}"
        lines.append([row["operation"], row["variant"], by_traffic, *cells, thousands(total)])
    lines.sort(key=lambda line: (line[0] != OPERATION, line[0], variant_order(line[1])))
    data = points[COLUMNS].assign(keys=points["key"], recordings=points["recording"])
    heads = ["operation", "variant", "by traffic", *known, "points"]
    return Table("Is the time explained by traffic?", heads, lines, texts("roofline"), data)


def run(options: argparse.Namespace) -> int:
    """Draws each operation's shares, writes the check and prints how much traffic explains."""
    inputs = read_inputs(options.rows, options.out, "roofline", options.ours)
    points = checked(inputs)
    if points.empty:
        needs = "it needs timed rows and rows of their roof, at the same shapes"
        raise RowsError(f"{inputs.rows}: no roofline can be drawn: {needs}")
    made = []
    for name in points["operation"].unique():
        query, stem = Query(4096, "float32", operation=name), file_name("roofline", name)
        panels = (Panel(ROOF_SHARE, SHARE),)
        for page in LineFigure(stem, f"Share of the roof: {name}", query, panels).pages(inputs):
            made += page.files(inputs.out)
    table = check_table(points)
    finish([*made, *write_table(inputs.out, "roofline", table)])
    print(f"\n{table.plain()}")
    share_of = (points["verdict"] == "traffic").mean()
    print(f"\n{share_of:.0%} of {len(points):,} points are explained by traffic within 10 %.")
    return 0
