"""A table with the name of its files."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.format import Table


@dataclass(frozen=True)
class NamedTable:
    """A table and what its files are called.

    Attributes:
        stem: The files' name without suffix, such as ``"a_tab1"``.
        table: For people: Markdown and LaTeX.
        data: For machines, in its CSV, where that is not the same cells.
    """

    stem: str
    table: Table
    data: Table | None = None
