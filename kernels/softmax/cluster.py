"""One row for a cluster of programs that keep it on chip and meet once: Gluon, sm_90 and up.

Passes: one; reads MN, writes MN: 2MN.
Idea: a row is cut into as many slices as its cluster has warps. A warp loads its slice straight
into registers, takes its maximum m and the sum d of exp(x − m) among its own lanes, and sends the
pair to all programs of the cluster (`mailbox`), its only word to the others. With everybody's pairs
it scales and stores. No reduction passes through a program's barrier; where the row is in registers
the wait for the letters is the only one, and other clusters' loads fill the memory meanwhile.
On chip: the row. A thread holds up to 64 float32 elements, or 128 of 16 bit, which stay packed (its
exponentials are computed twice: half the registers, so twice the warps in flight). What goes
beyond waits in shared memory, filled by asynchronous copies.
A row is covered by chunks, tiles [warps of the cluster, 32 lanes × one vector], as many as it
needs: any N, and only the last chunk is masked.
Source: this project; clusters for softmax after QuACK (Guo, Zadouri, Dao 2025), the warp-local
statistics after Milakov & Gimelshein 2018, arXiv 1805.02867.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy
import torch

from kernels.device import Device, device_of
from kernels.gluon import async_copy, barrier, constant, constexpr_function, gl, gluon_jit
from kernels.kernel import Kernel, Shape
from kernels.language import MOST_PROGRAMS
from kernels.launch import launch
from kernels.softmax.cut import Cut, cut
from kernels.softmax.mailbox import exchange, open_mailbox
from kernels.softmax.operation import SOFTMAX
from kernels.softmax.tiles import empty_result
from kernels.traffic import M, N, Traffic
from kernels.tunables import check_power_of_two
from kernels.vectors import vector, whole_vectors

LOG2E = constant(1.4426950408889634)


@dataclass(frozen=True)
class Cluster(Kernel):
    """A cluster a row.

    Attributes:
        programs: Programs of a cluster, up to 16; None takes them by the row's bytes.
        num_warps: Warps a program; None likewise.
    """

    operation = SOFTMAX
    backend = "triton"

    programs: int | None = None
    num_warps: int | None = None

    def __post_init__(self) -> None:
        if self.programs is not None:
            check_power_of_two("programs", self.programs, 1, 16)
        if self.num_warps is not None:
            check_power_of_two("num_warps", self.num_warps, 1, 16)

    def unsupported(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        """See `Kernel`."""
        if (reason := super().unsupported(shape, dtype, device)) is not None:
            return reason
        if gl is None or device.capability is None or device.capability < (9, 0):
            return "needs thread-block clusters: a CUDA device of sm_90 or newer, and Gluon"
        rows, cols = shape
        if rows * cols == 0:
            return None
        plan = self.plan(shape, dtype, whole_vectors(cols, dtype), device)
        if plan is None:
            return f"keeps a row in registers and shared memory of a cluster; {cols} do not fit"
        if plan.programs > most_programs(device):
            return f"a row of {cols} takes a cluster of {plan.programs}; {device.name} has fewer"
        if rows * plan.programs > MOST_PROGRAMS:
            return f"a launch takes {MOST_PROGRAMS} programs; here it is {plan.programs} a row"
        return None

    def plan(self, shape: Shape, dtype: torch.dtype, width: int, device: Device) -> Cut | None:
        """How a row is cut, or None where it does not fit on chip.

        Args:
            shape: Rows and columns, at least one of each.
            dtype: The elements'.
            width: Elements of the vectors that rows can be read by.
            device: Where it would run.
        """
        rows, cols = shape
        sms = device.sms or 1
        return cut((rows, cols), dtype.itemsize, width, sms, self.programs, self.num_warps)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """See `Kernel`.

        Raises:
            ValueError: the row does not fit on chip; strided columns fit less.
        """
        y = empty_result(x)
        if x.numel() > 0:
            rows, cols = x.shape
            width = vector(x)
            plan = self.plan((rows, cols), x.dtype, width, device_of(x))
            if plan is None:
                raise ValueError(f"cluster: {cols} elements read by {width} do not fit on chip")
            launch(
                _cluster,
                (rows,),
                (x, y, cols // width, x.stride(0) // width, x.stride(1)),
                {
                    "CHUNKS": plan.chunks,
                    "SHARED": plan.shared,
                    "VECTOR": width,
                    "EVEN": cols == plan.chunks * plan.chunk,
                    "PACKED": plan.packed,
                },
                num_warps=plan.warps,
                num_ctas=plan.programs,
            )
        return y

    def traffic(self) -> Traffic:
        """See `Kernel`."""
        return Traffic(reads=M * N, writes=M * N)

    def on_chip_elements(self) -> sympy.Expr:
        """See `Kernel`."""
        return N


def most_programs(device: Device) -> int:
    """Programs of the largest cluster: 16 on data-centre cards, 8 on all others of sm_90 and up."""
    assert device.capability is not None
    return 16 if device.capability[0] in (9, 10) else 8


@constexpr_function
def _of_cluster(programs: int) -> list[list[int]]:
    """Programs follow each other along a tile's rows; counted in tiles of one program."""
    return [[1 << bit, 0] for bit in range(programs.bit_length() - 1)]


