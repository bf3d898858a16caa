"""What each variant's traffic would take at the datasheet bandwidth of every card described."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from analysis.figures.style import variant_order
from analysis.format import Table
from analysis.selection import name_variants
from experiments.data.cards import GPU_FILES, Card, known_cards

# The sources' own points: A and D's width, A's ends, B's long row, C's worked example.
SHAPES = (
    (4096, 1024, "float32"),
    (4096, 16384, "float32"),
    (4096, 262144, "float32"),
    (8192, 32000, "float16"),
)
FALLBACK = 2  # shapes shown where rows hold none of these: their largest
NOTES = (
    "Times in µs: the model's bytes over the datasheet's memory bandwidth. That is a lower bound "
    "at DRAM: no card reaches its datasheet, and launches, spills and on-chip limits come on top.",
    "A time says nothing of whether the variant fits the card. Where the matrix fits a card's L2, "
    "re-reads may beat it.",
)


def price_table(frame: pd.DataFrame, folder: Path = GPU_FILES) -> Table:
    """Predicted µs, variant and shape by card; only shapes that the rows have a model for."""
    cards = known_cards(folder)
    priced = name_variants(frame[frame["model_bytes"].gt(0)])
    shapes = [s for s in SHAPES if not _at(priced, s).empty] or _largest(priced)
    lines = []
    for shape in shapes:
        sizes = _at(priced, shape).groupby("variant")["model_bytes"].max()
        for variant in sorted(sizes.index, key=variant_order):
            times = [f"{time_us(sizes[variant], card):,.1f}" for card in cards]
            lines.append([variant, f"{shape[0]}×{shape[1]}", shape[2], *times])
    heads = ["variant", "M×N", "dtype", *(f"{c.name}, {c.peak_gbps:,.0f} GB/s" for c in cards)]
    return Table("The models priced for other cards", heads, lines, NOTES)


def time_us(size_bytes: float, card: Card) -> float:
    """Bytes at the card's datasheet bandwidth, µs."""
    assert card.peak_gbps is not None
    return float(size_bytes) / card.peak_gbps / 1e3


def _at(frame: pd.DataFrame, shape: tuple[int, int, str]) -> pd.DataFrame:
    rows, cols, dtype = shape
    return frame[(frame["rows"] == rows) & (frame["cols"] == cols) & (frame["dtype"] == dtype)]


def _largest(frame: pd.DataFrame) -> list[tuple[int, int, str]]:
    places = {(int(m), int(n), str(d)) for m, n, d in frame[["rows", "cols", "dtype"]].values}
    return sorted(places, key=lambda p: (p[0] * p[1], p))[-FALLBACK:]
