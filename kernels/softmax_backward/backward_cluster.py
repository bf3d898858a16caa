"""The gradient of softmax, a row for a cluster that keeps it on chip: Gluon, sm_90 and up.

dx = y∘(dy − s), s = Σ y∘dy.
Passes: one; reads 2MN, writes MN: 3MN.
Idea: as `softmax/cluster.py`: a row is cut into as many slices as its cluster has warps. A warp
loads its slices of y and dy straight into registers, sums their products among its own lanes, and
sends the sum to all programs of the cluster, the only message among them. With all sums it writes.
On chip: one row each of y and dy. A thread holds up to 32 float32 elements of each, or 64 of 16
bit, which stay packed.
Rows are whole vectors of 16 bytes; others go to `backward`.
Source: this project; the derivative as in PyTorch's ``_softmax_backward_data``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from typing_extensions import override

from ..device import Device, device_of
from ..kernel import Shape, power_of_two
from ..language import constexpr_function, gl, gluon_jit
from ..launch import launch, load_hint, store_hint
from ..softmax.cluster import (
    SLOT,
    Cut,
    add_lanes,
    clusters_missing,
    cut,
    deliver,
    distinct,
    in_registers,
    not_launched,
    open_slots,
    row_of,
)
from ..softmax.tiles import LONGEST
from ..traffic import M, N, Traffic
from .operation import Gradient


@dataclass(frozen=True)
class BackwardCluster(Gradient):
    """A cluster a row.

    Attributes:
        programs: Programs of a cluster, up to 16; None takes them by M, N and dtype.
        num_warps: Warps per program; None decides by the same rule.
    """

    moves = Traffic(reads=2 * M * N, writes=M * N)
    on_chip = 2 * N

    programs: Annotated[int | None, power_of_two(1, 16)] = None
    num_warps: Annotated[int | None, power_of_two(1, 16)] = None

    @override
    def unsupported(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        reason = super().unsupported(shape, dtype, device) or clusters_missing(device)
        if reason is not None or 0 in shape:
            return reason
        cols = shape[1]
        if cols * dtype.itemsize % LONGEST != 0:
            return f"takes rows of whole vectors of {LONGEST} bytes, not {cols * dtype.itemsize}"
        plan = self.plan(shape, dtype, device)
        return not_launched(plan, shape, device, "registers", self.programs)

    def plan(self, shape: Shape, dtype: torch.dtype, device: Device) -> Cut | None:
        """How each row is cut, or None where it does not fit."""
        rows, cols = shape
        width, size = LONGEST // dtype.itemsize, dtype.itemsize
        return cut((rows, cols), size, width, device, self.programs, self.num_warps, tensors=2)

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
        rows, cols = y.shape
        width = LONGEST // y.element_size()
        plan = self.plan((rows, cols), y.dtype, device_of(y))
        if not all(map(in_vectors, (y, dy, dx))):
            raise ValueError(f"backward_cluster: rows are not whole vectors of {LONGEST} bytes")
        if plan is None:
            raise ValueError(f"backward_cluster: rows of {cols} do not fit on chip")
        launch(
            _backward_cluster,
            (rows,),
            (
                y,
                dy,
                dx,
                cols // width,
                y.stride(0) // width,
                dy.stride(0) // width,
                1 / temperature,
            ),
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
    size = x.element_size()
    rows, cols = x.shape
    ends = (cols * size) | (x.stride(0) * size if rows > 1 else 0) | x.data_ptr()
    return x.stride(1) == 1 and ends % LONGEST == 0


@constexpr_function
def total_of(programs: int, warps: int) -> str:
    """PTX that turns a warp's sum, ``$1``, into the row's, ``$0``; ``$2`` is the slots' address.

    Every warp adds in the same order, so that all agree to the last bit.
    """
    slots = programs * warps
    each = max(1, slots // 32)  # messages a lane reads
    guard = "@p " if slots < 32 else ""
    lines = [
        ".reg .pred p;",
        ".reg .b32 lane, thread, warp, program, slot, arrived, there, signal;",
        ".reg .b64 message;",
        ".reg .f32 sum, other, term;",
        "mov.u32 lane, %laneid;",
        "mov.u32 thread, %tid.x;",
        "shr.u32 warp, thread, 5;",
        "mov.b64 message, {$1, $1};",
        *deliver(programs, warps, "$2"),
    ]
    if slots < 32:
        lines.append(f"setp.lt.u32 p, lane, {slots};")
    lines += [f"mad.lo.u32 slot, lane, {SLOT}, $2;", "mov.f32 sum, 0f00000000;"]
    for i in range(each):
        lines += [
            "mov.f32 term, 0f00000000;",
            f"{guard}ld.shared.f32 term, [slot+{32 * SLOT * i}];",
            "add.f32 sum, sum, term;",
        ]
    lines += [*add_lanes("sum", min(32, slots)), "mov.f32 $0, sum;"]
    return "{\n" + "\n".join(lines) + "\n}"


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
    WARPS: gl.constexpr = gl.num_warps()
    PROGRAMS: gl.constexpr = gl.num_ctas()
    SLICES: gl.constexpr = PROGRAMS * WARPS
    WIDTH: gl.constexpr = 32 * VECTOR
    CHUNK: gl.constexpr = SLICES * WIDTH
    layout: gl.constexpr = in_registers(VECTOR, WARPS, PROGRAMS)
    CACHE: gl.constexpr = ".cg" if LOADS == "" else ""  # PTX takes one or the other

    if SLICES > 1:
        slots = gl.inline_asm_elementwise(
            open_slots(PROGRAMS, WARPS), "=r", [], gl.int32, is_pure=False, pack=1
        )
    row = gl.inline_asm_elementwise(row_of(PROGRAMS), "=r", [], gl.int32, is_pure=True, pack=1).to(
        gl.int64
    )
    slice_ = gl.arange(0, SLICES, gl.SliceLayout(1, layout))
    within = gl.arange(0, WIDTH, gl.SliceLayout(0, layout))
    columns = (slice_[:, None] * WIDTH + within[None, :]).to(gl.int64)
    y += row * (gl.cast(y_vectors, gl.int64) * VECTOR)
    dy += row * (gl.cast(dy_vectors, gl.int64) * VECTOR)
    dx += row * (gl.cast(vectors, gl.int64) * VECTOR)

    ps = ()  # type: tuple[gl.tensor, ...]
    gs = ()  # type: tuple[gl.tensor, ...]
    for i in gl.static_range(CHUNKS):
        place = columns + i * CHUNK
        if EVEN or i + 1 < CHUNKS:
            p = gl.load(y + place, cache_modifier=CACHE, eviction_policy=LOADS)
            g = gl.load(dy + place, cache_modifier=CACHE, eviction_policy=LOADS)
        else:
            inside = place // VECTOR < vectors
            p = gl.load(
                y + place, mask=inside, other=0.0, cache_modifier=CACHE, eviction_policy=LOADS
            )
            g = gl.load(
                dy + place, mask=inside, other=0.0, cache_modifier=CACHE, eviction_policy=LOADS
            )
        ps += (p,)
        gs += (g,)

    products = gl.full([SLICES, WIDTH], 0.0, gl.float32, layout)
    for i in gl.static_range(CHUNKS):
        p = distinct(ps[i], PACKED).to(gl.float32)
        products += p * distinct(gs[i], PACKED).to(gl.float32)
    total = gl.sum(products, axis=1)
    if SLICES > 1:
        total = gl.inline_asm_elementwise(
            total_of(PROGRAMS, WARPS), "=f,f,r", [total, slots], gl.float32, is_pure=False, pack=1
        )
    for i in gl.static_range(CHUNKS):
        place = columns + i * CHUNK
        p = distinct(ps[i], PACKED).to(gl.float32)
        g = distinct(gs[i], PACKED).to(gl.float32)
        value = (p * (g - total[:, None]) * inverse).to(dx.dtype.element_ty)
        if EVEN or i + 1 < CHUNKS:
            gl.store(dx + place, value, eviction_policy=STORES)
        else:
            gl.store(dx + place, value, mask=place // VECTOR < vectors, eviction_policy=STORES)