@constexpr_function
def _in_registers(width: int, warps: int, programs: int) -> object:
    """A row of the tile a warp, so that a reduction along it stays among the warp's lanes."""
    return gl.BlockedLayout([1, width], [1, 32], [warps, 1], [1, 0], _of_cluster(programs))


@constexpr_function
def _in_shared_memory(width: int, programs: int) -> object:
    return gl.SwizzledSharedLayout(width, 1, 1, [1, 0], _of_cluster(programs))


@gluon_jit
def _distinct(value, PACKED: gl.constexpr):  # type: ignore[no-untyped-def]
    # Makes the compiler unpack 16-bit values anew: kept from one pass to the next, they would
    # take two registers for each one that they came in
    if PACKED:
        value = gl.inline_asm_elementwise(
            "mov.b32 $0, $1;", "=r,r", [value], value.dtype, is_pure=False, pack=2
        )
    return value


@gluon_jit
def _exponential(value, shift):  # type: ignore[no-untyped-def]
    # The difference first: x·log2(e) − m·log2(e) as one fused step loses the digits of a large x
    return gl.exp2((value.to(gl.float32) - shift[:, None]) * LOG2E)


@gluon_jit
def _cluster(  # type: ignore[no-untyped-def]
    x,
    y,
    vectors,
    row_vectors,
    col_stride,
    CHUNKS: gl.constexpr,
    SHARED: gl.constexpr,
    VECTOR: gl.constexpr,
    EVEN: gl.constexpr,
    PACKED: gl.constexpr,
):
    WARPS: gl.constexpr = gl.num_warps()
    PROGRAMS: gl.constexpr = gl.num_ctas()
    SLICES: gl.constexpr = PROGRAMS * WARPS
    WIDTH: gl.constexpr = 32 * VECTOR
    CHUNK: gl.constexpr = SLICES * WIDTH
    layout: gl.constexpr = _in_registers(VECTOR, WARPS, PROGRAMS)
    HELD: gl.constexpr = CHUNKS - SHARED  # chunks in registers
    TOGETHER: gl.constexpr = 2 if SHARED % 2 == 0 else 1  # chunks read from shared memory at once

    if SLICES > 1:
        box = gl.inline_asm_elementwise(
            open_mailbox(PROGRAMS, WARPS), "=r", [], gl.int32, is_pure=False, pack=1
        )
    # Triton's own program_id divides by the cluster's programs
    row = gl.inline_asm_elementwise(
        "mov.u32 $0, %clusterid.x;", "=r", [], gl.int32, is_pure=True, pack=1
    ).to(gl.int64)
    slice_ = gl.arange(0, SLICES, gl.SliceLayout(1, layout))
    within = gl.arange(0, WIDTH, gl.SliceLayout(0, layout))
    columns = (slice_[:, None] * WIDTH + within[None, :]).to(gl.int64)
    # Lengths come in vectors, so that the compiler knows that each is a whole number of them; a
    # length of 1 it makes a constant, which has no dtype to change
    source = x + row * (gl.cast(row_vectors, gl.int64) * VECTOR)
    target = y + row * (gl.cast(vectors, gl.int64) * VECTOR) + columns

    if SHARED > 0:
        waiting = gl.allocate_shared_memory(
            x.dtype.element_ty, [SHARED, SLICES, WIDTH], _in_shared_memory(VECTOR, PROGRAMS)
        )
        for i in gl.static_range(SHARED):
            place = source + (columns + i * CHUNK) * col_stride
            async_copy.async_copy_global_to_shared(waiting.index(i), place, cache_modifier=".cg")
        async_copy.commit_group()
    values = ()  # type: tuple[gl.tensor, ...]
    for i in gl.static_range(SHARED, CHUNKS):
        place = source + (columns + i * CHUNK) * col_stride
        if EVEN or i + 1 < CHUNKS:
            value = gl.load(place, cache_modifier=".cg")
        else:
            inside = (columns + i * CHUNK) // VECTOR < vectors
            value = gl.load(place, mask=inside, other=float("-inf"), cache_modifier=".cg")
        values += (value,)

    highest = values[0].to(gl.float32)
    for i in gl.static_range(1, HELD):
        highest = gl.maximum(highest, values[i].to(gl.float32))
    if SHARED > 0:
        async_copy.wait_group(0)
        barrier()
        for i in range(0, SHARED, TOGETHER):
            for j in gl.static_range(TOGETHER):
                value = waiting.index(i + j).load(layout)
                highest = gl.maximum(highest, value.to(gl.float32))
    maximum = gl.max(highest, axis=1)
    # −inf − −inf would be NaN where only this slice is all −inf
    shift = gl.where(maximum == float("-inf"), 0.0, maximum)

    exponentials = ()  # type: tuple[gl.tensor, ...]
    total = gl.full([SLICES, WIDTH], 0.0, gl.float32, layout)
    for i in gl.static_range(HELD):
        exponential = _exponential(_distinct(values[i], PACKED), shift)
        total = total + exponential
        if not PACKED:
            exponentials += (exponential,)
    if SHARED > 0:
        barrier()  # between two passes over shared memory, or the compiler keeps it in registers
        for i in range(0, SHARED, TOGETHER):
            for j in gl.static_range(TOGETHER):
                total = total + _exponential(waiting.index(i + j).load(layout), shift)
    summed = gl.sum(total, axis=1)  # NaN comes through here: Triton's maximum passes over it

    if SLICES > 1:
        inverse, row_maximum = gl.inline_asm_elementwise(
            exchange(PROGRAMS, WARPS),
            "=f,=f,f,f,r",
            [maximum, summed, box],
            (gl.float32, gl.float32),
            is_pure=False,
            pack=1,
        )
    else:
        inverse = 1.0 / summed
        row_maximum = shift
    scale = inverse * gl.exp2((maximum - row_maximum) * LOG2E)

    if SHARED > 0:
        barrier()
        for i in range(0, SHARED, TOGETHER):
            for j in gl.static_range(TOGETHER):
                exponential = _exponential(waiting.index(i + j).load(layout), row_maximum)
                value = (exponential * inverse[:, None]).to(y.dtype.element_ty)
                gl.store(target + (i + j) * CHUNK, value)
    for i in gl.static_range(HELD):
        if PACKED:
            exponential = _exponential(_distinct(values[i], PACKED), row_maximum)
            value = (exponential * inverse[:, None]).to(y.dtype.element_ty)
        else:
            value = (exponentials[i] * scale[:, None]).to(y.dtype.element_ty)
        if EVEN or i + 1 < HELD:
            gl.store(target + (i + SHARED) * CHUNK, value)
        else:
            inside = (columns + (i + SHARED) * CHUNK) // VECTOR < vectors
            gl.store(target + (i + SHARED) * CHUNK, value, mask=inside)
