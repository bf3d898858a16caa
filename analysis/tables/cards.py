"""The models priced for every card that ``conf/gpu`` describes."""

from __future__ import annotations

from analysis.load import Inputs
from analysis.pricing import price_table
from analysis.tables.named import NamedTable


def cards(material: Inputs) -> NamedTable | str:
    """Predicted µs, or what is missing."""
    table = price_table(material.frame)
    if not table.lines:
        return "cards needs rows with model_bytes"
    return NamedTable("cards", table)
