"""The roofline: each operation's shares of the roof, and which times their traffic explains.

The prediction is the time of the model's bytes at the roof's bandwidth at the same shape or, if
longer, that of the matrix products or exponentials at their own roofs.
"""

import argparse

import numpy as np
import pandas as pd

from analysis.__main__ import finish
from analysis.figures.lines import ROOF_SHARE, LineFigure
from analysis.figures.style import Page, file_name, ordered
from analysis.format import Table, table, texts, write_table
from analysis.load import Inputs, read_inputs
from analysis.published import OPERATION
from analysis.selection import Query, name_variants, timed
from experiments.data.cards import datasheet_of
from experiments.data.files import RowsError

EXPLAINED = 0.10  # traffic explains a time within a tenth of the prediction
COLUMNS = [
    *("operation", "gpu", "variant", "rows", "cols", "dtype", "timer", "cache", "time_us"),
    *("predicted_us", "ratio"),
]


def checked(inputs: Inputs) -> pd.DataFrame:
    """Timed rows that have a roof, with ``predicted_us`` and ``ratio``: time over prediction."""
    frame = inputs.main
    rows = frame[timed(frame) & frame["roof_gbps"].notna() & frame["model_bytes"].gt(0)]
    points = name_variants(rows[rows["operation"] != rows["roof"]])
    traffic_us = points["model_bytes"] / points["roof_gbps"] / 1e3
    points["predicted_us"] = np.fmax(traffic_us, points["arithmetic_us"].astype(float))
    points["ratio"] = points["time_us"] / points["predicted_us"]
    near = (points["ratio"] - 1).abs() <= EXPLAINED
    points["explained"], points["other"] = near, points["operation"] != OPERATION
    points["faster"] = ~near & points["ratio"].lt(1)
    points["slower"] = ~near & points["ratio"].gt(1)
    points = points.sort_values(["dtype", "rows", "cols", "round"], kind="stable")
    return ordered(points, "gpu", "other", "operation")


def check_table(points: pd.DataFrame) -> Table:
    """How many times of each variant are as predicted; the CSV has a line per point."""
    cards = points["gpu"].map(lambda gpu: datasheet_of(str(gpu)).name).rename("card")
    groups = points.groupby([cards, "operation", "variant"], sort=False)
    shown = groups[["explained", "faster", "slower"]].sum()
    shown.insert(0, "points", groups.size())
    shown["time / predicted"] = groups["ratio"].median().map("{:.2f}".format)
    data = points[COLUMNS].assign(keys=points["key"], recordings=points["recording"])
    title = "Is the time explained by traffic?"
    return table(title, shown.reset_index(), texts("roofline"), data)


def run(options: argparse.Namespace) -> int:
    """Draws each operation's shares, writes the check and prints how much traffic explains."""
    inputs = read_inputs(options.rows, options.out, "roofline")
    points = checked(inputs)
    if points.empty:
        needs = "it needs timed rows and rows of their roof, at the same shapes"
        raise RowsError(f"{inputs.rows}: no roofline can be drawn: {needs}")
    found, pages = check_table(points), list[Page]()
    for name in points["operation"].unique():
        query, stem = Query(4096, "float32", operation=name), file_name("roofline", name)
        pages += LineFigure(stem, f"Share of the roof: {name}", query, ROOF_SHARE).pages(inputs)
    finish(path for page in pages for path in page.files(inputs.out))
    finish(write_table(inputs.out, "roofline", found))
    print(f"\n{found.plain()}\n")
    share = f"{points['explained'].mean():.0%} of {len(points):,} points"
    print(f"{share} are explained by traffic within 10 %.")
    return 0
