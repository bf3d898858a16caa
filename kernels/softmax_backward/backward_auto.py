"""The gradient variant that suits a shape: what `softmax(x)` differentiates by.

Passes: one where the rows of y and dy fit on chip, 3MN; two beyond, 5MN.
On chip: the row of y and that of dy where they fit, else two tiles.
The rule: contiguous rows of 1 KB to 262144 elements, in whole vectors of 16 bytes, a cluster each
(`backward_cluster`), on sm_90 and newer; all others by tiles (`backward`).
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
from .backward import Backward
from .backward_cluster import BackwardCluster, in_vectors
from .operation import SOFTMAX_BACKWARD

NARROW = 1 << 10  # bytes of a row, below which several share a program
WIDEST = 1 << 18  # elements of a row; twice as many of 16 bit would fit
CLUSTER, TILES = BackwardCluster(), Backward()


@dataclass(frozen=True)
class BackwardAuto(Kernel):
    """A cluster a row where that suits, else tiles."""

    operation = SOFTMAX_BACKWARD
    backend = "triton"
    dtypes = (*Kernel.dtypes, torch.float64)
    on_chip = sympy.Piecewise((2 * N, N <= WIDEST), (sympy.Integer(2 * TILES.block_size), True))

    @override
    def unsupported(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        reason = super().unsupported(shape, dtype, device)
        if reason is not None or clusters_suit((shape[0], shape[1]), dtype, device):
            return reason
        return TILES.unsupported(shape, dtype, device)

    @override
    def __call__(self, y: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
        dx = torch.empty(y.shape, dtype=y.dtype, device=y.device)
        if dx.numel() > 0:
            self.into(y, dy, dx, dim=1)
        return dx

    def into(
        self,
        y: torch.Tensor,
        dy: torch.Tensor,
        dx: torch.Tensor,
        dim: int,
        temperature: float = 1.0,
    ) -> None:
        """Writes the gradient of softmax(x / temperature) along ``dim`` into ``dx``.

        Args:
            y: Softmax's answer, at least one dimension and one element.
            dy: The gradient of ``y``.
            dx: Contiguous; of any floating-point dtype.
            dim: The dimension that was normalised, not negative.
            temperature: As it was.
        """
        if dim == y.dim() - 1 and dx.dtype == y.dtype == dy.dtype:
            if y.dim() != 2 and y.is_contiguous() and dy.is_contiguous():
                y, dy, dx, dim = *(t.view(-1, t.shape[-1]) for t in (y, dy, dx)), 1
            if y.dim() == 2 and all(map(in_vectors, (y, dy, dx))):
                rows, cols = y.shape
                if clusters_suit((rows, cols), y.dtype, device_of(y)):
                    return CLUSTER.into(y, dy, dx, temperature)
        return TILES.into(y, dy, dx, dim, temperature)

    @override
    def traffic(self) -> Traffic:
        """See `Kernel`; the widest row on chip is an H200's."""
        reads = sympy.Piecewise((2 * M * N, N <= WIDEST), (4 * M * N, True))
        return Traffic(reads=reads, writes=M * N)


@lru_cache(maxsize=4096)
def clusters_suit(shape: tuple[int, int], dtype: torch.dtype, device: Device) -> bool:
    """Whether contiguous rows that begin at vectors are for clusters."""
    suits = shape[1] * dtype.itemsize >= NARROW and shape[1] <= WIDEST
    return suits and CLUSTER.unsupported(shape, dtype, device) is None
