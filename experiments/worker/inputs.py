"""Inputs whose values change between calls in the same memory, and those that break unsafe kernels.

A kernel that keeps answers by the address of its input, by the tensor's version or by a few of its
elements gives a wrong answer once the values have changed. So before each timed call a few rows,
chosen at random, take other values. They are written through `Tensor.data`, which leaves the
version number of the kernel's tensor as it is.
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from kernels.kernel import Operation, Shape

Inputs = tuple[torch.Tensor, ...]
CHANGING_ROWS = 6  # that change
OTHER_SEED = 1_000_003  # added to a point's seed: further buffers of a timer add less
HARD_TOLERANCE = 16  # see `hard`


@dataclass(frozen=True)
class Values:
    """How the values that a kernel was given are made, so that another process can make them.

    With ``other``, so many rows of other values take the place of the inputs' rows. Arrays that all
    rows share stay as they are.
    """

    shape: Shape  # the point's
    dtype: torch.dtype  # the point's
    seed: int  # that its inputs were made from
    rows: tuple[int, ...] | None = None  # which of them, in order; None for all
    other: int | None = None  # how many rows of other values; None for the inputs' own
    hard: tuple[str, ...] | None = None  # the kind of `hard` of each of the other rows

    def make(self, operation: Operation, device: str) -> Inputs:
        """The inputs."""
        inputs = operation.make_inputs(self.shape, self.dtype, device, self.seed)
        if self.other is not None:
            inputs = self.make_other(operation, inputs)
        return inputs if self.rows is None else select_rows(operation, inputs, self.rows)

    def make_other(self, operation: Operation, inputs: Inputs) -> Inputs:
        """The other values, with the arrays that all rows of the inputs share."""
        assert self.other is not None
        shape, seed = (self.other, *self.shape[1:]), self.seed + OTHER_SEED
        others = operation.make_inputs(shape, self.dtype, inputs[0].device, seed)
        made = []
        for array, x, y in zip(operation.inputs, inputs, others, strict=True):
            if self.hard is not None and array.name in operation.logits:
                pairs = zip(y, self.hard, strict=True)
                y = torch.stack([hard(row, kind) for row, kind in pairs])
            made.append(y if operation.rowwise(array) else x)
        return tuple(made)


def select_rows(operation: Operation, inputs: Inputs, rows: Sequence[int]) -> Inputs:
    """Copies of some rows of each input that has rows; the others as they are."""
    pairs = zip(operation.inputs, inputs, strict=True)
    return tuple(x[[*rows]] if operation.rowwise(array) else x for array, x in pairs)


def hard(row: torch.Tensor, kind: str) -> torch.Tensor:
    """A row of standard normal logits as one that an unsafe kernel gets wrong.

    The working precision rounds differences of such numbers more coarsely than of normal ones, so
    the gate allows `HARD_TOLERANCE` times as many spacings.
    """
    changed = row.clone()
    if kind in ("high", "low"):
        changed += 100 if kind == "high" else -100
    elif kind == "wide":
        changed *= 30
    elif kind == "large":
        changed[len(row) // 2] = 1000
    elif kind == "equal":
        changed[:] = row[:1]
    elif kind == "masked":
        changed[1::2] = -torch.inf
    return changed


class Changing:
    """Some rows of a point's inputs, each of which holds its own values or others."""

    def __init__(self, operation: Operation, inputs: Inputs, own: Values) -> None:
        """``own`` says how the inputs were made; they are changed in place."""
        self.operation, self.inputs = operation, inputs
        self._by_rows = [i for i, array in enumerate(operation.inputs) if operation.rowwise(array)]
        lengths = {len(inputs[i]) for i in self._by_rows if inputs[i].numel()}
        count = lengths.pop() if len(lengths) == 1 else 0
        # the rows that change: at most half of all, rounded up; none if the inputs have no rows or
        # no elements
        self.rows = random.SystemRandom().sample(range(count), min(CHANGING_ROWS, (count + 1) // 2))
        self.held: tuple[int, ...] = ()  # indices into `rows` of those that hold other values now
        self._next = 0
        self._slots = [[inputs[i].data[row] for i in self._by_rows] for row in self.rows]
        self._own = [[slot.clone() for slot in slots] for slots in self._slots]
        # how the other values of `rows` are made; a row of the inputs may be several of the point,
        # as a head of attention is
        self.others = replace(own, other=len(self.rows) * own.shape[0] // max(count, 1))
        self.hold_others()

    def hold_others(self, hard: tuple[str, ...] | None = None) -> None:
        """Makes the other values anew, of these kinds of `hard`; no row holds them yet."""
        self.hold(())
        self.others = replace(self.others, hard=hard)
        if self.rows:
            self._made = self.others.make_other(self.operation, self.inputs)
            if {len(self._made[i]) for i in self._by_rows} != {len(self.rows)}:
                self.rows = []  # this operation's rows cannot be replaced one by one

    def hold(self, indices: Iterable[int]) -> None:
        """Gives the rows of these indices their other values, and the rest their own."""
        before, self.held = self.held, tuple(sorted(indices))
        for index in {*before} ^ {*self.held}:
            for slot, value in self._pairs(index):
                slot.copy_(value)

    def hold_all(self) -> None:
        """Gives all rows their other values."""
        self.hold(range(len(self.rows)))

    def change(self) -> None:
        """Gives the next row its other values, or its own back."""
        if self.rows:
            self.hold({*self.held} ^ {self._next % len(self.rows)})
            self._next += 1

    def intact(self) -> bool:
        """Whether the rows hold what they were given, bit for bit."""
        return all(
            torch.equal(*(x.reshape(-1).view(torch.uint8) for x in pair))
            for index in range(len(self.rows))
            for pair in self._pairs(index)
        )

    def given(self, indices: Sequence[int]) -> tuple[Inputs, Values]:
        """The other values of some rows, by index, and how to make them."""
        values = replace(self.others, rows=tuple(indices))
        return select_rows(self.operation, self._made, indices), values

    def _pairs(self, index: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """A row's memory in each input, and the values that it holds now."""
        others = [self._made[i][index] for i in self._by_rows]
        values = others if index in self.held else self._own[index]
        return zip(self._slots[index], values, strict=True)
