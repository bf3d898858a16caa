"""The main results: time, bandwidth and share of the roof, a table for each GPU and dtype."""

from __future__ import annotations

from typing import Any, cast

import pandas as pd

from analysis.figure import slug
from analysis.format import Table
from analysis.lines import variant_order
from analysis.load import Inputs
from analysis.selection import PROTOCOLS, middle_visits, name_variants, records_of
from analysis.tables.aggregates import aggregates
from analysis.tables.named import NamedTable
from analysis.tables.outcomes import Legend, Shape, outcome_lines
from analysis.tables.shapes import key_shapes
from analysis.tables.values import values_table
from experiments.data.cards import card_of

NEEDS = "main needs rows of softmax with a time"
NOTES = (
    "Time: the median, its 95 % interval below it. GB/s: the bytes any softmax must move (2MN) "
    "over the time. Of roof: against the fastest copy of the same shape, protocol and sweep. "
    "Bold: the fastest.",
)
SHARED = (
    "Over several shapes: those at which every variant has a time and none is above the roof; the "
    "ratio is their geometric mean, an interval what the ends of all intervals allow."
)
ABOVE = "! above the roof by more than its interval: L2 served it, or the model is wrong; no win."


def main_tables(material: Inputs) -> list[NamedTable] | str:
    """A table for each GPU and dtype whose rows have a time; or what is missing."""
    frame = material.frame
    rows = frame[(frame["backend"] != "interpreter") & (frame["rows"] > 0) & (frame["cols"] > 0)]
    # of a million rows each copy counts: a few columns will do
    timed = rows.loc[_timed(rows) & (rows["operation"] == "softmax"), ["gpu", "dtype"]]
    made = []
    for place, _ in timed.groupby(["gpu", "dtype"], sort=True):
        gpu, dtype = cast(tuple[str, str], place)
        mine = rows[(rows["gpu"] == gpu) & (rows["dtype"] == dtype)]
        made += [_table(mine, timed, gpu, dtype)]
    return made or NEEDS


def _table(rows: pd.DataFrame, timed: pd.DataFrame, gpu: str, dtype: str) -> NamedTable:
    timer, cache = _protocol(rows.loc[rows.index.isin(timed.index), ["timer", "cache"]])
    alike = (rows["timer"] == timer) & (rows["cache"] == cache)
    rows = name_variants(rows[alike | ~_timed(rows)])
    shapes = key_shapes(rows[rows["operation"] == "softmax"])
    points = {shape: _points(rows, shape) for shape in shapes}
    softmax = rows[rows["operation"] == "softmax"]["variant"]
    present = {variant for told in points.values() for variant in told}
    variants = sorted(present & set(softmax), key=variant_order)
    copies = sorted(present - set(variants), key=variant_order)
    legend = Legend()
    lines = [
        line
        for shape in shapes
        for line in outcome_lines(shape, points[shape], [*variants, *copies], variants, legend)
    ]
    over_all = aggregates(points, [*variants, *copies])
    flagged = any(row["above_roof"] for told in points.values() for row in told.values())
    heads = ["M×N", "", *variants, *copies]
    title = f"Main results: {card_of(gpu).name}, {dtype}, {cache} cache, {timer} timer"
    notes = [*NOTES, *[SHARED] * bool(over_all), *[ABOVE] * flagged, *legend.notes()]
    stem = f"main-{slug(gpu)}-{dtype}"
    return NamedTable(
        stem, Table(title, heads, [*lines, *over_all], notes), values_table(title, points)
    )


def _timed(rows: pd.DataFrame) -> pd.Series:
    return (rows["status"] == "ok") & rows["time_us"].notna()


def _protocol(timed: pd.DataFrame) -> tuple[str, str]:
    """Of the protocols the rows have, the first that figures draw."""
    found = set(zip(timed["timer"], timed["cache"], strict=True))
    return min(found, key=lambda p: (PROTOCOLS.index(p) if p in PROTOCOLS else 9, str(p)))


def _points(rows: pd.DataFrame, shape: Shape) -> dict[str, dict[str, Any]]:
    here = rows[(rows["rows"] == shape[0]) & (rows["cols"] == shape[1])]
    return {row["variant"]: row for row in records_of(middle_visits(here, "cols"))}
