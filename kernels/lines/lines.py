"""Lines: the vectors that softmax along some dimension of some tensor normalises, one by one.

A tensor is taken as outer × cols × inner: `cols` is the dimension of the softmax, the dimensions
before it are merged into `outer`, those after it into `inner`. A matrix of rows has inner = 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Lines:
    """Sizes and strides, in elements, of a tensor taken as outer × cols × inner."""

    outer: int
    cols: int
    inner: int
    strides: tuple[int, int, int]

    @property
    def count(self) -> int:
        """Lines in all."""
        return self.outer * self.inner


def lines(shape: Sequence[int], strides: Sequence[int], dim: int) -> Lines | None:
    """A tensor's lines along ``dim`` (not negative), None where no three strides describe them."""
    outer = _merged(shape[:dim], strides[:dim])
    inner = _merged(shape[dim + 1 :], strides[dim + 1 :])
    if outer is None or inner is None:
        return None
    return Lines(
        outer[0], shape[dim], inner[0], (outer[1], strides[dim] if shape[dim] > 1 else 1, inner[1])
    )


def _merged(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, int] | None:
    """Several dimensions as one, its size and stride."""
    size, step = 1, 0
    for n, stride in zip(reversed(shape), reversed(strides), strict=True):
        if n == 1:
            continue
        if size > 1 and stride != size * step:
            return None
        step = step if size > 1 else stride
        size *= n
    return size, step
