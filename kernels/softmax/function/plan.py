"""How a call is carried out: worked out once for inputs that are alike, then launched again."""

from __future__ import annotations

import os
from collections.abc import Callable

import torch

from kernels.language import tl
from kernels.launch import ALIGNMENT, launches, replay

KEPT = 4096  # plans of each direction, the least recently used makes room; some 2 kB each
# Triton decides so as it decorates, once
INTERPRETED = os.environ.get("TRITON_INTERPRET", "0") not in ("", "0")

Shape = tuple[int, ...]
Carry = Callable[..., torch.Tensor]


class Plan:
    """One way to carry out a call: the ordinary one, until its launch can be made again.

    Inputs are alike that share shape, strides, dtypes, device and alignment: all that Triton
    compiles apart for. A plan holds no tensor.

    Args:
        carry: Takes one input or two, makes a contiguous answer with the shape of the first.
        dtype: The answer's.
        index: The CUDA device's; −1 on a CPU, where nothing is launched again.
        alike: Whether the first input is contiguous and of the answer's dtype.
    """

    __slots__ = ("_again", "_alike", "_carry", "_dtype", "_index", "_tried")

    def __init__(self, carry: Carry, dtype: torch.dtype, index: int, alike: bool) -> None:
        self._carry, self._dtype, self._index, self._alike = carry, dtype, index, alike
        self._again: Callable[..., None] | None = None
        self._tried = False

    def __call__(self, *inputs: torch.Tensor) -> torch.Tensor:
        """The answer for inputs that are alike."""
        index, again = self._index, self._again
        if index < 0:
            return self._carry(*inputs)
        if torch._C._cuda_getDevice() != index:
            with torch.cuda.device(index):
                return self(*inputs)
        if again is None:
            return self._first(*inputs)
        first = inputs[0]
        if self._alike:  # the cheaper of the two
            made = torch.empty_like(first)
        else:
            made = torch.empty(first.shape, dtype=self._dtype, device=first.device)
        pointer = made.data_ptr()
        if pointer % ALIGNMENT:  # an allocator of the user's own
            return self._carry(*inputs)
        stream = torch._C._cuda_getCurrentRawStream(index)
        if len(inputs) == 1:
            again(stream, first.data_ptr(), pointer)
        else:
            again(stream, first.data_ptr(), inputs[1].data_ptr(), pointer)
        return made

    def _first(self, *inputs: torch.Tensor) -> torch.Tensor:
        if self._tried:  # and it cannot be made again
            return self._carry(*inputs)
        with launches() as seen:
            made = self._carry(*inputs)
        if len(seen) == 1 and made.data_ptr() % ALIGNMENT == 0:
            self._again = replay(seen[0], (*inputs, made))
        self._tried = True
        return made


def runs_on(index: int) -> bool:
    """Whether a kernel can run on the CUDA device of that index, or on the CPU where it is −1."""
    return tl is not None and (index >= 0 or INTERPRETED)


def contiguous(shape: Shape, strides: Shape) -> bool:
    """Whether a tensor's elements lie side by side, in order."""
    step = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1 and stride != step:
            return False
        step *= size
    return True
