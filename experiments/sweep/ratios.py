"""How a kernel's time compares with the others' at the same place of a sweep."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from experiments.data.jobs import kernel_makers
from experiments.data.rows import Row


class Ratio(NamedTuple):
    """A ratio of two medians; its interval goes from one end of both intervals to the other."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} ({self.low:.2f}–{self.high:.2f})"


class Beside(NamedTuple):
    """How many times as fast as others a row's kernel is; None where there is nothing to compare.

    Attributes:
        torch: The fastest kernel by PyTorch itself.
        best: The fastest other kernel of the operation, whose name is ``other``.
        roof: The fastest kernel of its roof: the share of the roof, by bytes that each has to move.
    """

    torch: Ratio | None
    best: Ratio | None
    other: str
    roof: Ratio | None


def ratio(other: Row | None, row: Row, scale: float = 1.0) -> Ratio | None:
    """The other row's time over this one's, times ``scale``; None where either has no time."""
    if other is None or not _timed(row):
        return None
    (mine, low, high), (theirs, their_low, their_high) = _times(row), _times(other)
    return Ratio(scale * theirs / mine, scale * their_low / high, scale * their_high / low)


def beside(rows: Sequence[Row], mine: Sequence[str] = ()) -> list[Beside]:
    """For each row how it compares with the rows of its shape, dtype, protocol, round and card.

    Kernels called ``mine`` are no others of each other.
    """
    places = defaultdict[tuple[Any, ...], list[Row]](list)
    for row in filter(_timed, rows):
        places[_place(row)].append(row)
    makers, found = kernel_makers(), []
    for row in rows:
        here = sorted(places[_place(row)], key=lambda one: one.time_us or 0)
        own = {row.kernel, *(mine if row.kernel in mine else ())}
        rivals = [r for r in here if r.operation == row.operation and r.kernel not in own]
        torch = next((r for r in rivals if makers.get(r.kernel) == "torch"), None)
        roof = next((r for r in here if r.operation == (row.roof or "copy")), None)
        less = (row.compulsory_bytes or 0) / ((roof and roof.compulsory_bytes) or 1)
        best = next(iter(rivals), None)
        name = best.kernel if best and _timed(row) else ""
        found.append(Beside(ratio(torch, row), ratio(best, row), name, ratio(roof, row, less)))
    return found


def _timed(row: Row) -> bool:
    return row.status == "ok" and row.time_us is not None


def _times(row: Row) -> tuple[float, float, float]:
    """Median and ends of its interval, µs."""
    time_us = row.time_us or 0.0
    return time_us, row.time_low_us or time_us, row.time_high_us or time_us


def _place(row: Row) -> tuple[Any, ...]:
    return row.recording, row.round, row.timer, row.cache, row.rows, row.cols, row.dtype
