"""The gradient variant that suits a shape: what `softmax(x)` differentiates by.

Passes: one where the rows of y and dy fit on chip, 3MN; two beyond, 5MN.
On chip: one row each of y and dy if they fit, else two tiles.
The rule: contiguous rows in whole vectors of 16 bytes are several a program up to 512 elements
(`backward_multirow`), and up to 262144 elements a cluster each, on sm_90 and newer
(`backward_cluster`); all others go by tiles (`backward`).
Source: this project; docs/lab_book.md has the measurements.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import sympy
import torch
from typing_extensions import override

from ..device import Device, device_of
from ..kernel import Kernel, Shape
from ..traffic import M, N, Traffic
from ..vectors import LONGEST, in_vectors
from .backward import Backward
from .operation import Gradient, Three
from .rows import BackwardCluster, BackwardMultirow

NARROW = 512  # elements of a row
WIDEST = 1 << 18  # elements of a row; twice as many of 16 bit would fit
NARROW_ROWS, CLUSTER, TILES = BackwardMultirow(), BackwardCluster(), Backward()


@dataclass(frozen=True)
class BackwardAuto(Gradient):
    """Several rows a program or a cluster a row where that suits, else tiles."""

    dtypes = (*Kernel.dtypes, torch.float64)
    # the widest row on chip is an H200's
    moves = Traffic(
        reads=sympy.Piecewise((2 * M * N, N <= WIDEST), (4 * M * N, True)), writes=M * N
    )
    on_chip = sympy.Piecewise((2 * N, N <= WIDEST), (sympy.Integer(2 * TILES.block_size), True))

    @override
    def limits(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        if in_vectors_by((shape[0], shape[1]), dtype, device) is not None:
            return None
        return TILES.unsupported(shape, dtype, device)

    @override
    def into(self, tensors: Three, dim: int = 1, temperature: float = 1.0) -> None:
        y, dy, dx = tensors
        if dim == y.dim() - 1 and dx.dtype == y.dtype == dy.dtype:
            if y.dim() != 2 and y.is_contiguous() and dy.is_contiguous():
                y, dy, dx = (t.view(-1, t.shape[-1]) for t in tensors)
                tensors, dim = (y, dy, dx), 1
            if y.dim() == 2 and all(map(in_vectors, tensors)):
                rows, cols = y.shape
                chosen = in_vectors_by((rows, cols), y.dtype, device_of(y))
                if chosen is not None:
                    return chosen.into(tensors, dim, temperature)
        return TILES.into(tensors, dim, temperature)


@lru_cache(maxsize=4096)
def in_vectors_by(
    shape: tuple[int, int], dtype: torch.dtype, device: Device
) -> BackwardMultirow | BackwardCluster | None:
    """The variant for contiguous rows that begin at vectors; None if tiles are faster."""
    rows, cols = shape
    if cols * dtype.itemsize % LONGEST != 0 or cols > WIDEST:
        return None
    chosen = NARROW_ROWS if cols <= NARROW else CLUSTER
    return chosen if chosen.unsupported((rows, cols), dtype, device) is None else None
