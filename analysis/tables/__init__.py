"""The sources' tables and the project's own.

A table is one entry of `TABLES`: what it needs, and a function from what was read to tables with
the names of their files, without lines where something is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from analysis import limits, spread
from analysis.figures.style import slug
from analysis.format import NamedTable
from analysis.load import Inputs
from analysis.tables import memory
from analysis.tables.comparisons import card_to_card, limits_summary, limits_tables
from analysis.tables.declared import a_tab1, b_tab1
from analysis.tables.determinism import NEEDS, determinism
from analysis.tables.environment import c_prof, environment
from analysis.tables.results import above_roof, cards, d_test, main
from analysis.tables.traffic import traffic
from analysis.worked_example import example_table

DECLARED_NEEDS = "variants.json with a softmax variant beside the rows (a sweep writes it)"
EXAMPLE_NEEDS = "a trace of the kernel at C's worked example in traces.jsonl (make counts)"


def c_ex(inputs: Inputs) -> list[NamedTable]:
    """C's worked example beside what the kernel itself computed."""
    table = example_table(inputs.records)
    return [] if table is None else [NamedTable("c_ex", table)]


# By the name that --only takes.
TABLES: Mapping[str, tuple[str, Callable[[Inputs], list[NamedTable]]]] = {
    "main": ("rows of softmax with a time", main),
    "a_tab1": (DECLARED_NEEDS, a_tab1),
    "b_tab1": (DECLARED_NEEDS, b_tab1),
    "c_ex": (EXAMPLE_NEEDS, c_ex),
    "c_prof": ("rows with a time", c_prof),
    "d_test": ("rows at 1823×781 (grid=irregular)", d_test),
    "limits": (limits.NEEDS, limits_tables),
    "limits_summary": (limits.NEEDS, limits_summary),
    "above_roof": ("timed rows beside their roof", above_roof),
    "card_to_card": (spread.NEEDS, card_to_card),
    "determinism": (NEEDS, determinism),
    "memory": (memory.NEEDS, memory.memory),
    "traffic": ("counts.jsonl or counters.jsonl (make counters)", traffic),
    "cards": ("rows with model_bytes", cards),
    "environment": ("rows", environment),
}


# What a recording of its own is made for: of a folder without one, what is packed below it counts.
PACKED: Mapping[str, Callable[[Inputs], Sequence[Inputs]]] = {
    "limits": lambda inputs: [limits.recording_of(inputs)],
    "limits_summary": lambda inputs: [limits.recording_of(inputs)],
    "card_to_card": lambda inputs: inputs.packed,
}


def tables_of(inputs: Inputs, only: Sequence[str] = ()) -> tuple[list[NamedTable], list[str]]:
    """Every table that the inputs allow, and a sentence about what each of the others needs.

    Args:
        inputs: Rows, and all that lies beside them.
        only: Names of `TABLES`; none for all of them.
    """
    made: list[NamedTable] = []
    missing: list[str] = []
    for name, (needs, make) in TABLES.items():
        if not only or name in only:
            found = _with_lines(make, inputs)
            if not found and name in PACKED:
                found = [named for one in PACKED[name](inputs) for named in _with_lines(make, one)]
            made += found
            missing += [] if found else [f"{name} needs {needs}"]
    return made, missing


def _with_lines(make: Callable[[Inputs], list[NamedTable]], inputs: Inputs) -> list[NamedTable]:
    """The tables that have lines; names of a packed recording's say where it lies."""
    made = [named for named in make(inputs) if named.table.lines]
    if not inputs.place:
        return made
    return [
        NamedTable(
            f"{one.stem}-{slug(inputs.place)}",
            replace(one.table, title=f"{one.table.title} ({inputs.place})"),
            one.data,
        )
        for one in made
    ]
