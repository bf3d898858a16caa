"""KL(teacher‖student) of rows of logits, or KL(student‖teacher), and the student's gradient.

KL(a‖b) = Σ pₐ·(a − b) − lse(a) + lse(b), where lse is the logarithm of the sum of exponentials.
Nothing but the loss and the gradient is written: no softmax and no log-softmax is in memory.
Passes: the loss reads both matrices once, 2MN. With the gradient, rows that a cluster or one tile
holds are read once, 3MN in all; others stream through tiles twice, 5MN.
The loss alone is by clusters where their last chunk is nearly full, else by streams (`suits`).
Idea: a cluster's warps each load their slices of both rows, take their maxima and sums, and send
the five numbers to all programs of the cluster in one exchange. A stream keeps a maximum and the
sums of each lane, and rescales them tile by tile. Rows may be unaligned (`kernels.vectors`).
On chip: both rows, or a tile of each. Of long rows with a gradient most of the second waits in
shared memory (`REGISTERS`), so that an SM holds more programs.
Bits: the cut of a row follows from N, the dtype, the alignment and the card, never from M.
Source: this project; the online sums of Milakov & Gimelshein 2018, arXiv 1805.02867.
"""

from __future__ import annotations

from collections import namedtuple
from functools import lru_cache
from typing import ClassVar, NamedTuple

import sympy
import torch
from typing_extensions import override

from ..cluster.cut import Cut, OnCluster
from ..cluster.row import (
    distinct,
    divergences_of,
    ends_of,
    in_registers,
    in_shared_memory,
    largest,
    row_at,
    row_number,
    slots_of,
    summed_up,
    whole_row,
)
from ..cross_entropy.cluster import by_lane
from ..device import Device, device_of
from ..kernel import Kernel, Operation, Shape, Tensors
from ..language import async_copy, barrier, gl, gluon_jit, jit, next_power_of_two, tl
from ..launch import launch, load_hint, store_hint
from ..traffic import M, N, Traffic
from ..vectors import (
    LONGEST,
    At,
    ahead_of,
    first_element,
    first_vector,
    layout,
    offsets_of,
    vectors_of,
    whole_vectors,
)
from .operation import KL_DIV, KL_DIV_GRAD

MANY = 4096  # rows that a cut is for, whatever M is
# A streaming program's vectors of a tile and warps: of the longest vectors, and of others
STREAMS = {True: (512, 16), False: (2048, 8)}
# Of a cut, with which a cluster is the faster one for a loss: see `suits`
NARROW, FEW_WARPS, FULL = 8192, 4, 0.95
WIDEST = 262144  # float32 elements of two rows that an H200's largest cluster holds
LOG2E = 1.4426950408889634
# Registers a thread where the second row waits in shared memory, by the chunks of the row, and the
# most chunks times warps with which it does: an SM then holds 24 or 20 warps instead of 16. On an
# H100 from 0.88 to 0.97 of the roof at 50304, 0.86 to 0.96 at 100352, 0.79 to 0.90 at 202048.
REGISTERS, MOST_WAITING = {7: 80, 8: 96}, 56


class How(NamedTuple):
    """Constants of a launch; see `kernels.vectors.Layout` and `Cut`."""

    vector: int
    ends: bool
    reverse: bool
    each: bool  # whether each row has a gradient of its own
    loads: str
    stores: str
    whole: bool = False  # whether a stream's tile is a row, or a cluster's last chunk is full
    lanes: int = 32  # of a stream
    chunks: int = 1  # the others are a cluster's
    packed: bool = False
    waiting: int = 0  # first chunks of b in shared memory


