"""The operations of the roofs: a copy, sums, reading, a matrix product, exponentials.

Copy, sums and reading move what other operations move, and do next to nothing else. Matrix product
and exponentials take as much arithmetic as attention at the same point, and move next to nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import sympy
import torch
from typing_extensions import override

from ..attention.operation import OfHeads, Product
from ..kernel import Array, Operation, Shape
from ..traffic import M, N, parts_of

TILE = 128
EDGE = TILE * sympy.ceiling(sympy.sqrt(2 * TILE * M) / TILE)  # E² is at least 2·128·M
READ_AS_ONE = 4096  # elements of a row that become one
STRETCH = 256  # exponentials of an element
COLS = parts_of(STRETCH)
# Σ exp(−j/256)/256 for j of 0 … 255, a geometric series
MEAN = -math.expm1(-1) / -math.expm1(-1 / STRETCH) / STRETCH


class Copy(Operation):
    """y = x, in memory of its own: every element is read once and written once."""

    name = "copy"
    exact = True

    @override
    def reference(self, x: torch.Tensor) -> torch.Tensor:
        """The input in float64, shape of ``x``."""
        return x.double()


class Add(Operation):
    """z = a + b: two elements are read for each element written."""

    name = "add"
    inputs = (Array("a"), Array("b"))
    outputs = (Array("z"),)
    row_sums: ClassVar = {"z": None}
    roof = "add"

    @override
    def reference(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """The sum in float64."""
        return a.double() + b.double()


class Read(Operation):
    """y[i, j] = max of x[i, 4096·j … 4096·(j + 1) − 1], shorter at the end of a row."""

    name = "read"
    outputs = (Array("y", (M, parts_of(READ_AS_ONE))),)
    exact = True
    roof = "read"

    @override
    def reference(self, x: torch.Tensor) -> torch.Tensor:
        whole = x.shape[1] // READ_AS_ONE * READ_AS_ONE
        rest = x[:, whole:].amax(-1, keepdim=True) if whole < x.shape[1] else x[:, whole:]
        return torch.cat(
            [x[:, :whole].unflatten(-1, (-1, READ_AS_ONE)).amax(-1), rest], -1
        ).double()


class AttentionIo(OfHeads):
    """y = q + k + v, of the shapes at D = 128: the roof of attention's memory."""

    name = "attention_io"
    roof = "attention_io"

    @override
    def reference(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return q.double() + k.double() + v.double()

    @override
    def magnitude(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """See `Operation`: |q| + |k| + |v|."""
        return q.double().abs() + k.double().abs() + v.double().abs()


class Matmul(Product):
    """y = a·b, E×N by N×E with E = √(2·128·M) in whole tiles of 128.

    These are as many operations as attention's two products at the same point, for D = 128.
    Neither edge is D: a product with one so short is bound by reading its operands, D operations a
    byte in 16 bit, which attention has on chip. This one is bound by multiplying alone.
    """

    name = "matmul"
    inputs = (Array("a", (EDGE, N)), Array("b", (N, EDGE)))
    outputs = (Array("y", (EDGE, EDGE)),)
    flops = 2 * EDGE * EDGE * N
    roof = "matmul"

    @override
    def point_of(self, inputs: Sequence[torch.Tensor]) -> tuple[Shape, torch.dtype]:
        """See `Operation`: of all M with this E the largest."""
        edge, length = inputs[0].shape
        return (edge * edge // (2 * TILE), length), inputs[0].dtype


class Exponentials(Operation):
    """y = Σ exp(x − j/256)/256 over j of 0 … 255, for an element of x for each 256 of a row.

    These are as many exponentials as the softmax of an M×N matrix takes.
    """

    name = "exponentials"
    inputs = (Array("power", (M, COLS)),)
    outputs = (Array("y", (M, COLS)),)
    exponentials = M * COLS * STRETCH
    roof = "exponentials"

    @override
    def reference(self, x: torch.Tensor) -> torch.Tensor:
        return x.double().exp() * MEAN

    @override
    def point_of(self, inputs: Sequence[torch.Tensor]) -> tuple[Shape, torch.dtype]:
        """See `Operation`: of all N with so many columns the largest."""
        rows, cols = inputs[0].shape
        return (rows, cols * STRETCH), inputs[0].dtype


COPY, ADD, READ, ATTENTION_IO = Copy(), Add(), Read(), AttentionIo()
MATMUL, EXPONENTIALS = Matmul(), Exponentials()
