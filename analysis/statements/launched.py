"""What is said of shapes and launches."""

from __future__ import annotations

from analysis.statements.statement import Statement


class Shape(Statement):
    """The range of shapes that is claimed; None is any."""

    rows: int | None = None
    cols: int | None = None


class Setting(Statement):
    """The value of one setting, as each place of the text has it."""

    name: str
    values: tuple[int, ...]


class Tuned(Statement):
    """Threads a block that tuning is said to have found."""

    threads: int


class Scope(Statement):
    """What a launch parameter is said to count for."""

    parameter: str
    scope: str


class Occupancy(Statement):
    """A formula of the host code, in the symbols of `analysis.audit.facts`."""

    formula: str