class KlAuto(OnCluster):
    """The loss: by a cluster a row where that can be, else by a stream."""

    operation: ClassVar[Operation] = KL_DIV
    moves = Traffic(reads=2 * M * N, writes=sympy.S.Zero, write_bytes=4 * M)
    on_chip = 2 * N
    matrices = 2

    @override
    def unsupported(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        """See `Kernel`; a stream takes what a cluster does not."""
        return Kernel.unsupported(self, shape, dtype, device)

    @override
    def __call__(self, student: torch.Tensor, teacher: torch.Tensor) -> Tensors:
        loss = torch.empty(len(student), device=student.device)
        if self.operation is KL_DIV:
            self.run(student, teacher, loss)
            return loss
        dstudent = torch.empty(student.shape, dtype=student.dtype, device=student.device)
        self.run(student, teacher, loss, dstudent)
        return loss, dstudent

    def run(
        self,
        student: torch.Tensor,
        teacher: torch.Tensor,
        loss: torch.Tensor | None,
        dstudent: torch.Tensor | None = None,
        dloss: torch.Tensor | None = None,
        temperature: float = 1.0,
        reverse: bool = False,
        scale: float = 1.0,
    ) -> None:
        """Writes the results for which memory is given.

        Args:
            student: Logits (M, N), float16, bfloat16 or float32; any strides.
            teacher: Likewise, of the same dtype.
            loss: (M,), float32; a row without columns has loss 0.
            dstudent: The gradient, (M, N); may be the student's own memory.
            dloss: The loss's own gradient, float32: (M,), or (1,) for all rows; None for ones.
            temperature: Divides both.
            reverse: Whether the loss is KL(student‖teacher).
            scale: Multiplies the gradient.
        """
        if student.numel() == 0:
            if loss is not None:
                loss.zero_()
            return
        (rows, cols), longest = student.shape, LONGEST // student.element_size()
        pair = (student, teacher) if reverse else (teacher, student)
        parts = layout(*(x for x in (*pair, dstudent) if x is not None))
        each, even = dloss is not None and dloss.numel() > 1, not parts.ends
        how = How(parts.vector, parts.ends, reverse, each, load_hint(student), store_hint(student))
        plan = _plan_of(self, (rows, cols), student.dtype, device_of(student))
        options: dict[str, int] = {}
        if plan is None or how.vector < longest or (dstudent is None and not suits(plan, cols)):
            kernel, vectors = _streamed, -(-cols // how.vector)
            lanes, warps = STREAMS[how.vector == longest]
            lanes = max(32, min(lanes, next_power_of_two(vectors)))
            how = how._replace(lanes=lanes, whole=vectors <= lanes, loads="", stores="")
            options = {"num_warps": min(warps, lanes // 32)}
            if how.ends and dstudent is None:  # as other rows take: four programs of 16 warps an SM
                options["maxnreg"] = 32
        else:
            kernel, whole = _on_cluster, even and cols == plan.chunks * plan.chunk
            how = how._replace(whole=whole, chunks=plan.chunks, packed=plan.packed)
            options = {"num_warps": plan.warps, "num_ctas": plan.programs}
            waits = dstudent is not None and plan.packed and plan.chunks in REGISTERS
            if waits and plan.chunks * plan.warps <= MOST_WAITING:
                how = how._replace(waiting=plan.chunks - 1)
                options["maxnreg"] = REGISTERS[plan.chunks]
        target = None if dstudent is None else parts.bases[2]
        places = (*parts.places, At(0, 1, 0))[:3]
        scales = Scales(LOG2E / temperature, 1 / temperature, scale / temperature)
        arguments = *parts.bases[:2], target, loss, dloss, parts.cols, *places, scales
        launch(kernel, (rows,), arguments, {"HOW": how}, **options)


def suits(plan: Cut, cols: int) -> bool:
    """Whether a cluster computes a loss faster than a stream.

    Of wide rows only with few warps and a last chunk that is nearly full: then clusters have 101 %
    of an H100's roof at 1024 to 4096 rows, else 65 to 94 %, and streams 96 to 97 %.
    """
    full = cols >= FULL * plan.chunks * plan.chunk
    return cols <= NARROW or (plan.warps <= FEW_WARPS and full)


@lru_cache(maxsize=4096)
def _plan_of(kernel: KlAuto, shape: Shape, dtype: torch.dtype, device: Device) -> Cut | None:
    """The cut of rows read by the longest vectors; None where no cluster takes them."""
    if OnCluster.unsupported(kernel, shape, dtype, device) is not None:
        return None
    return kernel.plan((MANY, shape[1]), dtype, LONGEST // dtype.itemsize, device)


class KlGradAuto(KlAuto):
    """Loss and gradient; see `KlAuto`. Its traffic is by an H200's clusters."""

    operation = KL_DIV_GRAD
    moves = Traffic(
        reads=sympy.Piecewise((2 * M * N, N <= WIDEST), (4 * M * N, True)),
        writes=M * N,
        write_bytes=4 * M,
    )


# --- device code ---

# log₂e / temperature, 1 / temperature, and the same times the factor of the gradient
Scales = namedtuple("Scales", "rate inverse scale")
# Of a row: the shifts of a and b, one over their sums of exp(x − shift), Σ pₐ·(a − b)
Of = namedtuple("Of", "shift_a shift_b over_a over_b mean")
# Of a stream: where whole vectors of a and b begin, and the strides of their columns
Rows = namedtuple("Rows", "a b a_stride b_stride")
# Of a lane: the maximum of a, its Σ exp(a − m) and Σ exp(a − m)·(a − b), and b's first two
Sums = namedtuple("Sums", "most_a sum_a further most_b sum_b")


@jit
def _terms(
    a: tl.tensor, b: tl.tensor, shift_a: tl.tensor, shift_b: tl.tensor, rate: tl.tensor
) -> tl.tuple:
    """What elements add to the sums of a row: exp(a), exp(a)·(a − b), exp(b)."""
    power = tl.exp2((a - shift_a) * rate)
    return power, tl.where(power > 0, power * (a - b), 0.0), tl.exp2((b - shift_b) * rate)


@jit
def _slope(
    a: tl.tensor, b: tl.tensor, of: Of, scales: Scales, factor: tl.tensor, HOW: tl.constexpr
) -> tl.tensor:
    """The derivative of the loss by the student's z, times ``factor``."""
    p = tl.exp2((a - of.shift_a) * scales.rate) * of.over_a
    if HOW.reverse:
        return tl.where(p > 0, p * ((a - b - of.mean) * scales.inverse), 0.0) * factor
    return (tl.exp2((b - of.shift_b) * scales.rate) * of.over_b - p) * factor


@gluon_jit
def _on_cluster(  # type: ignore[no-untyped-def]
    of_a, of_b, dstudent, loss, dloss, cols, a_at, b_at, dstudent_at, scales, HOW: gl.constexpr
):
    VECTOR: gl.constexpr = HOW.vector
    ENDS: gl.constexpr = HOW.ends
    LOADS: gl.constexpr = HOW.loads
    STORES: gl.constexpr = HOW.stores
    SLICES: gl.constexpr = gl.num_ctas() * gl.num_warps()
    single: gl.constexpr = in_registers(1, gl.num_warps(), gl.num_ctas())
    slots, waiting, end_a, end_b, factor = None, None, None, None, scales.scale
    if SLICES > 1:
        slots = slots_of(3)
    number = row_number().to(gl.int64)
    vectors = cols
    if ENDS:
        end, at_end, vectors, _ = ends_of(_begin(a_at, number), 1, cols, VECTOR, single)
    row = whole_row(vectors, HOW.chunks, VECTOR, HOW.whole)
    layout: gl.constexpr = row.columns.type.layout
    if dloss is not None:
        factor = factor * gl.load(dloss + number if HOW.each else dloss)
    first_a, source_a = row_at(of_a, _begin(a_at, number), 1, VECTOR, ENDS)
    first_b, source_b = row_at(of_b, _begin(b_at, number), 1, VECTOR, ENDS)
    if HOW.waiting > 0:
        waiting = _wait(source_b, row, HOW.waiting)
    a = row.load(source_a, 1, 0, float("-inf"), LOADS)
    b = row.load(source_b, 1, HOW.waiting, float("-inf"), LOADS)
    if ENDS:
        end_a = gl.load(first_a + end, mask=at_end, other=float("-inf")).to(gl.float32)
        end_b = gl.load(first_b + end, mask=at_end, other=float("-inf")).to(gl.float32)
    of, row_a, row_b = _of_slices(a, (b, waiting), end_a, end_b, row, scales, slots, HOW)
    if loss is not None:
        divergence = of.mean * scales.inverse - (row_a - gl.log(of.over_a))
        divergence = divergence + (row_b - gl.log(of.over_b))
        slice_ = gl.arange(0, SLICES, gl.SliceLayout(1, layout))
        gl.store(loss + number + 0 * slice_, divergence, mask=slice_ == 0)
    if dstudent is not None:
        first, target = row_at(dstudent, _begin(dstudent_at, number), 1, VECTOR, ENDS)
        over_a = of.over_a * gl.exp2((of.shift_a * scales.inverse - row_a) * 1.4426950408889634)
        over_b = of.over_b * gl.exp2((of.shift_b * scales.inverse - row_b) * 1.4426950408889634)
        of = Of(of.shift_a, of.shift_b, over_a, over_b, of.mean)
        of_tile = _wide_all(of, layout)
        if HOW.waiting > 0:
            barrier()  # between two passes over shared memory, or it is kept in registers
        for i in gl.static_range(row.CHUNKS):
            wide_a = distinct(a[i], HOW.packed).to(gl.float32)
            wide_b = _chunk(b, waiting, i, layout, HOW)
            row.store(target, 1, i, _slope(wide_a, wide_b, of_tile, scales, factor, HOW), STORES)
        if ENDS:
            value = _slope(end_a, end_b, _wide_all(of, single), scales, factor, HOW)
            gl.store(first + end, value.to(dstudent.dtype.element_ty), mask=at_end)


@gluon_jit
def _of_slices(a, b_parts, end_a, end_b, row, scales, slots, HOW: gl.constexpr):  # type: ignore[no-untyped-def]
    """The row's `Of`, with each slice's own shifts, and the row's maxima of both z."""
    rate, inverse = scales.rate, scales.inverse
    b, waiting = b_parts
    layout: gl.constexpr = row.columns.type.layout
    most_a, shift_a = _shift(a, end_a, row)
    if HOW.waiting > 0:
        async_copy.wait_group(0)
        barrier()
    most_b, shift_b = _shift(b, end_b, row, waiting, HOW.waiting)
    zeros = gl.full(row.columns.shape, 0.0, gl.float32, layout)
    sum_a, sum_b, further = zeros, zeros, zeros
    for i in gl.static_range(row.CHUNKS):
        wide_a = distinct(a[i], HOW.packed).to(gl.float32)
        wide_b = _chunk(b, waiting, i, layout, HOW)
        power, weighted, other = _terms(wide_a, wide_b, shift_a[:, None], shift_b[:, None], rate)
        further += weighted
        sum_a += power
        sum_b += other
    power, weighted, other = None, None, None
    if HOW.ends:
        single: gl.constexpr = end_a.type.layout
        shift = by_lane(shift_a, single), by_lane(shift_b, single)
        power, weighted, other = _terms(end_a, end_b, shift[0], shift[1], rate)
    sum_a = summed_up(sum_a, power, row.VECTOR)
    sum_b, further = summed_up(sum_b, other, row.VECTOR), summed_up(further, weighted, row.VECTOR)
    over_a, row_a, over_b, row_b = 1.0 / sum_a, shift_a * inverse, 1.0 / sum_b, shift_b * inverse
    if slots is not None:
        over_a, row_a, further, over_b, row_b = divergences_of(
            most_a * inverse, sum_a, further, most_b * inverse, sum_b, slots
        )
    return Of(shift_a, shift_b, over_a, over_b, further * over_a), row_a, row_b


@gluon_jit
def _begin(at, number):  # type: ignore[no-untyped-def]
    """Where a row begins, in vectors, or in elements of unaligned rows."""
    return number * gl.cast(at.row_stride, gl.int64) + at.lead


@gluon_jit
def _wait(source, row, WAITING: gl.constexpr):  # type: ignore[no-untyped-def]
    """The first chunks of a row, on their way to shared memory."""
    shape: gl.constexpr = [WAITING, row.columns.shape[0], row.columns.shape[1]]
    held: gl.constexpr = in_shared_memory(row.VECTOR, gl.num_ctas())
    waiting = gl.allocate_shared_memory(source.dtype.element_ty, shape, held)
    for i in gl.static_range(WAITING):
        place = source + (row.columns + i * row.CHUNK)
        async_copy.async_copy_global_to_shared(waiting.index(i), place, cache_modifier=".cg")
    async_copy.commit_group()
    return waiting


@gluon_jit
def _chunk(held, waiting, i: gl.constexpr, layout: gl.constexpr, HOW: gl.constexpr):  # type: ignore[no-untyped-def]
    """A chunk of b in float32."""
    if i < HOW.waiting:
        value = waiting.index(i).load(layout)
    else:
        value = distinct(held[i - HOW.waiting], HOW.packed)
    return value.to(gl.float32)


@gluon_jit
def _shift(values, at_ends, row, waiting=None, WAITING: gl.constexpr = 0):  # type: ignore[no-untyped-def]
    """The maximum of each slice, and what its exponentials are shifted by: 0 for −inf."""
    highest = values[0].to(gl.float32)
    for i in gl.static_range(1, row.CHUNKS - WAITING):
        highest = gl.maximum(highest, values[i].to(gl.float32))
    if WAITING > 0:
        for i in range(WAITING):
            value = waiting.index(i).load(row.columns.type.layout)
            highest = gl.maximum(highest, value.to(gl.float32))
        barrier()
    maximum = largest(highest, at_ends, row.VECTOR)
    return maximum, gl.where(maximum == float("-inf"), 0.0, maximum)


@gluon_jit
def _wide_all(of, layout: gl.constexpr):  # type: ignore[no-untyped-def]
    shifts = by_lane(of.shift_a, layout), by_lane(of.shift_b, layout)
    overs = by_lane(of.over_a, layout), by_lane(of.over_b, layout)
    return Of(shifts[0], shifts[1], overs[0], overs[1], by_lane(of.mean, layout))


@jit
def _streamed(
    of_a: tl.tensor,
    of_b: tl.tensor,
    dstudent: tl.tensor,
    loss: tl.tensor,
    dloss: tl.tensor,
    cols: tl.tensor,
    a_at: At,
    b_at: At,
    dstudent_at: At,
    scales: Scales,
    HOW: tl.constexpr,
) -> None:
    rate, factor = scales.rate, scales.scale
    LANES: tl.constexpr = HOW.lanes
    VECTOR: tl.constexpr = HOW.vector
    number = tl.program_id(0).to(tl.int64)
    ahead = ahead_of(a_at, number, HOW)
    vectors = whole_vectors(cols, ahead, HOW)
    source_a = first_vector(of_a, a_at, number, HOW)
    source_b = first_vector(of_b, b_at, number, HOW)
    rows = Rows(source_a, source_b, a_at.col_stride, b_at.col_stride)
    zeros = tl.zeros((LANES, 1), tl.float32)
    lanes = Sums(zeros + float("-inf"), zeros, zeros, zeros + float("-inf"), zeros)
    if HOW.ends:  # one for each of the first lanes
        lane, behind = tl.arange(0, LANES)[:, None, None], (cols - ahead) % VECTOR
        end = tl.where(lane < VECTOR, lane, cols - behind - VECTOR + lane)
        at_end = tl.where(lane < VECTOR, lane < ahead, lane < VECTOR + behind)
        end_a = _read(first_element(of_a, a_at, number, HOW) + end, at_end)
        end_b = _read(first_element(of_b, b_at, number, HOW) + end, at_end)
        lanes = _absorb(lanes, end_a, end_b, rate)
    if HOW.whole:
        a, b = _tile(rows, 0, vectors, HOW)
        lanes = _absorb(lanes, a, b, rate)
    else:
        for start in range(0, vectors, LANES):
            a, b = _tile(rows, start, vectors, HOW)
            lanes = _absorb(lanes, a, b, rate)
    shift_a, over_a, scale_a = _joined(lanes.most_a, lanes.sum_a, rate)
    shift_b, over_b, _ = _joined(lanes.most_b, lanes.sum_b, rate)
    of = Of(shift_a, shift_b, over_a, over_b, tl.sum(lanes.further * scale_a) * over_a)
    if loss is not None:
        divergence = (of.mean - shift_a + shift_b) * scales.inverse
        tl.store(loss + number, divergence + tl.log(over_a) - tl.log(over_b))
    if dstudent is not None:
        if dloss is not None:
            factor *= tl.load(dloss + number if HOW.each else dloss)
        target = first_vector(dstudent, dstudent_at, number, HOW)
        if HOW.ends:
            first = first_element(dstudent, dstudent_at, number, HOW)
            outer = _slope(end_a, end_b, of, scales, factor, HOW)
            tl.store(first + end, outer.to(dstudent.dtype.element_ty), mask=at_end)
        for start in range(0, vectors, LANES):
            if not HOW.whole:
                a, b = _tile(rows, start, vectors, HOW)
            vector = start + vectors_of(0, LANES)
            places = target + offsets_of(vector, dstudent_at.col_stride, VECTOR)
            inner = _slope(a, b, of, scales, factor, HOW)
            tl.store(places, inner.to(dstudent.dtype.element_ty), mask=vector < vectors)


@jit
def _tile(rows: Rows, start: tl.tensor, vectors: tl.tensor, HOW: tl.constexpr) -> tl.tuple:
    """A tile of a and of b, from a number of vectors on."""
    vector = start + vectors_of(0, HOW.lanes)
    a = rows.a + offsets_of(vector, rows.a_stride, HOW.vector)
    b = rows.b + offsets_of(vector, rows.b_stride, HOW.vector)
    return _read(a, vector < vectors), _read(b, vector < vectors)


@jit
def _read(places: tl.tensor, inside: tl.tensor) -> tl.tensor:
    """The elements in float32, −inf where there are none."""
    return tl.load(places, mask=inside, other=float("-inf")).to(tl.float32)


@jit
def _absorb(lanes: Sums, a: tl.tensor, b: tl.tensor, rate: tl.tensor) -> Sums:
    """The sums of lanes with those of a tile."""
    most_a, shift_a, over_a = _raised(lanes.most_a, a, rate)
    most_b, shift_b, over_b = _raised(lanes.most_b, b, rate)
    power, weighted, other = _terms(a, b, shift_a[:, :, None], shift_b[:, :, None], rate)
    sum_a = lanes.sum_a * over_a + tl.sum(power, 2)
    further = lanes.further * over_a + tl.sum(weighted, 2)
    return Sums(most_a, sum_a, further, most_b, lanes.sum_b * over_b + tl.sum(other, 2))


@jit
def _raised(most: tl.tensor, values: tl.tensor, rate: tl.tensor) -> tl.tuple:
    """Each lane's maximum with new values, its shift, and the factor for its sums."""
    highest = tl.maximum(most, tl.max(values, 2))
    shift = tl.where(highest == float("-inf"), 0.0, highest)
    return highest, shift, tl.exp2((most - shift) * rate)


@jit
def _joined(most: tl.tensor, summed: tl.tensor, rate: tl.tensor) -> tl.tuple:
    """The row's shift, one over its sum, and the factor of each lane."""
    highest = tl.max(most)
    shift = tl.where(highest == float("-inf"), 0.0, highest)
    scale = tl.exp2((most - shift) * rate)
    return shift, 1.0 / tl.sum(summed * scale), scale
