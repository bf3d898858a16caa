"""Why a point takes the time it takes: one small rule for each reason, its threshold named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from analysis.format import number
from analysis.residency import occupancy, rows_in_flight
from experiments.data.cards import Card
from experiments.data.records import Counters
from experiments.data.rows import ITEM_BYTES

EXPLAINED = 0.10  # traffic explains a time within a tenth of bytes / roof: the question asked
# An empty kernel's event time grows by 3.3 µs from one program to 4096 on an H200, so a time this
# near the variant's smallest tells of launching, whatever it moves.
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
class Point:
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
        """Bytes read at DRAM over the model's, where counters tell."""
        if self.counters is None or not self.counters.model_reads:
            return None
        item = ITEM_BYTES[self.counters.dtype]
        return float(self.counters.dram_read_bytes) / (self.counters.model_reads * item)


def verdict(point: Point) -> str:
    """The first reason that holds, of those that can make a time differ in its direction."""
    if explained(point):
        return "traffic"
    reasons = FASTER if point.ratio < 1 else SLOWER
    return next((name for name, holds in reasons if holds(point)), "unexplained")


def explained(point: Point) -> bool:
    """The time is within a tenth of what the model's bytes take at the roof."""
    return abs(point.ratio - 1) <= EXPLAINED


def launch(point: Point) -> bool:
    """Near the variant's launch floor, traffic has no say yet."""
    return point.time_us <= point.floor_us + LAUNCH_SLACK_US


def spills(point: Point) -> bool:
    """Registers went to local memory: traffic that no model counts."""
    if (number(point.row, "spills") or 0) > 0:
        return True
    seen = point.counters
    return seen is not None and (seen.local_load_bytes or 0) + (seen.local_store_bytes or 0) > 0


def served_by_l2(point: Point) -> bool:
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


def moves_more(point: Point) -> bool:
    """Counters saw more reads at DRAM than the model has."""
    return point.reads_ratio is not None and point.reads_ratio > 1 + MOVED


def few_warps(point: Point) -> bool:
    """Too few warps on the SMs to keep memory busy: achieved, else from the launch."""
    if point.counters is not None and point.counters.occupancy_percent is not None:
        return point.counters.occupancy_percent < 100 * LOW_OCCUPANCY
    share = occupancy(point.row, point.card)
    return share is not None and share < LOW_OCCUPANCY


def compute(point: Point) -> bool:
    """An arithmetic pipe is busy most of the time."""
    pipes = point.counters.pipes_percent if point.counters else {}
    return max(pipes.values(), default=0.0) > BUSY_PIPE_PERCENT


Rule = tuple[str, Callable[[Point], bool]]
FASTER: tuple[Rule, ...] = (("launch", launch), ("re-reads served by L2", served_by_l2))
SLOWER: tuple[Rule, ...] = (
    ("launch", launch),
    ("spills", spills),
    ("moves more than its model", moves_more),
    ("occupancy", few_warps),
    ("compute", compute),
)
