"""Inputs whose values change between calls in the same memory, and those that break unsafe kernels.

A kernel that keeps answers by the address of its input, by the tensor's version or by a few of its
elements gives a wrong answer once the values have changed. So before each timed call a few rows,
chosen at random, take other values. They are written through `Tensor.data`, which counts versions
apart from the tensor that the kernel is given.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from kernels.kernel import Operation, Shape

Inputs = tuple[torch.Tensor, ...]
ROWS = 6  # that change
OTHER_SEED = 1_000_003  # added to a point's seed: no rotation of buffers is so long
HARD = 6  # kinds of `hard` rows
HARD_TOLERANCE = 16  # see `hard`


@dataclass(frozen=True)
class Values:
    """Which values a kernel was given, so that another process can make the same.

    Attributes:
        shape: Of the point that they were made for.
        seed: That they were made from.
        rows: Which rows of them, in order; None for all.
        hard: The kinds of `hard` that all rows were made, one each; None for none.
    """

    shape: Shape
    seed: int
    rows: tuple[int, ...] | None = None
    hard: tuple[int, ...] | None = None

    def make(self, operation: Operation, dtype: torch.dtype, device: str) -> Inputs:
        """The inputs."""
        inputs = operation.make_inputs(self.shape, dtype, device, self.seed)
        if self.hard is not None:
            inputs = hardened(operation, inputs, self.hard)
        return inputs if self.rows is None else rows_of(operation, inputs, self.rows)


def rows_of(operation: Operation, inputs: Inputs, rows: Sequence[int]) -> Inputs:
    """Copies of some rows of each input that has rows; the others as they are."""
    at = list(rows)
    return tuple(
        x[at] if operation.rowwise(array) else x
        for array, x in zip(operation.inputs, inputs, strict=True)
    )


def hardened(operation: Operation, inputs: Inputs, kinds: Sequence[int]) -> Inputs:
    """Inputs whose rows of logits are made `hard`, each of its kind."""
    return tuple(
        torch.stack([hard(row, kind) for row, kind in zip(x, kinds, strict=True)])
        if array.name in operation.logits
        else x
        for array, x in zip(operation.inputs, inputs, strict=True)
    )


def hard(row: torch.Tensor, kind: int) -> torch.Tensor:
    """A row of standard normal logits as one that an unsafe kernel gets wrong.

    Far above zero, far below, of a wide range, with one large element, all equal, and with −inf at
    every other place. The working precision rounds differences of such numbers more coarsely than
    of normal ones, so the gate allows `HARD_TOLERANCE` times as many spacings.
    """
    changed = row.clone()
    if kind < 2:
        return changed + (100, -100)[kind]
    if kind == 2:
        return changed * 30
    if kind == 3:
        changed[len(row) // 2] = 1000
    elif kind == 4:
        changed[:] = row[:1]
    else:
        changed[1::2] = -torch.inf
    return changed


class Changing:
    """Some rows of a point's inputs, each of which holds its own values or others.

    Attributes:
        rows: The rows that change; none where inputs have no rows, or no elements.
        held: The rows that hold other values now, by their places in ``rows``.
        others: How the other values are made, a row for each place.
    """

    def __init__(self, operation: Operation, inputs: Inputs, shape: Shape, seed: int) -> None:
        """Of inputs that were made for a point from a seed; they are changed in place."""
        self.operation, self.inputs = operation, inputs
        (self._dtype, *_) = (
            x.dtype for array, x in zip(operation.inputs, inputs, strict=True) if not array.dtype
        )
        self._by_rows = [i for i, array in enumerate(operation.inputs) if operation.rowwise(array)]
        lengths = {len(inputs[i]) for i in self._by_rows if inputs[i].numel()}
        count = lengths.pop() if len(lengths) == 1 else 0
        # at least as many rows stay as they are, where there are two
        self.rows = random.SystemRandom().sample(range(count), min(ROWS, (count + 1) // 2))
        self.held: tuple[int, ...] = ()
        self._next = 0
        self._slots = [[inputs[i].data[row] for i in self._by_rows] for row in self.rows]
        self._own = [[slot.clone() for slot in slots] for slots in self._slots]
        # a row of the inputs may be several of the point, as a head of attention is
        wide = (len(self.rows) * shape[0] // max(count, 1), *shape[1:])
        self.others = Values(wide, seed + OTHER_SEED)
        self.hold_others()

    def hold_others(self, hard: tuple[int, ...] | None = None) -> None:
        """Makes the other values anew, of these kinds of `hard`; no row holds them yet."""
        self.restore()
        self.others = Values(self.others.shape, self.others.seed, hard=hard)
        if self.rows:
            device = str(self.inputs[0].device)
            self._made = self.others.make(self.operation, self._dtype, device)

    def change(self) -> None:
        """Gives the next row its other values, or its own back."""
        if self.rows:
            place = self._next % len(self.rows)
            self._next += 1
            self._put(place, place not in self.held)

    def change_all(self) -> None:
        """Gives all rows their other values."""
        for place in range(len(self.rows)):
            self._put(place, True)

    def restore(self) -> None:
        """Gives all rows their own values back."""
        for place in self.held:
            self._put(place, False)

    def intact(self) -> bool:
        """Whether the rows hold what they were given, bit for bit."""
        return all(
            torch.equal(_bits(slot), _bits(value))
            for place in range(len(self.rows))
            for slot, value in zip(self._slots[place], self._values(place), strict=True)
        )

    def given(self, places: Sequence[int]) -> tuple[Inputs, Values]:
        """The other values at some places, and how to make them."""
        values = replace(self.others, rows=tuple(places))
        return rows_of(self.operation, self._made, places), values

    def _values(self, place: int) -> list[torch.Tensor]:
        if place in self.held:
            return [self._made[i][place] for i in self._by_rows]
        return self._own[place]

    def _put(self, place: int, other: bool) -> None:
        self.held = tuple(sorted({*self.held} - {place} | ({place} if other else set())))
        for slot, value in zip(self._slots[place], self._values(place), strict=True):
            slot.copy_(value)


def _bits(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(-1).view(torch.uint8)
