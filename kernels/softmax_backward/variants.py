"""The gradient of softmax and log-softmax: by tiles, several rows a program, a cluster per row.

Of softmax dx = y∘(dy − s), s = Σ y∘dy; of log-softmax dx = dy − exp(y)·s, s = Σ dy. So s must be
known before the first element is written.
Passes: one where the rows of y and dy stay on chip: reads 2MN, writes MN: 3MN. Else two: the sum,
then the answer from the last tile to the first, which the cache still holds in part: 5MN; of
log-softmax, whose sum takes dy alone, 4MN.
- backward: one pass where N ≤ `block_size`, else two. Narrow rows are taken several a program.
- backward_multirow, as `softmax/fused_multirow.py`: tiles of (rows, elements that a warp loads at
  once), in vectors of 16 bytes where rows and strides are whole vectors. A row's sum stays in its
  warp, or in half of one, and all loads are under way before it is asked for. One pass.
- backward_cluster, as `softmax/cluster.py` (Gluon, sm_90 and up): each warp of the cluster loads
  its slices of y and dy into registers, sums their products among its own lanes, and sends the sum
  to all programs of the cluster. This is the only message. With all sums the warp writes its slice.
  Rows may be unaligned (`kernels.vectors`). One pass.
- backward_auto and log_softmax_backward_auto, by which `softmax(x)` and `log_softmax(x)` are
  differentiated: rows of adjacent elements up to 512 elements, unaligned ones up to 384, go several
  a program; wider ones by a cluster up to 262144, on sm_90 and newer; others by tiles. The second
  cuts any number of rows alike.
On chip: one row each of y and dy, of multirow several; of `backward` 2N elements padded to powers
of two, or two tiles. A thread of a cluster holds up to 32 float32 elements of each, or 64 of 16
bit, which stay packed.
Source: this project; the derivative as in PyTorch's ``_softmax_backward_data``, multirow's tiles
after its PersistentSoftmax.cuh, passes by tiles as `online`; docs/lab_book.md has the measurements.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, ClassVar, NamedTuple

import torch
from typing_extensions import override

from ..cluster.cut import OnCluster
from ..cluster.row import (
    by_lane,
    distinct,
    ends_of,
    in_registers,
    of_slices,
    row_at,
    row_number,
    slots_of,
    totals_of,
    whole_row,
)
from ..device import Device, device_of
from ..kernel import Kernel, Shape, power_of_two, variant
from ..language import LOG2E, gl, gluon_jit, jit, tl
from ..launch import launch
from ..lines import Sizes, columns_of, launch_tiles, lines_of, starts
from ..softmax.fused_multirow import Multirow
from ..traffic import BLOCK_SIZE, M, N, Traffic, by_width
from ..vectors import LONGEST, reading, vector
from .operation import LOG_SOFTMAX_BACKWARD, SOFTMAX_BACKWARD

LARGEST = 1 << 15  # elements of a tile: two of them in registers are all that a block has
NARROW, NARROW_UNALIGNED = 512, 384  # elements of a row that shares a program
WIDEST = 1 << 18  # elements of a row of a cluster; twice as many of 16 bit would fit
Three = tuple[torch.Tensor, torch.Tensor, torch.Tensor]  # y, dy and dx


class GradientOptions(NamedTuple):
    """What is differentiated: softmax(x / temperature) or log-softmax, along a dimension."""

    dim: int = 1
    temperature: float = 1.0  # 1 for log-softmax
    fixed: bool = False  # whether no bit of a row may depend on the number of rows
    log: bool = False  # whether it is log-softmax


class Gradient(Kernel):
    """A variant that writes into memory that it is given; here in one pass."""

    operation = SOFTMAX_BACKWARD
    usual: ClassVar[GradientOptions] = GradientOptions()  # of a call by the harness
    backend = "triton"
    moves = Traffic(reads=2 * M * N, writes=M * N)
    on_chip = 2 * N

    @override
    def __call__(self, y: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
        dx = torch.empty(y.shape, dtype=y.dtype, device=y.device)
        if dx.numel() > 0:
            self.into((y, dy, dx), self.usual)
        return dx

    @abstractmethod
    def into(self, tensors: Three, options: GradientOptions) -> None:
        """Writes the gradient into the last tensor, dx.

        y is the function's answer, of at least one element, and dy its gradient. dx is contiguous,
        and of any floating dtype. A variant of rows takes two dimensions, and ``dim`` is 1; its own
        tunables decide whether bits depend on the number of rows.
        """


@dataclass(frozen=True)
class Backward(Gradient):
    """A tile of one wide row or of several narrow ones a program."""

    dtypes = (*Kernel.dtypes, torch.float64)
    moves = Traffic(reads=by_width(BLOCK_SIZE, 2 * M * N, 4 * M * N), writes=M * N)
    on_chip = by_width(BLOCK_SIZE, 2 * N, 2 * BLOCK_SIZE)
    row_a_program = True

    block_size: Annotated[int, power_of_two(1, LARGEST)] = 16384
    num_warps: Annotated[int | None, power_of_two(1, 32)] = None

    @override
    def into(self, tensors: Three, options: GradientOptions) -> None:
        """See `Gradient`; dimensions before and after ``dim`` can be merged into one each."""
        how = options.dim, options.temperature, self.block_size, self.num_warps, options.fixed
        launch_tiles(_backward, tensors, *how, LOG=options.log)


@dataclass(frozen=True)
class BackwardMultirow(Multirow, Gradient):
    """See `Multirow`."""

    widest, most_a_lane = 2048, 64  # elements of y, and as many of dy

    @override
    def into(self, tensors: Three, options: GradientOptions) -> None:
        """See `Gradient`; ``dx`` begins at a multiple of 16 bytes."""
        y, dy, dx = tensors
        (rows, cols), elements = y.shape, vector(y, dy)
        programs, how, warps = self.cut(y, elements)
        strides = [(t.stride(0) // elements, t.stride(1)) for t in (y, dy)]
        arguments = (y, dy, dx, rows, cols // elements, *strides, 1 / options.temperature)
        constants = {"HOW": how, "LOG": options.log}
        launch(_backward_multirow, (programs,), arguments, constants, num_warps=warps)


@dataclass(frozen=True)
class BackwardCluster(OnCluster, Gradient):
    """A cluster a row; see `OnCluster`."""

    matrices = 2

    @override
    def into(self, tensors: Three, options: GradientOptions) -> None:
        y, dy, dx = tensors
        self.launch_rows(_backward_cluster, (y, dy), dx, 1 / options.temperature, LOG=options.log)


NARROW_ROWS, CLUSTER, TILES = BackwardMultirow(), BackwardCluster(), Backward()


class BackwardAuto(Gradient):
    """Several rows a program or a cluster a row where that suits, else tiles."""

    dtypes = (*Kernel.dtypes, torch.float64)
    # the widest row on chip is an H200's
    moves = Traffic(reads=by_width(WIDEST, 2 * M * N, 4 * M * N), writes=M * N)
    on_chip = by_width(WIDEST, 2 * N, 2 * TILES.block_size)

    @override
    def limits(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        chosen = _chosen_by(shape, dtype, device, self.usual.fixed)
        return chosen.unsupported(shape, dtype, device)

    @override
    def into(self, tensors: Three, options: GradientOptions) -> None:
        y, dy, dx = tensors
        chosen: Gradient = TILES
        if options.dim == y.dim() - 1 and dx.dtype == y.dtype == dy.dtype:
            if y.dim() != 2 and y.is_contiguous() and dy.is_contiguous():
                y, dy, dx = (t.view(-1, t.shape[-1]) for t in tensors)
                tensors, options = (y, dy, dx), options._replace(dim=1)
            if y.dim() == 2 and reading(y, dy, dx)[0] * y.element_size() == LONGEST:
                chosen = _chosen_by(tuple(y.shape), y.dtype, device_of(y), options.fixed)
        chosen.into(tensors, options)


LogSoftmaxBackwardAuto = variant(
    BackwardAuto,
    LOG_SOFTMAX_BACKWARD,
    usual=GradientOptions(fixed=True, log=True),
    moves=Traffic(reads=by_width(WIDEST, 2 * M * N, 3 * M * N), writes=M * N),
)


@lru_cache(maxsize=4096)
def _chosen_by(shape: Shape, dtype: torch.dtype, device: Device, fixed: bool) -> Gradient:
    """The variant for rows of adjacent elements; ``fixed`` cuts any number of rows alike."""
    unaligned = shape[1] * dtype.itemsize % LONGEST != 0
    narrow = shape[1] <= (NARROW_UNALIGNED if unaligned else NARROW)
    chosen = NARROW_ROWS if narrow else CLUSTER
    if shape[1] > WIDEST or chosen.unsupported(shape, dtype, device) is not None:
        return TILES
    return chosen.for_any_rows(shape[1], dtype, device) if fixed else chosen


@jit
def _term(p: tl.tensor, g: tl.tensor, LOG: tl.constexpr) -> tl.tensor:
    """What a row's sum s adds."""
    if LOG:
        return g
    return p * g


