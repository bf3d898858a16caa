"""Traffic: modelled, counted, measured."""

from __future__ import annotations

from analysis.cells import cells
from analysis.load import Inputs
from analysis.tables.named import NamedTable
from analysis.traffic.comparison import backends
from analysis.traffic_table import long_table, wide_table


def traffic(material: Inputs) -> NamedTable | str:
    """A line a variant and shape for people, a line a cell for machines; or what is missing."""
    seen = cells(material.records, backends(material.frame))
    if not seen:
        return "traffic needs counts.jsonl or counters.jsonl (make counters)"
    return NamedTable("traffic", wide_table(seen), long_table(seen))
