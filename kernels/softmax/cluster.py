"""A cluster of programs holds one row on chip and synchronises once: Gluon, sm_90 and newer.

Passes: one; reads MN, writes MN: 2MN.
Idea: each warp of the cluster takes one slice of the row. It loads the slice into registers,
computes its maximum m and its sum d of exp(x − m) within the warp, and sends the pair to all
programs of the cluster (`kernels/cluster/ptx.py`). This is the only message. With all pairs the
warp scales and stores its slice. No reduction uses a program's barrier. If the row is in registers,
the wait for the messages is the only wait, and other clusters' loads keep memory busy meanwhile.
On chip: the row. A thread holds up to 64 float32 elements, or 128 packed 16-bit elements (it
computes their exponentials twice: half the registers, so twice the warps in flight). Further
elements wait in shared memory, filled by asynchronous copies.
At L2: loads and stores may ask for `evict_last`, by size (`kernels/launch.py`).
Source: this project; clusters for softmax after QuACK (Guo, Zadouri, Dao 2025), the warp-local
statistics after Milakov & Gimelshein 2018, arXiv 1805.02867.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from typing_extensions import override

from ..cluster.cut import OnCluster
from ..cluster.row import (
    distinct,
    ends_of,
    highest_of,
    in_registers,
    of_slices,
    row_at,
    row_number,
    row_of_slices,
    slots_of,
    whole_row,
)
from ..kernel import Kernel
from ..language import LOG2E, async_copy, barrier, gl, gluon_jit
from .tiles import TritonSoftmax


@dataclass(frozen=True)
class Cluster(OnCluster, TritonSoftmax):
    """One cluster per row; see `OnCluster`."""

    dtypes = Kernel.dtypes
    place = "registers and shared memory"

    @override
    def into(self, x: torch.Tensor, y: torch.Tensor) -> None:
        self.launch_rows(_cluster, (x,), y)


@gluon_jit
def _exponential(value, shift):  # type: ignore[no-untyped-def]
    # The difference first: x·log2(e) − m·log2(e) as one fused step loses the digits of a large x
    return gl.exp2((value.to(gl.float32) - shift[:, None]) * LOG2E)


@gluon_jit
def _cluster(x, y, vectors, x_at, HOW: gl.constexpr):  # type: ignore[no-untyped-def]
    SHARED: gl.constexpr = HOW.shared
    LOADS: gl.constexpr = HOW.loads
    STORES: gl.constexpr = HOW.stores
    SLICES: gl.constexpr = gl.num_ctas() * gl.num_warps()
    layout: gl.constexpr = in_registers(HOW.vector, gl.num_warps(), gl.num_ctas())
    single: gl.constexpr = in_registers(1, gl.num_warps(), gl.num_ctas())
    HELD: gl.constexpr = HOW.chunks - SHARED  # chunks in registers
    TOGETHER: gl.constexpr = 2 if SHARED % 2 == 0 else 1  # chunks read from shared memory at once

    if SLICES > 1:
        slots = slots_of(1)
    number = row_number().to(gl.int64)
    first, source = row_at(x, number, x_at[0], HOW.vector, HOW.ends)
    result, target = row_at(y, number, vectors, HOW.vector, HOW.ends)
    vectors = gl.cast(vectors, gl.int32)
    if HOW.ends:
        end, at_end, vectors, _ = ends_of(number, x_at[0], vectors, HOW.vector, single)
    row = whole_row(vectors, HOW.chunks, HOW.vector, HOW.even)

    waiting = None  # type: gl.tensor
    value_at_end, exponential_at_end = None, None
    if SHARED > 0:
        waiting = row.wait(source, x_at[1], SHARED)
        async_copy.commit_group()
    values = row.load(source, x_at[1], SHARED, float("-inf"), LOADS)
    if HOW.ends:
        value_at_end = gl.load(first + end, mask=at_end, other=float("-inf")).to(gl.float32)

    highest = highest_of(values, waiting, SHARED, TOGETHER, True)
    maximum = of_slices(highest, value_at_end, HOW.vector, gl.max)
    # −inf − −inf would be NaN where only this slice is all −inf
    shift = gl.where(maximum == float("-inf"), 0.0, maximum)

    exponentials = ()  # type: tuple[gl.tensor, ...]
    total = gl.full(row.columns.shape, 0.0, gl.float32, layout)
    for i in gl.static_range(HELD):
        exponential = _exponential(distinct(values[i], HOW.packed), shift)
        total = total + exponential
        if not HOW.packed:
            exponentials += (exponential,)
    if SHARED > 0:
        barrier()  # between two passes over shared memory, or the compiler keeps it in registers
        for i in range(0, SHARED, TOGETHER):
            for j in gl.static_range(TOGETHER):
                total = total + _exponential(waiting.index(i + j).load(layout), shift)
    if HOW.ends:
        shift_at_end = gl.convert_layout(shift, gl.SliceLayout(1, single))
        exponential_at_end = _exponential(value_at_end, shift_at_end)
    # NaN comes through here: Triton's maximum passes over it
    summed = of_slices(total, exponential_at_end, HOW.vector, gl.sum)

    if SLICES > 1:
        inverse, row_maximum = row_of_slices((maximum, summed), slots, "", False)
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
                place = target + row.columns + (i + j) * row.CHUNK
                gl.store(place, value, eviction_policy=STORES)
    for i in gl.static_range(HELD):
        if HOW.packed:
            exponential = _exponential(distinct(values[i], HOW.packed), row_maximum)
            row.store(target, 1, i + SHARED, exponential * inverse[:, None], STORES)
        else:
            row.store(target, 1, i + SHARED, exponentials[i] * scale[:, None], STORES)
    if HOW.ends:
        row_maximum = gl.convert_layout(row_maximum, gl.SliceLayout(1, single))
        inverse = gl.convert_layout(inverse, gl.SliceLayout(1, single))
        value = _exponential(value_at_end, row_maximum) * inverse[:, None]
        gl.store(result + end, value.to(y.dtype.element_ty), mask=at_end)
