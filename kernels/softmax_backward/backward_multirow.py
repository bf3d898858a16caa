"""The gradient of softmax, several narrow rows per program, by whole vectors.

dx = y∘(dy − s), s = Σ y∘dy.
Passes: one; reads 2MN, writes MN: 3MN.
Idea: as `softmax/fused_multirow.py`: tiles of (rows, elements that a warp loads at once), in
vectors of 16 bytes where rows and strides are whole vectors. A row's sum stays in its warp, or in
half of one, and all loads are under way before it is asked for.
On chip: the rows of y and dy of a program.
Source: this project; tiles after PyTorch's PersistentSoftmax.cuh.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from typing_extensions import override

from ..device import Device
from ..kernel import Kernel, Shape, power_of_two
from ..language import jit, next_power_of_two, tl
from ..launch import launch, load_hint, store_hint
from ..softmax.fused_multirow import (
    FEW_ROWS,
    MOST_ROWS,
    SHORT,
    lanes_by_tile,
    rows_by_shape,
    tile_refused,
    warps_by_tile,
)
from ..softmax.tiles import triton_statistics, vector
from ..traffic import M, N, Traffic
from .operation import Gradient

WIDEST = 2048  # elements of a row
MOST_A_LANE = 64  # elements of y, and as many of dy


@dataclass(frozen=True)
class BackwardMultirow(Gradient):
    """Several rows per program, which it holds whole.

    Attributes:
        rows_per_program: Rows a program; None takes them by width and number of rows.
        num_warps: Warps per program; None takes them by the rows and their width.
    """

    dtypes = (*Kernel.dtypes, torch.float64)
    moves = Traffic(reads=2 * M * N, writes=M * N)
    on_chip = 2 * N

    rows_per_program: Annotated[int | None, power_of_two(1, MOST_ROWS)] = None
    num_warps: Annotated[int | None, power_of_two(1, 32)] = None

    @override
    def unsupported(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        """See `Kernel`; also rows too wide to share a program, and more of them than it holds."""
        reason = super().unsupported(shape, dtype, device)
        if reason is not None:
            return reason
        if shape[1] > WIDEST:
            return f"takes rows of at most {WIDEST} elements, not {shape[1]}"
        return tile_refused(shape, *self._tile(shape, dtype), MOST_A_LANE)

    @override
    def into(
        self,
        y: torch.Tensor,
        dy: torch.Tensor,
        dx: torch.Tensor,
        dim: int = 1,
        temperature: float = 1.0,
    ) -> None:
        """See `Gradient`; ``dx`` begins at a multiple of 16 bytes."""
        rows, cols = y.shape
        tile_rows, warps = self._tile((rows, cols), y.dtype)
        elements = min(vector(y), vector(dy))
        lanes = lanes_by_tile(tile_rows, warps, cols * y.element_size())
        width = min(lanes * elements, next_power_of_two(cols))
        strides = y.stride(0) // elements, y.stride(1), dy.stride(0) // elements, dy.stride(1)
        launch(
            _backward_multirow,
            (-(-rows // tile_rows),),
            (y, dy, dx, rows, cols // elements, *strides, 1 / temperature),
            {
                "VECTOR": elements,
                "ROWS": tile_rows,
                "WIDTH": width,
                "PIECES": -(-cols // width),
                "LOADS": load_hint(y),
                "STORES": store_hint(y),
                "STATISTICS": triton_statistics(y.dtype),
            },
            num_warps=warps,
        )

    def _tile(self, shape: Shape, dtype: torch.dtype) -> tuple[int, int]:
        """Rows and warps of a program: by the rule of `fused_multirow`."""
        block, few = next_power_of_two(shape[1]), shape[0] <= FEW_ROWS
        rows = self.rows_per_program or rows_by_shape(shape[0], block, dtype.itemsize)
        short = shape[1] * dtype.itemsize <= SHORT
        return rows, self.num_warps or warps_by_tile(rows, block, few, short)


@jit
def _backward_multirow(
    y: tl.tensor,
    dy: tl.tensor,
    dx: tl.tensor,
    rows: tl.tensor,
    vectors: tl.tensor,
    y_stride: tl.tensor,
    y_col_stride: tl.tensor,
    dy_stride: tl.tensor,
    dy_col_stride: tl.tensor,
    inverse: tl.float64,  # a plain float would be float32
    VECTOR: tl.constexpr,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
    PIECES: tl.constexpr,
    LOADS: tl.constexpr,
    STORES: tl.constexpr,
    STATISTICS: tl.constexpr,
) -> None:
    # Lengths in vectors, times the constant VECTOR, show Triton that no mask cuts a vector
    cols = vectors * VECTOR
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    lane = tl.arange(0, WIDTH)[None, :].to(tl.int64)
    y += row * y_stride * VECTOR
    dy += row * dy_stride * VECTOR
    dx += row * cols

    ps: tl.tuple = ()
    gs: tl.tuple = ()
    for piece in tl.static_range(PIECES):
        columns = piece * WIDTH + lane
        inside = (row < rows) & (columns < cols)
        p = tl.load(y + columns * y_col_stride, mask=inside, other=0.0, eviction_policy=LOADS)
        g = tl.load(dy + columns * dy_col_stride, mask=inside, other=0.0, eviction_policy=LOADS)
        ps = ps + (p.to(STATISTICS),)  # noqa: RUF005, Triton unpacks no tuple
        gs = gs + (g.to(STATISTICS),)  # noqa: RUF005

    products = tl.zeros((ROWS, WIDTH), STATISTICS)
    for piece in tl.static_range(PIECES):
        products += ps[piece] * gs[piece]
    total = tl.sum(products, 1)[:, None]
    scale = tl.full((), inverse, tl.float64).to(STATISTICS)

    for piece in tl.static_range(PIECES):
        columns = piece * WIDTH + lane
        inside = (row < rows) & (columns < cols)
        value = (ps[piece] * (gs[piece] - total) * scale).to(dx.dtype.element_ty)
        tl.store(dx + columns, value, mask=inside, eviction_policy=STORES)
