"""What each program of `cluster` runs: device code in Gluon."""

from __future__ import annotations

from kernels.dependent import WAIT
from kernels.gluon import async_copy, barrier, gl, gluon_jit
from kernels.language import constant
from kernels.softmax.cluster.layouts import in_registers, in_shared_memory
from kernels.softmax.cluster.mailbox import exchange, open_mailbox, row_of

LOG2E = constant(1.4426950408889634)


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
    LOADS: gl.constexpr,
    STORES: gl.constexpr,
    DEPENDENT: gl.constexpr,
):
    WARPS: gl.constexpr = gl.num_warps()
    PROGRAMS: gl.constexpr = gl.num_ctas()
    SLICES: gl.constexpr = PROGRAMS * WARPS
    WIDTH: gl.constexpr = 32 * VECTOR
    CHUNK: gl.constexpr = SLICES * WIDTH
    layout: gl.constexpr = in_registers(VECTOR, WARPS, PROGRAMS)
    HELD: gl.constexpr = CHUNKS - SHARED  # chunks in registers
    TOGETHER: gl.constexpr = 2 if SHARED % 2 == 0 else 1  # chunks read from shared memory at once
    CACHE: gl.constexpr = ".cg" if LOADS == "" else ""  # PTX takes one or the other

    if DEPENDENT:
        gl.inline_asm_elementwise(WAIT, "=r", [], gl.int32, is_pure=False, pack=1)
    if SLICES > 1:
        box = gl.inline_asm_elementwise(
            open_mailbox(PROGRAMS, WARPS), "=r", [], gl.int32, is_pure=False, pack=1
        )
    row = gl.inline_asm_elementwise(row_of(PROGRAMS), "=r", [], gl.int32, is_pure=True, pack=1).to(
        gl.int64
    )
    slice_ = gl.arange(0, SLICES, gl.SliceLayout(1, layout))
    within = gl.arange(0, WIDTH, gl.SliceLayout(0, layout))
    columns = (slice_[:, None] * WIDTH + within[None, :]).to(gl.int64)
    # Lengths come in vectors, so that the compiler knows that each is a whole number of them; a
    # length of 1 it makes a constant, which has no dtype to change
    source = x + row * (gl.cast(row_vectors, gl.int64) * VECTOR)
    target = y + row * (gl.cast(vectors, gl.int64) * VECTOR) + columns

    if SHARED > 0:
        waiting = gl.allocate_shared_memory(
            x.dtype.element_ty, [SHARED, SLICES, WIDTH], in_shared_memory(VECTOR, PROGRAMS)
        )
        for i in gl.static_range(SHARED):
            place = source + (columns + i * CHUNK) * col_stride
            async_copy.async_copy_global_to_shared(waiting.index(i), place, cache_modifier=".cg")
        async_copy.commit_group()
    values = ()  # type: tuple[gl.tensor, ...]
    for i in gl.static_range(SHARED, CHUNKS):
        place = source + (columns + i * CHUNK) * col_stride
        if EVEN or i + 1 < CHUNKS:
            value = gl.load(place, cache_modifier=CACHE, eviction_policy=LOADS)
        else:
            inside = (columns + i * CHUNK) // VECTOR < vectors
            value = gl.load(
                place,
                mask=inside,
                other=float("-inf"),
                cache_modifier=CACHE,
                eviction_policy=LOADS,
            )
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
                gl.store(target + (i + j) * CHUNK, value, eviction_policy=STORES)
    for i in gl.static_range(HELD):
        if PACKED:
            exponential = _exponential(_distinct(values[i], PACKED), row_maximum)
            value = (exponential * inverse[:, None]).to(y.dtype.element_ty)
        else:
            value = (exponentials[i] * scale[:, None]).to(y.dtype.element_ty)
        if EVEN or i + 1 < HELD:
            gl.store(target + (i + SHARED) * CHUNK, value, eviction_policy=STORES)
        else:
            inside = (columns + (i + SHARED) * CHUNK) // VECTOR < vectors
            gl.store(target + (i + SHARED) * CHUNK, value, mask=inside, eviction_policy=STORES)