@jit
def _gradient(
    p: tl.tensor, g: tl.tensor, total: tl.tensor, scale: tl.tensor, LOG: tl.constexpr
) -> tl.tensor:
    if LOG:
        return g - tl.exp2(p * LOG2E) * total
    return p * (g - total) * scale


@jit
def _backward(
    y: tl.tensor,
    dy: tl.tensor,
    dx: tl.tensor,
    y_strides: tl.tuple,
    dy_strides: tl.tuple,
    dx_strides: tl.tuple,
    sizes: Sizes,
    inverse: tl.float64,  # a plain float would be float32
    BLOCK: tl.constexpr,
    WIDTH: tl.constexpr,
    WHOLE: tl.constexpr,
    LOG: tl.constexpr,
) -> None:
    STATISTICS: tl.constexpr = tl.float64 if y.dtype.element_ty == tl.float64 else tl.float32
    dtype: tl.constexpr = dx.dtype.element_ty
    line, inside = lines_of(WIDTH, sizes)
    y, y_col = starts(y, line, sizes, y_strides), y_strides[1]
    dy, dy_col = starts(dy, line, sizes, dy_strides), dy_strides[1]
    dx, dx_col = starts(dx, line, sizes, dx_strides), dx_strides[1]
    scale = tl.full((), inverse, tl.float64).to(STATISTICS)
    if WHOLE:
        columns, there = columns_of(0, inside, sizes, BLOCK)
        p = tl.load(y + columns * y_col, there, 0.0).to(STATISTICS)
        g = tl.load(dy + columns * dy_col, there, 0.0).to(STATISTICS)
        total = tl.sum(_term(p, g, LOG), axis=0)
        gradient = _gradient(p, g, total[None, :], scale, LOG)
        tl.store(dx + columns * dx_col, gradient.to(dtype), there)
    else:
        tiles = tl.cdiv(sizes.cols, BLOCK)
        total = tl.zeros((WIDTH,), STATISTICS)
        for tile in range(tiles):
            columns, there = columns_of(tile, inside, sizes, BLOCK)
            p = tl.load(y + columns * y_col, there, 0.0).to(STATISTICS)
            g = tl.load(dy + columns * dy_col, there, 0.0).to(STATISTICS)
            total += tl.sum(_term(p, g, LOG), axis=0)
        for index in range(tiles):  # what was read last is still in the cache
            columns, there = columns_of(tiles - 1 - index, inside, sizes, BLOCK)
            p = tl.load(y + columns * y_col, there, 0.0).to(STATISTICS)
            g = tl.load(dy + columns * dy_col, there, 0.0).to(STATISTICS)
            gradient = _gradient(p, g, total[None, :], scale, LOG)
            tl.store(dx + columns * dx_col, gradient.to(dtype), there)


