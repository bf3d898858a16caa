"""The gradient of softmax by rows that stay on chip: several per program, or a cluster per row.

dx = y∘(dy − s), s = Σ y∘dy.
Passes: one; reads 2MN, writes MN: 3MN.
- backward_multirow, as `softmax/fused_multirow.py`: tiles of (rows, elements that a warp loads at
  once), in vectors of 16 bytes where rows and strides are whole vectors. A row's sum stays in its
  warp, or in half of one, and all loads are under way before it is asked for.
- backward_cluster, as `softmax/cluster.py` (Gluon, sm_90 and up): each warp of the cluster loads
  its slices of y and dy into registers, sums their products among its own lanes, and sends the sum
  to all programs of the cluster. This is the only message. With all sums the warp writes its slice.
  Rows are whole vectors of 16 bytes; others go to `backward`.
On chip: one row each of y and dy, of multirow several. A thread of a cluster holds up to 32 float32
elements of each, or 64 of 16 bit, which stay packed.
Source: this project; the derivative as in PyTorch's ``_softmax_backward_data``, multirow's tiles
after its PersistentSoftmax.cuh.
"""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import override

from ..cluster.cut import OnCluster
from ..cluster.row import distinct, row_number, slots_of, total_of, whole_row
from ..device import device_of
from ..language import gl, gluon_jit, jit, tl
from ..launch import launch
from ..softmax.fused_multirow import Multirow
from ..traffic import M, N, Traffic
from ..vectors import LONGEST, in_vectors, vector
from .operation import Gradient, Three


@dataclass(frozen=True)
class BackwardMultirow(Multirow, Gradient):
    """See `Multirow`."""

    moves = Traffic(reads=2 * M * N, writes=M * N)
    on_chip = 2 * N
    widest, most_a_lane = 2048, 64  # elements of y, and as many of dy

    @override
    def into(self, tensors: Three, dim: int = 1, temperature: float = 1.0) -> None:
        """See `Gradient`; ``dx`` begins at a multiple of 16 bytes."""
        y, dy, dx = tensors
        (rows, cols), elements = y.shape, vector(y, dy)
        programs, how, warps = self.cut(y, elements)
        strides = y.stride(0) // elements, y.stride(1), dy.stride(0) // elements, dy.stride(1)
        arguments = (y, dy, dx, rows, cols // elements, *strides, 1 / temperature)
        launch(_backward_multirow, (programs,), arguments, {"HOW": how}, num_warps=warps)


@dataclass(frozen=True)
class BackwardCluster(OnCluster, Gradient):
    """A cluster a row; see `OnCluster`."""

    moves = Traffic(reads=2 * M * N, writes=M * N)
    on_chip = 2 * N
    matrices, in_vectors = 2, True

    @override
    def into(self, tensors: Three, dim: int = 1, temperature: float = 1.0) -> None:
        """See `Gradient`; the rows of all tensors are whole vectors of 16 bytes.

        Raises:
            ValueError: a row does not begin or end at a vector, or does not fit on chip.
        """
        y, dy, dx = tensors
        (rows, cols), width = y.shape, LONGEST // y.element_size()
        plan = self.plan((rows, cols), y.dtype, width, device_of(y))
        if not all(map(in_vectors, tensors)):
            raise ValueError(f"backward_cluster: rows are not whole vectors of {LONGEST} bytes")
        if plan is None:
            raise ValueError(f"backward_cluster: rows of {cols} do not fit on chip")
        strides = (y.stride(0) // width, dy.stride(0) // width)
        arguments = (y, dy, dx, cols // width, *strides, 1 / temperature)
        plan.launch(_backward_cluster, rows, arguments, plan.how(y, width))


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
    HOW: tl.constexpr,
) -> None:
    STATISTICS: tl.constexpr = tl.float64 if y.dtype.element_ty == tl.float64 else tl.float32
    ROWS: tl.constexpr = HOW.rows
    WIDTH: tl.constexpr = HOW.width
    PIECES: tl.constexpr = HOW.pieces
    LOADS: tl.constexpr = HOW.loads
    STORES: tl.constexpr = HOW.stores
    VECTOR: tl.constexpr = HOW.vector
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


@gluon_jit
def _backward_cluster(y, dy, dx, vectors, y_vectors, dy_vectors, inverse, HOW: gl.constexpr):  # type: ignore[no-untyped-def]
    LOADS: gl.constexpr = HOW.loads
    STORES: gl.constexpr = HOW.stores
    PACKED: gl.constexpr = HOW.packed
    VECTOR: gl.constexpr = HOW.vector
    SLICES: gl.constexpr = gl.num_ctas() * gl.num_warps()
    if SLICES > 1:
        slots = slots_of(1)
    number = row_number().to(gl.int64)
    row = whole_row(vectors, HOW.chunks, VECTOR, HOW.even)
    y += number * (gl.cast(y_vectors, gl.int64) * VECTOR)
    dy += number * (gl.cast(dy_vectors, gl.int64) * VECTOR)
    dx += number * (gl.cast(vectors, gl.int64) * VECTOR)

    ps = row.load(y, 1, 0, 0.0, LOADS)
    gs = row.load(dy, 1, 0, 0.0, LOADS)
    products = gl.full(row.columns.shape, 0.0, gl.float32, row.columns.type.layout)
    for i in gl.static_range(row.CHUNKS):
        p = distinct(ps[i], PACKED).to(gl.float32)
        products += p * distinct(gs[i], PACKED).to(gl.float32)
    total = gl.sum(products, axis=1)
    if SLICES > 1:
        total = total_of(total, slots)
    for i in gl.static_range(row.CHUNKS):
        p = distinct(ps[i], PACKED).to(gl.float32)
        g = distinct(gs[i], PACKED).to(gl.float32)
        row.store(dx, 1, i, p * (g - total[:, None]) * inverse, STORES)
