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

import torch
from typing_extensions import override

from ..language import jit, tl
from ..launch import launch
from ..softmax.fused_multirow import Multirow
from ..softmax.tiles import vector
from ..traffic import M, N, Traffic
from .operation import Gradient


@dataclass(frozen=True)
class BackwardMultirow(Multirow, Gradient):
    """See `Multirow`."""

    moves = Traffic(reads=2 * M * N, writes=M * N)
    on_chip = 2 * N
    widest, most_a_lane = 2048, 64  # elements of y, and as many of dy

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
        (rows, cols), elements = y.shape, min(vector(y), vector(dy))
        programs, constants, warps = self.cut(y, elements)
        strides = y.stride(0) // elements, y.stride(1), dy.stride(0) // elements, dy.stride(1)
        arguments = (y, dy, dx, rows, cols // elements, *strides, 1 / temperature)
        launch(_backward_multirow, (programs,), arguments, constants, num_warps=warps)


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
