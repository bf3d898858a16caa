"""Is the time explained by traffic? Every timed point's prediction, and the reason where it is not.

A reason is one small rule, its threshold named. The prediction is the model's bytes at the
bandwidth of the roof at the same shape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.figures.style import variant_order
from analysis.format import Table, number, thousands
from analysis.load import Records, key_of
from analysis.roofline.occupancy import occupancy, rows_in_flight
from analysis.selection import name_variants, records_of
from experiments.data.cards import Card, card_of
from experiments.data.records import Counters
from experiments.data.rows import ITEM_BYTES

EXPLAINED = 0.10  # traffic explains a time within a tenth of bytes / roof: the question asked
# An empty kernel's event time grows by 3.3 µs from one program to 4096 on an H200, so a time this
# near the variant's smallest measures launching, whatever it moves.
LAUNCH_SLACK_US = 4.0
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


@dataclass(frozen=True)
class TimedPoint:
    """One timed point and what is known of it.

    Attributes:
        row: A row with its derived columns.
        card: Whose row it is.
        floor_us: The smallest time of this variant under this protocol, its launch floor.
        counters: What hardware counters saw there, where they did.
    """

    row: Mapping[str, Any]
    card: Card
    floor_us: float
    counters: Counters | None = None

    @property
    def time_us(self) -> float:
        """The measured median."""
        return float(self.row["time_us"])

    @property
    def predicted_us(self) -> float:
        """The model's bytes at the roof's bandwidth of this shape."""
        return float(self.row["model_bytes"]) / float(self.row["roof_gbps"]) / 1e3

    @property
    def ratio(self) -> float:
        """Measured time over predicted time."""
        return self.time_us / self.predicted_us

    @property
    def reads_ratio(self) -> float | None:
        """Bytes read at DRAM over the model's, where counters show them."""
        if self.counters is None or not self.counters.model_reads:
            return None
        item = ITEM_BYTES[self.counters.dtype]
        return float(self.counters.dram_read_bytes) / (self.counters.model_reads * item)


def verdict(point: TimedPoint) -> str:
    """The first reason that holds, of those that can make a time differ in its direction."""
    if explained(point):
        return "traffic"
    reasons = FASTER if point.ratio < 1 else SLOWER
    return next((name for name, holds in reasons if holds(point)), "unexplained")


def explained(point: TimedPoint) -> bool:
    """The time is within a tenth of what the model's bytes take at the roof."""
    return abs(point.ratio - 1) <= EXPLAINED


def launch(point: TimedPoint) -> bool:
    """Near the variant's launch floor, traffic has no say yet."""
    return point.time_us <= point.floor_us + LAUNCH_SLACK_US


def spills(point: TimedPoint) -> bool:
    """Registers went to local memory: traffic that no model counts."""
    if (number(point.row, "spills") or 0) > 0:
        return True
    seen = point.counters
    return seen is not None and (seen.local_load_bytes or 0) + (seen.local_store_bytes or 0) > 0


def served_by_l2(point: TimedPoint) -> bool:
    """Re-reads that DRAM never saw: by counters, else because what is re-read fits L2.

    What is re-read is the matrix, or the rows in flight where each program re-reads its own row.
    A variant that reads everything once has no re-reads.
    """
    row, l2 = point.row, point.card.l2_bytes
    moved = float(row["compulsory_bytes"])
    if float(row["model_bytes"]) <= moved * (1 + EXPLAINED):
        return False
    if point.reads_ratio is not None:
        return point.reads_ratio < 1 - MOVED
    if l2 is None:
        return False
    flying = rows_in_flight(row, point.card)
    return moved <= l2 or (flying is not None and flying * moved / 2 / row["rows"] <= l2)


def moves_more(point: TimedPoint) -> bool:
    """Counters saw more reads at DRAM than the model has."""
    return point.reads_ratio is not None and point.reads_ratio > 1 + MOVED


def few_warps(point: TimedPoint) -> bool:
    """Too few warps on the SMs to keep memory busy: achieved, else from the launch."""
    if point.counters is not None and point.counters.occupancy_percent is not None:
        return point.counters.occupancy_percent < 100 * LOW_OCCUPANCY
    share = occupancy(point.row, point.card)
    return share is not None and share < LOW_OCCUPANCY


def compute(point: TimedPoint) -> bool:
    """An arithmetic pipe is busy most of the time."""
    pipes = point.counters.pipes_percent if point.counters else {}
    return max(pipes.values(), default=0.0) > BUSY_PIPE_PERCENT


Rule = tuple[str, Callable[[TimedPoint], bool]]
FASTER: tuple[Rule, ...] = (("launch", launch), ("re-reads served by L2", served_by_l2))
SLOWER: tuple[Rule, ...] = (
    ("launch", launch),
    ("spills", spills),
    ("moves more than its model", moves_more),
    ("occupancy", few_warps),
    ("compute", compute),
)
PROTOCOL = ["gpu", "timer", "cache"]


def checked(frame: pd.DataFrame, records: Records) -> pd.DataFrame:
    """Timed rows that have a roof, with ``predicted_us``, ``ratio``, ``floor_us``, ``verdict``.

    ``reads_ratio`` is DRAM's reads over the model's, NaN where no counters were taken. Rows of
    Triton's interpreter are left out: their time means nothing.
    """
    own = (frame["status"] == "ok") & (frame["backend"] != "interpreter")
    timed = name_variants(frame[own & frame["time_us"].gt(0)])
    timed = timed[timed["roof_gbps"].notna() & timed["model_bytes"].gt(0)]
    derived = ["predicted_us", "ratio", "floor_us", "reads_ratio", "verdict"]
    floors = timed.groupby([*PROTOCOL, "variant"])["time_us"].transform("min")
    measured = {gpu: records.counters_of(str(gpu)) for gpu in timed["gpu"].unique()}
    cards = {gpu: card_of(str(gpu)) for gpu in timed["gpu"].unique()}
    judged = []
    for row, floor in zip(records_of(timed), floors, strict=True):
        point = TimedPoint(row, cards[row["gpu"]], floor, measured[row["gpu"]].get(key_of(row)))
        judged.append((point.predicted_us, point.ratio, floor, point.reads_ratio, verdict(point)))
    timed[derived] = pd.DataFrame(judged, index=timed.index, columns=derived)
    order = timed["variant"].map(variant_order)
    keys = ["gpu", "timer", "cache", "dtype", "rows", "cols", "_order", "round"]
    return timed.assign(_order=order).sort_values(keys, kind="stable").drop(columns="_order")


def check_table(points: pd.DataFrame) -> Table:
    """One line per point: times, their ratio, and why."""
    lines = [
        [row["gpu"], row["variant"], f"{row['rows']}×{row['cols']}", row["dtype"],
         f"{row['time_us']:.1f}", f"{row['predicted_us']:.1f}", f"{row['ratio']:.3f}",
         "" if pd.isna(row["reads_ratio"]) else f"{row['reads_ratio']:.3f}", row["verdict"]]
        for row in records_of(points)
    ]  # fmt: skip
    heads = ["GPU", "variant", "M×N", "dtype", "time µs", "model bytes / roof µs", "ratio",
             "DRAM reads / model", "verdict"]  # fmt: skip
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