@jit
def _backward_multirow(
    y: tl.tensor,
    dy: tl.tensor,
    dx: tl.tensor,
    rows: tl.tensor,
    vectors: tl.tensor,
    y_strides: tl.tuple,
    dy_strides: tl.tuple,
    inverse: tl.float64,  # a plain float would be float32
    HOW: tl.constexpr,
    LOG: tl.constexpr,
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
    y += row * y_strides[0] * VECTOR
    dy += row * dy_strides[0] * VECTOR
    dx += row * cols

    ps: tl.tuple = ()
    gs: tl.tuple = ()
    for piece in tl.static_range(PIECES):
        columns = piece * WIDTH + lane
        inside = (row < rows) & (columns < cols)
        p = tl.load(y + columns * y_strides[1], mask=inside, other=0.0, eviction_policy=LOADS)
        g = tl.load(dy + columns * dy_strides[1], mask=inside, other=0.0, eviction_policy=LOADS)
        ps = ps + (p.to(STATISTICS),)  # noqa: RUF005, Triton unpacks no tuple
        gs = gs + (g.to(STATISTICS),)  # noqa: RUF005

    products = tl.zeros((ROWS, WIDTH), STATISTICS)
    for piece in tl.static_range(PIECES):
        products += _term(ps[piece], gs[piece], LOG)
    total = tl.sum(products, 1)[:, None]
    scale = tl.full((), inverse, tl.float64).to(STATISTICS)

    for piece in tl.static_range(PIECES):
        columns = piece * WIDTH + lane
        inside = (row < rows) & (columns < cols)
        value = _gradient(ps[piece], gs[piece], total, scale, LOG).to(dx.dtype.element_ty)
        tl.store(dx + columns, value, mask=inside, eviction_policy=STORES)


@gluon_jit
def _of_packed(p, g, total, scale, LOG: gl.constexpr, PACKED: gl.constexpr = False):  # type: ignore[no-untyped-def]
    p, g = distinct(p, PACKED).to(gl.float32), distinct(g, PACKED).to(gl.float32)
    return _gradient(p, g, total, scale, LOG)


@gluon_jit
def _backward_cluster(  # type: ignore[no-untyped-def]
    y, dy, dx, cols, y_at, dy_at, inverse, HOW: gl.constexpr, LOG: gl.constexpr
):
    LOADS: gl.constexpr = HOW.loads
    STORES: gl.constexpr = HOW.stores
    VECTOR: gl.constexpr = HOW.vector
    SLICES: gl.constexpr = gl.num_ctas() * gl.num_warps()
    single: gl.constexpr = in_registers(1, gl.num_warps(), gl.num_ctas())
    if SLICES > 1:
        slots = slots_of(1)
    number, vectors = row_number().to(gl.int64), cols
    first_y, y = row_at(y, number, y_at[0], VECTOR, HOW.ends)
    first_dy, dy = row_at(dy, number, dy_at[0], VECTOR, HOW.ends)
    first_dx, dx = row_at(dx, number, cols, VECTOR, HOW.ends)
    if HOW.ends:
        end, at_end, vectors, _ = ends_of(number, y_at[0], gl.cast(cols, gl.int32), VECTOR, single)
    row = whole_row(vectors, HOW.chunks, VECTOR, HOW.even)

    ps = row.load(y, y_at[1], 0, 0.0, LOADS)
    gs = row.load(dy, dy_at[1], 0, 0.0, LOADS)
    product_at_end = None
    if HOW.ends:
        p_at_end = gl.load(first_y + end, mask=at_end, other=0.0).to(gl.float32)
        g_at_end = gl.load(first_dy + end, mask=at_end, other=0.0).to(gl.float32)
        product_at_end = _term(p_at_end, g_at_end, LOG)
    products = gl.full(row.columns.shape, 0.0, gl.float32, row.columns.type.layout)
    for i in gl.static_range(row.CHUNKS):
        p = distinct(ps[i], HOW.packed).to(gl.float32)
        products += _term(p, distinct(gs[i], HOW.packed).to(gl.float32), LOG)
    total = of_slices(products, product_at_end, VECTOR, gl.sum)
    if SLICES > 1:
        total = totals_of((total,), slots)[0]
    for i in gl.static_range(row.CHUNKS):
        value = _of_packed(ps[i], gs[i], total[:, None], inverse, LOG, HOW.packed)
        row.store(dx, 1, i, value, STORES)
    if HOW.ends:
        value = _of_packed(p_at_end, g_at_end, by_lane(total, single), inverse, LOG)
        gl.store(first_dx + end, value.to(dx.dtype.element_ty), mask=at_end)
