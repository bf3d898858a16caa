"""Inputs that change between calls, and hard ones: kernels that reuse answers or overflow fail.

A kernel that keeps answers by the address of its input, by the tensor's version or by a few of its
elements gives a wrong answer once the values have changed. So for each point a few rows are chosen
at random. Before each sample one of them gets other values, or its own back; a graph is replayed
once more with other values in all. `Tensor.data` writes them, and keeps the tensor's version.
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from kernels.kernel import Operation, Shape

Inputs = tuple[torch.Tensor, ...]
CHANGING_ROWS = 6  # the most rows of a point that change
OTHER_SEED = 1_000_003  # added to a point's seed for other values; a timer's i-th buffer adds i
HARD_TOLERANCE = 16  # the factor on the gate's tolerance for `hard` rows


@dataclass(frozen=True)
class Values:
    """The recipe of a kernel's inputs: another process makes the same values from it.

    It stands for the inputs that ``seed`` gives; with ``other``, for this many rows of other values
    instead, beside the same arrays without rows (such as weights).
    """

    shape: Shape  # of the point
    dtype: torch.dtype  # of the point
    seed: int  # of the inputs
    rows: tuple[int, ...] | None = None  # the indices of the rows to select; None for all
    other: int | None = None  # the number of rows of other values; None for the inputs themselves
    hard: tuple[str, ...] | None = None  # for each row of other values its kind of `hard`

    def make(self, operation: Operation, device: str) -> Inputs:
        """Makes the tensors on a device."""
        inputs = operation.make_inputs(self.shape, self.dtype, device, self.seed)
        if self.other is not None:
            inputs = self.make_other(operation, inputs)
        return inputs if self.rows is None else select_rows(operation, inputs, self.rows)

    def make_other(self, operation: Operation, inputs: Inputs) -> Inputs:
        """Makes the rows of other values; arrays without rows come from ``inputs``."""
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
    """The inputs cut to these rows, copied; inputs without rows as they are."""
    pairs = zip(operation.inputs, inputs, strict=True)
    return tuple(x[[*rows]] if operation.rowwise(array) else x for array, x in pairs)


def hard(row: torch.Tensor, kind: str) -> torch.Tensor:
    """A copy of a row of standard normal logits, changed so that an unsafe kernel gets it wrong.

    ``kind`` is high, low, wide, large, equal or masked. The differences of such numbers are rounded
    more coarsely, so the gate allows `HARD_TOLERANCE` times as many spacings.
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


class ChangingRows:
    """A few rows of a point's inputs; each holds either its own values or other ones."""

    def __init__(self, operation: Operation, inputs: Inputs, own: Values) -> None:
        """``inputs`` are changed in place; ``own`` is the recipe that made them."""
        self.operation, self.inputs = operation, inputs
        self._by_rows = [i for i, array in enumerate(operation.inputs) if operation.rowwise(array)]
        lengths = {len(inputs[i]) for i in self._by_rows if inputs[i].numel()}
        count = lengths.pop() if len(lengths) == 1 else 0
        # indices of the rows that change: at most half of all, rounded up; none if the inputs have
        # no rows or no elements
        self.rows = random.SystemRandom().sample(range(count), min(CHANGING_ROWS, (count + 1) // 2))
        self.held: tuple[int, ...] = ()  # indices into `rows` of those with other values now
        self._next = 0
        self._slots = [[inputs[i].data[row] for i in self._by_rows] for row in self.rows]
        self._own = [[slot.clone() for slot in slots] for slots in self._slots]
        # the recipe of the other values of `rows`; one index of the inputs' first axis may cover
        # several rows of the point, as a head of attention does
        self.others = replace(own, other=len(self.rows) * own.shape[0] // max(count, 1))
        self.renew_others()

    def renew_others(self, hard: tuple[str, ...] | None = None) -> None:
        """Makes new other values, of these kinds of `hard`; all rows hold their own afterwards."""
        self.hold(())
        self.others = replace(self.others, hard=hard)
        if self.rows:
            self._made = self.others.make_other(self.operation, self.inputs)
            if {len(self._made[i]) for i in self._by_rows} != {len(self.rows)}:
                self.rows = []  # rows of this operation cannot be replaced singly, so none changes

    def hold(self, indices: Iterable[int]) -> None:
        """Writes other values into the rows at these indices into `rows`, own ones elsewhere."""
        before, self.held = self.held, tuple(sorted(indices))
        for index in {*before} ^ {*self.held}:
            for slot, value in self._pairs(index):
                slot.copy_(value)

    def change(self) -> None:
        """Switches the next row in turn between its own and its other values."""
        if self.rows:
            self.hold({*self.held} ^ {self._next % len(self.rows)})
            self._next += 1

    def intact(self) -> bool:
        """Whether the rows still hold, bit for bit, what was written into them."""
        return all(
            torch.equal(*(x.reshape(-1).view(torch.uint8) for x in pair))
            for index in range(len(self.rows))
            for pair in self._pairs(index)
        )

    def others_of(self, indices: Sequence[int]) -> tuple[Inputs, Values]:
        """The other values of the rows at these indices into `rows`, and their recipe."""
        values = replace(self.others, rows=tuple(indices))
        return select_rows(self.operation, self._made, indices), values

    def _pairs(self, index: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """For each input: the view of the row at this index, and the values last written to it."""
        others = [self._made[i][index] for i in self._by_rows]
        values = others if index in self.held else self._own[index]
        return zip(self._slots[index], values, strict=True)
