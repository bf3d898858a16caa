"""Whose answers are always the same bits: at each call, and for a row in any M."""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.figures.style import slug, variant_order
from analysis.format import NamedTable, Table
from analysis.load import Inputs
from analysis.selection import name_variants
from experiments.data.cards import card_of

QUESTIONS = {"deterministic": "the same at each call", "batch_invariant": "the same in any M"}
MOST = 4  # points that are named where some differ
NEEDS = "rows that were asked for the same bits (determinism=true)"
NOTES = (
    "The same at each call: six calls on the same inputs give the same bits. The same in any M: "
    "the first row, the last eight and the middle half, each given alone, have the bits that they "
    "have among all rows; a kernel whose calls differ has none of that.",
    "A dash: not to be judged, with one row alone.",
)


def determinism(inputs: Inputs) -> list[NamedTable]:
    """A table for each GPU, one line per variant: yes, no, or where not."""
    rows = inputs.frame[inputs.frame["deterministic"].notna()]
    tables = []
    for gpu, mine in name_variants(rows).groupby("gpu"):
        lines = []
        order = mine.assign(order=mine["variant"].map(variant_order)).sort_values("order")
        for (operation, variant), own in order.groupby(["operation", "variant"], sort=False):
            points = own.groupby(["rows", "cols", "dtype"], sort=True)
            answers = [_answer(points[question].agg(_worst)) for question in QUESTIONS]
            lines.append([str(operation), str(variant), *answers, str(points.ngroups)])
        title = f"The same bits: {card_of(str(gpu)).name}"
        heads = ["operation", "variant", *QUESTIONS.values(), "points"]
        lines.sort(key=lambda line: line[0].count("_"))  # the sources' own operation first
        tables.append(
            NamedTable(f"determinism-{slug(str(gpu))}", Table(title, heads, lines, NOTES))
        )
    return tables


def _worst(answers: pd.Series) -> bool | None:
    """Of several visits: no, if one says so."""
    known = [bool(answer) for answer in answers if pd.notna(answer)]
    return all(known) if known else None


def _answer(points: pd.Series) -> str:
    """One cell, of the answers at all points."""
    judged: dict[Any, bool] = points.dropna().to_dict()
    wrong = [f"{m}×{n} {dtype}" for (m, n, dtype), answer in judged.items() if not answer]
    if not judged:
        return "–"
    if not wrong:
        return "yes"
    if len(wrong) == len(judged):
        return "no"
    more = f" and {len(wrong) - MOST} more" if len(wrong) > MOST else ""
    return f"not at {', '.join(wrong[:MOST])}{more}"
