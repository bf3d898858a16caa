"""The sources' tables and the project's own, a module each."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from analysis.load import Inputs
from analysis.tables.named import NamedTable

__all__ = ["NamedTable", "tables_of"]

# Module and function: each gives its table, or tables, or says in a sentence what it needs.
MAKERS = (
    ("main", "main_tables"),
    ("a_tab1", "a_tab1"),
    ("b_tab1", "b_tab1"),
    ("c_ex", "c_ex"),
    ("c_prof", "c_prof"),
    ("d_test", "d_test"),
    ("limits", "limits_tables"),
    ("limits_summary", "limits_summary"),
    ("card_to_card", "card_to_card"),
    ("traffic", "traffic"),
    ("cards", "cards"),
    ("environment", "environment"),
)


def tables_of(material: Inputs, only: Sequence[str] = ()) -> tuple[list[NamedTable], list[str]]:
    """Every table that the material allows, and what each of the others needs.

    Args:
        material: Rows, and all that lies beside them.
        only: Names of `MAKERS`; none for all of them.
    """
    made: list[NamedTable] = []
    missed: list[str] = []
    for module, function in (one for one in MAKERS if not only or one[0] in only):
        # claims and audit name their tables with this package, and the makers read from theirs
        told = getattr(import_module(f"analysis.tables.{module}"), function)(material)
        if isinstance(told, str):
            missed.append(told)
        else:
            made += [told] if isinstance(told, NamedTable) else told
    return made, missed
