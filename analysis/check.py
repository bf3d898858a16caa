"""The roofline's check: every timed point with its prediction and its verdict."""

from __future__ import annotations

from collections import Counter

import pandas as pd

from analysis.format import Table, thousands
from analysis.lines import variant_order
from analysis.load import Records, key_of
from analysis.selection import name_variants, records_of
from analysis.verdicts import VERDICTS, Point, verdict
from experiments.data.cards import card_of

PROTOCOL = ["gpu", "timer", "cache"]
SHOWN = ["gpu", "variant", "rows", "cols", "dtype", "timer", "cache", "round"]


def checked(frame: pd.DataFrame, evidence: Records) -> pd.DataFrame:
    """Timed rows that have a roof, with ``predicted_us``, ``ratio``, ``floor_us``, ``verdict``.

    Rows of Triton's interpreter are left out: their time means nothing.
    """
    own = (frame["status"] == "ok") & (frame["backend"] != "interpreter")
    timed = name_variants(frame[own & frame["time_us"].gt(0)])
    timed = timed[timed["roof_gbps"].notna() & timed["model_bytes"].gt(0)]
    if timed.empty:
        return timed.assign(predicted_us=[], ratio=[], floor_us=[], reads_ratio=[], verdict=[])
    floors = timed.groupby([*PROTOCOL, "variant"])["time_us"].transform("min")
    measured = {gpu: evidence.counters_of(str(gpu)) for gpu in timed["gpu"].unique()}
    cards = {gpu: card_of(str(gpu)) for gpu in timed["gpu"].unique()}
    judged = []
    for row, floor in zip(records_of(timed), floors, strict=True):
        point = Point(row, cards[row["gpu"]], floor, measured[row["gpu"]].get(key_of(row)))
        judged.append((point.predicted_us, point.ratio, floor, point.reads_ratio, verdict(point)))
    told = ["predicted_us", "ratio", "floor_us", "reads_ratio", "verdict"]
    timed[told] = pd.DataFrame(judged, index=timed.index, columns=told)
    order = timed["variant"].map(variant_order)
    keys = ["gpu", "timer", "cache", "dtype", "rows", "cols", "_order", "round"]
    return timed.assign(_order=order).sort_values(keys, kind="stable").drop(columns="_order")


def check_table(points: pd.DataFrame) -> Table:
    """One line a point: times, their ratio, and why."""
    lines = [
        [
            row["gpu"],
            row["variant"],
            f"{row['rows']}×{row['cols']}",
            row["dtype"],
            f"{row['time_us']:.1f}",
            f"{row['predicted_us']:.1f}",
            f"{row['ratio']:.3f}",
            "" if pd.isna(row["reads_ratio"]) else f"{row['reads_ratio']:.3f}",
            row["verdict"],
        ]
        for row in points.to_dict("records")
    ]
    heads = ["GPU", "variant", "M×N", "dtype", "time µs", "model bytes / roof µs", "ratio",
             "DRAM reads / model", "verdict"]  # fmt: skip
    return Table("Is the time explained by traffic?", heads, lines)


def summary_table(points: pd.DataFrame) -> Table:
    """Points a variant, by verdict; only verdicts that occur have a column."""
    counts = Counter(zip(points["variant"], points["verdict"], strict=True))
    seen = [v for v in VERDICTS if v in set(points["verdict"])]
    variants = sorted(points["variant"].unique(), key=variant_order)
    lines = []
    for variant in variants:
        each = [counts[variant, name] for name in seen]
        lines.append([variant, *(thousands(n) if n else "" for n in each), thousands(sum(each))])
    return Table("Verdicts: points a variant", ["variant", *seen, "points"], lines)
