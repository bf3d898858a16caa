"""Fused softmax, several narrow rows per program: each row is loaded once and stays in registers.

Passes: one; reads MN, writes MN: 2MN.
On chip: the rows of a program, N elements each, padded to whole vectors of a warp.

For a narrow matrix the launch dominates: an empty kernel takes longer the more programs it starts,
and a row of a few hundred elements keeps a program busy for less than its start. So a program takes
several rows. Its tiles are rows × the elements that a warp's 32 lanes load at once, in 16-byte
vectors if rows and strides are whole vectors. Triton places warps along the rows of such a tile: a
row is reduced in registers and by shuffles, without shared memory or a barrier, and all loads are
in flight before the first maximum. Two short rows share a warp; if there are more warps than rows,
several warps share a row.
Source: PyTorch's PersistentSoftmax.cuh, whose warps take one or two rows of up to 1024 elements.
"""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Self

import torch
from typing_extensions import override

from ..device import Device
from ..kernel import Kernel, Shape, power_of_two, too_many
from ..language import exp, jit, next_power_of_two, tl
from ..launch import launch, load_hint, store_hint
from ..vectors import vector
from .tiles import Rows, TritonSoftmax

MOST_ROWS = 1024  # a program
WARP = 32  # lanes
SHORT = 1024  # bytes of a row that takes half a warp
FEW_ROWS = 128  # about the SMs of a large card
UNEVEN_FROM = 256  # elements of a row
MOST_ALIKE = 16  # rows that have a warp each


# The constants of a launch: elements by which rows can be read (`kernels.vectors.vector`), rows and
# width of a tile, as many pieces as whole rows take, and eviction hints
How = namedtuple("How", "vector rows width pieces loads stores")


