"""The gradient of softmax, a row for a cluster that keeps it on chip: Gluon, sm_90 and up.

dx = y∘(dy − s), s = Σ y∘dy.
Passes: one; reads 2MN, writes MN: 3MN.
Idea: as `softmax/cluster.py`: each warp of the cluster loads its slices of y and dy into registers,
sums their products among its own lanes, and sends the sum to all programs of the cluster. This is
the only message. With all sums the warp writes its slice.
On chip: one row each of y and dy. A thread holds up to 32 float32 elements of each, or 64 of 16
bit, which stay packed.
Rows are whole vectors of 16 bytes; others go to `backward`.
Source: this project; the derivative as in PyTorch's ``_softmax_backward_data``.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from typing_extensions import override

from ..cluster.cut import OnCluster
from ..cluster.row import distinct, row_number, slots_of, total_of, whole_row
from ..device import device_of
from ..language import gl, gluon_jit
from ..launch import launch, load_hint, store_hint
from ..softmax.tiles import vector
from ..traffic import M, N, Traffic
from ..vectors import LONGEST
from .operation import Gradient


@dataclass(frozen=True)
class BackwardCluster(OnCluster, Gradient):
    """A cluster a row; see `OnCluster`."""

    moves = Traffic(reads=2 * M * N, writes=M * N)
    on_chip = 2 * N
    matrices, in_vectors = 2, True

    @override
    def into(
        self,
        y: torch.Tensor,
        dy: torch.Tensor,
        dx: torch.Tensor,
        dim: int = 1,
        temperature: float = 1.0,
    ) -> None:
        """See `Gradient`; the rows of all tensors are whole vectors of 16 bytes.

        Raises:
            ValueError: a row does not begin or end at a vector, or does not fit on chip.
        """
        (rows, cols), width = y.shape, LONGEST // y.element_size()
        plan = self.plan((rows, cols), y.dtype, width, device_of(y))
        if not all(map(in_vectors, (y, dy, dx))):
            raise ValueError(f"backward_cluster: rows are not whole vectors of {LONGEST} bytes")
        if plan is None:
            raise ValueError(f"backward_cluster: rows of {cols} do not fit on chip")
        strides = (y.stride(0) // width, dy.stride(0) // width)
        launch(
            _backward_cluster,
            (rows,),
            (y, dy, dx, cols // width, *strides, 1 / temperature),
            {
                "CHUNKS": plan.chunks,
                "VECTOR": width,
                "EVEN": cols == plan.chunks * plan.chunk,
                "PACKED": plan.packed,
                "LOADS": load_hint(y),
                "STORES": store_hint(y),
            },
            num_warps=plan.warps,
            num_ctas=plan.programs,
        )


def in_vectors(x: torch.Tensor) -> bool:
    """Whether every row of ``x`` is contiguous, whole vectors, and begins at one."""
    return x.stride(1) == 1 and vector(x) * x.element_size() == LONGEST


@gluon_jit
def _backward_cluster(  # type: ignore[no-untyped-def]
    y,
    dy,
    dx,
    vectors,
    y_vectors,
    dy_vectors,
    inverse,
    CHUNKS: gl.constexpr,
    VECTOR: gl.constexpr,
    EVEN: gl.constexpr,
    PACKED: gl.constexpr,
    LOADS: gl.constexpr,
    STORES: gl.constexpr,
):
    SLICES: gl.constexpr = gl.num_ctas() * gl.num_warps()
    if SLICES > 1:
        slots = slots_of(1)
    number = row_number().to(gl.int64)
    row = whole_row(vectors, CHUNKS, VECTOR, EVEN)
    y += number * (gl.cast(y_vectors, gl.int64) * VECTOR)
    dy += number * (gl.cast(dy_vectors, gl.int64) * VECTOR)
    dx += number * (gl.cast(vectors, gl.int64) * VECTOR)

    ps = row.load(y, 1, 0, 0.0, LOADS)
    gs = row.load(dy, 1, 0, 0.0, LOADS)
    products = gl.full(row.columns.shape, 0.0, gl.float32, row.columns.type.layout)
    for i in gl.static_range(CHUNKS):
        p = distinct(ps[i], PACKED).to(gl.float32)
        products += p * distinct(gs[i], PACKED).to(gl.float32)
    total = gl.sum(products, axis=1)
    if SLICES > 1:
        total = total_of(total, slots)
    for i in gl.static_range(CHUNKS):
        p = distinct(ps[i], PACKED).to(gl.float32)
        g = distinct(gs[i], PACKED).to(gl.float32)
        row.store(dx, 1, i, p * (g - total[:, None]) * inverse, STORES)
