"""The small cases that are traced access by access: to be drawn, stepped through and checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

# The input of C's worked example, C-ex in the list of sources.
EXAMPLE = (
    (2.0, -1.0, 3.0, 0.5, -0.5, 1.5, -2.0, 1.0),
    (4.0, -3.0, 2.5, 1.0, -1.5, 0.0, -0.5, 2.0),
    (-1.0, 3.5, -2.5, 1.5, 0.0, -3.0, 2.5, -0.5),
)


@dataclass(frozen=True)
class Case:
    """One input of a traced call.

    Attributes:
        shape: Rows and columns.
        blocks: Sizes of a tile, for variants that have one.
        operations: Those it is recorded for.
        input: The rows of x; None for seeded ones.
    """

    shape: tuple[int, int]
    blocks: tuple[int, ...]
    operations: tuple[str, ...]
    input: tuple[tuple[float, ...], ...] | None = None

    @property
    def given(self) -> dict[str, Any]:
        """What a worker is told of the input."""
        return {} if self.input is None else {"input": [list(row) for row in self.input]}


def _example(rows: int) -> Case:
    return Case((rows, len(EXAMPLE[0])), (2, 4, 8), ("softmax",), EXAMPLE[:rows])


# A-fig1 and B-fig1 are drawn from the first; C works a 3×8 tensor and steps through a 2×8 one.
TRACED = (Case((4, 8), (4,), ("softmax", "copy")), _example(3), _example(2))