@dataclass(frozen=True)
class Multirow(Kernel):
    """A program holds several whole rows, each in a warp, a part of one, or several."""

    backend = "triton"
    dtypes = (*Kernel.dtypes, torch.float64)
    widest: ClassVar[int]  # elements of a row: a wider one fills a program of its own
    most_a_lane: ClassVar[int]  # elements: with temporaries what 255 registers hold
    # Whether 16-bit rows that are not powers of two get a warp each, which wastes least
    apart: ClassVar[bool] = False

    rows_per_program: Annotated[int | None, power_of_two(1, MOST_ROWS)] = None
    num_warps: Annotated[int | None, power_of_two(1, 32)] = None

    @override
    def limits(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        """See `Kernel`: rows too wide to share a program, and more of them than it holds."""
        if shape[1] > self.widest:
            return f"takes rows of at most {self.widest} elements, not {shape[1]}"
        rows, warps = self.tile(shape, dtype)
        held = rows * next_power_of_two(shape[1]) // (WARP * warps)
        if held > self.most_a_lane:
            return (
                f"rows_per_program={rows} and num_warps={warps} leave a lane {held} elements of "
                f"rows of {shape[1]}, and it takes at most {self.most_a_lane}"
            )
        return too_many(-(-shape[0] // rows))

    def tile(self, shape: Shape, dtype: torch.dtype) -> tuple[int, int]:
        """Rows and warps of a program, powers of two.

        Measured on an H200 (docs/lab_book.md): 1024 elements per program, whatever the width, 2048
        of 16 bit from 256 columns on. More of them leave too few programs in flight, fewer too many
        to start. Few rows get a program each. A lane has 16 elements, 8 of rows up to 128 or of
        few rows, which then take more warps because they leave SMs idle.
        """
        block, few = next_power_of_two(shape[1]), shape[0] <= FEW_ROWS
        halves = dtype.itemsize == 2
        uneven = self.apart and halves and block > shape[1] > UNEVEN_FROM and not few
        elements = 2048 if halves and block >= 256 else 1024
        rows = self.rows_per_program or (1 if few else max(2 if uneven else 1, elements // block))
        if uneven and rows <= MOST_ALIKE:
            warps = rows
        else:
            a_warp = 256 if few or (rows > 1 and block <= 128) else 512
            in_pairs = rows > 1 and shape[1] * dtype.itemsize <= SHORT
            warps = max(1, min(rows * block // a_warp, rows // 2 if in_pairs else 8, 8))
        return rows, self.num_warps or warps

    def for_any_rows(self, cols: int, dtype: torch.dtype, device: Device) -> Self:
        """This variant with the cut of many rows of ``cols`` elements, whose bits few get too."""
        rows, warps = self.tile((FEW_ROWS + 1, cols), dtype)
        return replace(self, rows_per_program=rows, num_warps=warps)

    def cut(self, x: torch.Tensor, elements: int) -> tuple[int, How, int]:
        """Programs, constants and warps of a launch on rows like ``x``, by vectors of elements.

        A row is loaded by all of its warps, or by half a warp: that reduces a short row in four
        steps instead of five, two rows at a time.
        """
        rows, cols = x.shape
        tile_rows, warps = self.tile((rows, cols), x.dtype)
        in_pairs = cols * x.element_size() <= SHORT and tile_rows >= 2 * warps
        lanes = WARP // 2 if in_pairs else WARP * max(1, warps // tile_rows)
        width = min(lanes * elements, next_power_of_two(cols))
        how = How(elements, tile_rows, width, -(-cols // width), load_hint(x), store_hint(x))
        return -(-rows // tile_rows), how, warps


@dataclass(frozen=True)
class FusedMultirow(Multirow, TritonSoftmax):
    """See `Multirow`."""

    widest, most_a_lane = 4096, 128
    apart = True

    @override
    def into(self, x: torch.Tensor, y: torch.Tensor) -> None:
        elements = vector(x)
        programs, how, warps = self.cut(x, elements)
        at = Rows(x.shape[1] // elements, x.stride(0) // elements, x.stride(1))
        launch(_fused_multirow, (programs,), (x, y, len(x), at), {"HOW": how}, num_warps=warps)


@jit
def _fused_multirow(
    x: tl.tensor, y: tl.tensor, rows: tl.tensor, at: Rows, HOW: tl.constexpr
) -> None:
    STATISTICS: tl.constexpr = tl.float64 if x.dtype.element_ty == tl.float64 else tl.float32
    ROWS: tl.constexpr = HOW.rows
    WIDTH: tl.constexpr = HOW.width
    PIECES: tl.constexpr = HOW.pieces
    LOADS: tl.constexpr = HOW.loads
    STORES: tl.constexpr = HOW.stores
    VECTOR: tl.constexpr = HOW.vector
    # Of an argument Triton knows no more than whether 16 divides it. Lengths in vectors, times
    # the constant VECTOR, show it that neither a mask nor the end of a row cuts a vector.
    cols = at.cols * VECTOR
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    lane = tl.arange(0, WIDTH)[None, :].to(tl.int64)
    x += row * at.row_stride * VECTOR
    y += row * cols

    pieces: tl.tuple = ()
    for piece in tl.static_range(PIECES):
        columns = piece * WIDTH + lane
        inside = (row < rows) & (columns < cols)
        places = x + columns * at.col_stride
        values = tl.load(places, mask=inside, other=float("-inf"), eviction_policy=LOADS)
        pieces = pieces + (values.to(STATISTICS),)  # noqa: RUF005, Triton unpacks no tuple

    maxima = pieces[0]
    for piece in tl.static_range(1, PIECES):
        maxima = tl.maximum(maxima, pieces[piece])
    # Triton's maximum passes over NaN; it comes back through the sum
    maximum = tl.max(maxima, 1)[:, None]

    exponentials: tl.tuple = ()
    sums = tl.zeros((ROWS, WIDTH), STATISTICS)
    for piece in tl.static_range(PIECES):
        exponentials = exponentials + (exp(pieces[piece] - maximum),)  # noqa: RUF005
        sums += exponentials[piece]
    total = tl.sum(sums, 1)[:, None]

    scale = 1.0 / total  # one division a row
    for piece in tl.static_range(PIECES):
        columns = piece * WIDTH + lane
        inside = (row < rows) & (columns < cols)
        quotients = (exponentials[piece] * scale).to(y.dtype.element_ty)
        tl.store(y + columns, quotients, mask=inside, eviction_policy=STORES)
