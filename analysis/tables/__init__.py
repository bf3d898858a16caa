"""The sources' tables and the project's own.

A table is one entry of `TABLES`: a function from what was read to tables with the names of their
files, without lines where something is missing, and what it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from analysis import limits, spread
from analysis.format import NamedTable
from analysis.load import Inputs
from analysis.tables.comparisons import card_to_card, limits_summary, limits_tables
from analysis.tables.declared import DECLARED_NEEDS, a_tab1, b_tab1
from analysis.tables.environment import c_prof, environment
from analysis.tables.results import D_TEST_NEEDS, cards, d_test, main
from analysis.tables.traffic import traffic
from analysis.worked_example import example_table


@dataclass(frozen=True)
class Maker:
    """How a table, or one per GPU, is made.

    Attributes:
        name: What ``--only`` calls it.
        needs: What it cannot do without.
        make: The tables; without a line, or none, where that is missing.
    """

    name: str
    needs: str
    make: Callable[[Inputs], list[NamedTable]]


def c_ex(inputs: Inputs) -> list[NamedTable]:
    """C's worked example beside what the kernel itself computed."""
    table = example_table(inputs.records)
    return [] if table is None else [NamedTable("c_ex", table)]


TABLES = (
    Maker("main", "rows of softmax with a time", main),
    Maker("a_tab1", DECLARED_NEEDS, a_tab1),
    Maker("b_tab1", DECLARED_NEEDS, b_tab1),
    Maker(
        "c_ex",
        "a trace of the kernel at C's worked example in traces.jsonl (make counts)",
        c_ex,
    ),
    Maker("c_prof", "rows with a time", c_prof),
    Maker("d_test", D_TEST_NEEDS, d_test),
    Maker("limits", limits.NEEDS, limits_tables),
    Maker("limits_summary", limits.NEEDS, limits_summary),
    Maker("card_to_card", spread.NEEDS, card_to_card),
    Maker("traffic", "counts.jsonl or counters.jsonl (make counters)", traffic),
    Maker("cards", "rows with model_bytes", cards),
    Maker("environment", "rows", environment),
)


def tables_of(inputs: Inputs, only: Sequence[str] = ()) -> tuple[list[NamedTable], list[str]]:
    """Every table that the inputs allows, and a sentence about what each of the others needs.

    Args:
        inputs: Rows, and all that lies beside them.
        only: Names of `TABLES`; none for all of them.
    """
    made: list[NamedTable] = []
    missing: list[str] = []
    for maker in TABLES:
        if only and maker.name not in only:
            continue
        found = [named for named in maker.make(inputs) if named.table.lines]
        made += found
        missing += [] if found else [f"{maker.name} needs {maker.needs}"]
    return made, missing
