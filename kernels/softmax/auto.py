"""Picks the variant and tunables for a shape, by a rule fitted to measurements on an H200.

Passes: one if a row stays on chip, 2MN; else two, 3MN. A call tunes nothing: the rule is arithmetic
on M, N, dtype and the device's limits.
On chip: the row, or a slice of it.
The rule:
- rows up to 4 KB: several per program (`fused_multirow`), unless a row has 512 or more elements and
  is not a whole number of vectors;
- rows up to 256K elements: one cluster of programs per row (`cluster`), on sm_90 and newer; of 16
  bit, where there are more than a few rows, up to 1M elements;
- on older cards, and in float64, rows up to 64 KB: one program per row (`fused_row`);
- wider rows, up to 1M elements: as many programs per row as hold it (`cooperative`);
- a single row of 256K elements or more, and all that none of these holds: two launches (`split`).
With ``batch_invariant`` the rule is that of `MANY` rows, however many there are: the bits of a row
then depend on its elements, N, the dtype, the card, and where in a 16-byte vector it begins.
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

from ..cluster.cut import MANY
from ..device import Device, device_of
from ..kernel import Kernel, Shape
from ..traffic import M, N, Traffic, by_width
from ..vectors import LONGEST, reading
from .cluster import Cluster
from .cooperative import Cooperative
from .fused_multirow import FusedMultirow
from .hybrid import FusedRow
from .split import Split
from .tiles import TritonSoftmax

# The limits of the rule, each with the entry of docs/lab_book.md that has its measurement
NARROW = 4 << 10  # bytes of a row that a warp takes whole: "1024 elements per program for …"
RAGGED_FROM = 512  # elements of a row: "Rows that begin anywhere"
WIDEST_IN_A_PROGRAM = 64 << 10  # bytes of a row, a quarter of an H200's registers an SM
WIDE, WIDEST_CLUSTER = 1 << 18, 1 << 20  # elements of 32 and 16 bit: "Clusters or the whole card …"
FEW = 16  # rows, of which wide ones of 16 bit are spread: the same entry
LONE = 1 << 18  # elements of a single row from which two launches are faster: "Few wide rows …"
# The widest rows of slices of so many elements: "Rows that no card holds"
SPLITS = {WIDEST_CLUSTER: Split(), 1 << 25: Split(8192)}
WIDEST_SPLIT = Split(32768, num_warps=32)


@dataclass(frozen=True)
class Auto(TritonSoftmax):
    """The variant that suits the shape, dtype and device."""

    # of 16 or 32 bit and a multiple of 16 elements, on an H200
    moves = Traffic(
        sympy.Piecewise((M * N, (N < LONE) | ((M > 1) & (N <= WIDEST_CLUSTER))), (2 * M * N, True)),
        M * N,
    )
    on_chip = by_width(WIDEST_CLUSTER, N, 8192)

    batch_invariant: bool = False

    @override
    def limits(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        width, place = LONGEST // dtype.itemsize, (shape[0], shape[1])
        chosen = choice(place, dtype, device, width, self.batch_invariant)
        return chosen.unsupported(shape, dtype, device)

    @override
    def into(self, x: torch.Tensor, y: torch.Tensor) -> None:
        self._chosen(x)(x, y)

    @override
    def prepare(self, x: torch.Tensor) -> Callable[..., torch.Tensor]:
        """See `Kernel`: the chosen variant's own, which also takes memory for the answer."""
        return self._chosen(x).prepare(x) if x.numel() > 0 else self

    def _chosen(self, x: torch.Tensor) -> Kernel:
        width, _ = reading(x, contiguous=True)
        place = x.shape[0], x.shape[1]
        return choice(place, x.dtype, device_of(x), width, self.batch_invariant)


@lru_cache(maxsize=4096)
def choice(
    shape: tuple[int, int],
    dtype: torch.dtype,
    device: Device,
    width: int,
    batch_invariant: bool = False,
) -> Kernel:
    """The rule, for ``shape`` and vectors of ``width`` elements that read the middle of a row."""
    rows, cols = MANY if batch_invariant else max(shape[0], 1), max(shape[1], 1)
    size, narrow = cols * dtype.itemsize, FusedMultirow()
    if batch_invariant:
        narrow = narrow.for_any_rows(cols, dtype, device)

    def runs(kernel: Kernel) -> bool:
        return kernel.unsupported(shape, dtype, device) is None

    lone = rows == 1 and cols >= LONE
    in_cluster = runs(Cluster()) and not lone
    on_all_sms = runs(Cooperative()) and not lone and cols <= WIDEST_CLUSTER
    # A cluster reads rows by whole vectors that are not a whole number of them
    ragged = width > 1 and cols % width > 0 and cols >= RAGGED_FROM
    if size <= NARROW and not (ragged and in_cluster) and runs(narrow):
        return narrow
    spread = cols > (WIDE if dtype.itemsize == 4 or rows <= FEW else WIDEST_CLUSTER)
    if in_cluster and not spread:
        plan = Cluster().plan((rows, cols), dtype, width, device)
        if plan is not None:
            return Cluster(plan.programs, plan.warps) if batch_invariant else Cluster()
    if size <= WIDEST_IN_A_PROGRAM and runs(FusedRow()):
        return FusedRow()
    if on_all_sms:
        return Cooperative()
    return next((split for widest, split in SPLITS.items() if cols <= widest), WIDEST_SPLIT)
