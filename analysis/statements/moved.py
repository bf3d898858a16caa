"""What kernels are said to move, and to hold on chip.

Formulas are text in M and N: elements, unless ``unit`` says otherwise.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

from analysis.statements.statement import Printed, Statement


class TrafficStatement(Statement):
    """What a kernel is said to move, and the row's share on chip, as an order: ``O(B)``."""

    kernel: str
    reads: str | None = None
    writes: str | None = None
    total: str | None = None
    unit: Literal["elements", "bytes"] = "elements"
    on_chip: str | None = None
    any_width: bool | None = None
    same_as: str | None = None  # the kernel whose traffic it is said to equal


class Step(Printed):
    """One library call of a kernel, and its share of the traffic.

    ``index_bytes`` is what it is said to write besides its values, bytes a row.
    """

    call: str
    reads: str
    writes: str
    index_bytes: int = 0


class Steps(Statement):
    """A kernel as library calls, in order."""

    kernel: str
    steps: tuple[Step, ...]


class Trips(Statement):
    """How often a kernel is said to go through memory."""

    kernel: str
    reads: int | None = None
    writes: int | None = None
    total: int


class TrafficLimit(Statement):
    """What ``larger``'s traffic over ``smaller``'s is said to approach as N grows."""

    larger: str
    smaller: str
    value: Decimal


class OnChip(Statement):
    """What is said to fit on chip for a kernel that holds a row: KB, least and most."""

    kernel: str
    low_kb: int
    high_kb: int


class RowSize(Statement):
    """Bytes of a row, printed for a width; K in both is the same thousand."""

    dtype: str
    cols: str
    size: str
