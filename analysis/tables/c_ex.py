"""C-ex: C's worked example beside what the kernel itself computed."""

from __future__ import annotations

from analysis.load import Inputs
from analysis.tables.named import NamedTable
from analysis.worked_example import example_table

NEEDS = "c_ex needs a trace of the kernel at C's worked example in traces.jsonl (make counts)"


def c_ex(material: Inputs) -> NamedTable | str:
    """The table, or what is missing."""
    made = example_table(material.records)
    return NEEDS if made is None else NamedTable("c_ex", made)
