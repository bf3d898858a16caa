"""Picks the variant and tunables for a shape, by a rule fitted to measurements on an H200.

Passes: one if a row fits on chip, 2MN; otherwise two, 3MN. A call tunes nothing: the rule is
arithmetic on M, N, dtype and the device's limits.
On chip: the row if it fits, else a tile.
The rule:
- rows up to 4 KB: several per program (`fused_multirow`), unless a row has 512 or more elements and
  is not a whole number of vectors;
- rows up to 2 MB: one cluster of programs per row (`cluster`), on sm_90 and newer;
- wider rows, and few rows of more than 256K elements: as many programs per row as hold it
  (`cooperative`);
- on older cards, and in float64, rows up to 64 KB: one program per row (`fused_row`);
- rows that fit nowhere: read twice (`online`, with its widest tile).
Source: this project. docs/lab_book.md has the measurements behind the rule;
outputs/reference/h200_limits has the resulting times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import sympy
import torch
from typing_extensions import override

from ..cluster.cut import reading
from ..device import Device, device_of
from ..kernel import Kernel, Shape
from ..traffic import M, N, Traffic
from ..vectors import LONGEST
from .cluster import Cluster
from .cooperative import Cooperative
from .fused_multirow import FusedMultirow
from .fused_row import FusedRow
from .online import Online
from .operation import SOFTMAX
from .tiles import empty_result

NARROW = 4 << 10  # bytes of a row, up to which a warp takes it whole
RAGGED_FROM = 512  # elements of a row
WIDEST_IN_A_PROGRAM = 64 << 10  # bytes of a row in the registers of one program
WIDEST_CLUSTER = 2 << 20  # bytes of a row
WIDE, FEW = 1 << 18, 16  # wider rows (elements), of which there are at most so many, spread
WIDEST_ROW = 1 << 22  # elements that the whole of an H200 holds
LAST_RESORT = Online(16384, 32, reverse=True, evict="last_first")


@dataclass(frozen=True)
class Auto(Kernel):
    """The variant that suits the shape, dtype and device."""

    operation = SOFTMAX
    backend = "triton"
    dtypes = (*Kernel.dtypes, torch.float64)
    on_chip = sympy.Piecewise((N, N <= WIDEST_ROW), (LAST_RESORT.on_chip_elements(), True))

    @override
    def unsupported(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        reason = super().unsupported(shape, dtype, device)
        if reason is not None:
            return reason
        chosen = choice((shape[0], shape[1]), dtype, device, LONGEST // dtype.itemsize)
        return chosen.unsupported(shape, dtype, device)

    @override
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self._chosen(x)(x) if x.numel() > 0 else empty_result(x)

    @override
    def prepare(self, x: torch.Tensor) -> Callable[..., torch.Tensor]:
        """See `Kernel`: the chosen variant's own, which also takes memory for the answer."""
        return self._chosen(x).prepare(x) if x.numel() > 0 else self

    def _chosen(self, x: torch.Tensor) -> Kernel:
        width, _ = reading(x, contiguous=True)
        return choice((x.shape[0], x.shape[1]), x.dtype, device_of(x), width)

    @override
    def traffic(self) -> Traffic:
        """See `Kernel`; the widest row on chip is an H200's."""
        fits = N <= WIDEST_ROW
        return Traffic(reads=sympy.Piecewise((M * N, fits), (2 * M * N, True)), writes=M * N)


@lru_cache(maxsize=4096)
def choice(shape: tuple[int, int], dtype: torch.dtype, device: Device, width: int) -> Kernel:
    """The rule.

    Args:
        shape: Rows and columns.
        dtype: The elements'.
        device: The device that runs it.
        width: Elements of the vectors by which the middle of a row can be read.
    """
    cols = max(shape[1], 1)
    size = cols * dtype.itemsize
    narrow, cluster, cooperative = FusedMultirow(), Cluster(), Cooperative()
    # A cluster reads rows by whole vectors that are not a whole number of them
    ragged = width > 1 and cols % width > 0 and cols >= RAGGED_FROM
    if (
        size <= NARROW
        and not (ragged and cluster.unsupported(shape, dtype, device) is None)
        and narrow.unsupported(shape, dtype, device) is None
    ):
        return narrow
    spread = size > WIDEST_CLUSTER or (cols > WIDE and shape[0] <= FEW)
    if not (spread and cooperative.unsupported(shape, dtype, device) is None) and (
        cluster.unsupported(shape, dtype, device) is None
        and cluster.plan((max(shape[0], 1), cols), dtype, width, device) is not None
    ):
        return cluster
    row = FusedRow()
    if size <= WIDEST_IN_A_PROGRAM and row.unsupported(shape, dtype, device) is None:
        return row
    if cooperative.unsupported(shape, dtype, device) is None:
        return cooperative
    return LAST_RESORT
