"""KL(teacher‖student) of rows of logits, or KL(student‖teacher), and the student's gradient.

KL(a‖b) = Σ pₐ·(a − b) − lse(a) + lse(b), where lse is the logarithm of the sum of exponentials.
Nothing but the loss and the gradient is written: no softmax and no log-softmax is in memory.
Passes: the loss reads both matrices once, 2MN. With the gradient, rows that a cluster or one tile
holds are read once, 3MN in all; others stream through tiles twice, 5MN.
Idea: a cluster's warps each load their slices of both rows, take their maxima and sums, and send
the five numbers to all programs of the cluster in one exchange. A stream keeps a maximum and the
sums of each lane, and rescales them tile by tile. It reads rows of logits of 2²⁹ and more again,
exactly. Rows may be unaligned (`kernels.vectors`).
On chip: both rows, or a tile of each. Long rows (`LONG`) with a gradient wait in shared memory
but for their last chunks, so that an SM holds more of them.
Source: this project; the online sums of Milakov & Gimelshein 2018, arXiv 1805.02867.
"""

from __future__ import annotations

from collections import namedtuple
from functools import lru_cache
from math import floor, log2

import torch
from typing_extensions import override

from ..cluster.cut import MANY, Cut, How, OnCluster
from ..cluster.ptx import LANES, SLOT
from ..cluster.row import (
    by_lane,
    ends_of,
    highest_of,
    in_registers,
    of_lanes,
    of_lanes_joined,
    of_slices,
    row_at,
    row_number,
    row_of_slices,
    slots_of,
    unpacked,
    whole_row,
)
from ..device import Device, device_of, known, largest_cluster
from ..kernel import Kernel, Shape, Tensors, variant
from ..language import async_copy, barrier, constant, gl, gluon_jit, jit, next_power_of_two, tl
from ..launch import launch
from ..traffic import M, N, Traffic, by_width
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

# Vectors of a streaming program's tile, and warps: of 16-bit rows of up to 64K elements, of others,
# of rows of shorter vectors; and registers a thread, so that an SM holds 32 warps
STREAMS, STREAM_REGISTERS = ((256, 4), (512, 8), (2048, 8)), 64
NARROW = 6144  # elements of a row up to which a cluster is faster for a loss; then a stream is
LONG = 49152  # elements of a row with a gradient, beyond which it waits in shared memory
LOG2E = 1.4426950408889634
# Of rows that wait there: programs and warps of a cluster, by the bytes of an element; chunks of a
# row at most, and those in registers. An H200 then holds 16 warps an SM, or 20 of fewer chunks
CLUSTERS = {2: ((4, 4), (8, 4), (16, 4), (8, 8), (16, 8)), 4: ((8, 8), (16, 8))}
MOST_CHUNKS, HELD_CHUNKS, MANY_CHUNKS = 19, 6, 16
WIDEST = 262144  # float32 elements of two rows that an H200's largest cluster holds


class KlAuto(OnCluster):
    """The loss: by a cluster a row where that can be, else by a stream."""

    operation = KL_DIV
    moves = Traffic(reads=2 * M * N, write_bytes=4 * M)
    on_chip = 2 * N
    matrices = 2
    row_a_program = True
    limits = Kernel.limits  # a stream takes what a cluster does not

    @override
    def __call__(self, student: torch.Tensor, teacher: torch.Tensor) -> Tensors:
        loss = torch.empty(len(student), device=student.device)
        dstudent = student.new_empty(student.shape) if self.operation is KL_DIV_GRAD else None
        self.run((1.0, False), student, teacher, loss, dstudent)
        return loss if dstudent is None else (loss, dstudent)

    def run(
        self,
        options: tuple[float, bool],
        student: torch.Tensor,
        teacher: torch.Tensor,
        loss: torch.Tensor | None,
        dstudent: torch.Tensor | None = None,
        dloss: torch.Tensor | None = None,
        scale: float = 1.0,
    ) -> None:
        """Writes the results for which memory is given.

        Args:
            options: The temperature, which divides both, and whether it is KL(student‖teacher).
            student: Logits (M, N), float16, bfloat16 or float32; any strides.
            teacher: Likewise, of the same dtype.
            loss: (M,), float32; a row without columns has loss 0.
            dstudent: The gradient, (M, N); may be the student's own memory.
            dloss: The loss's own gradient, float32: (M,), or (1,) for all rows; None for ones.
            scale: Multiplies the gradient.
        """
        if student.numel() == 0:
            if loss is not None:
                loss.zero_()
            return
        (temperature, reverse), (rows, cols) = options, student.shape
        matrices = (student, teacher) if reverse else (teacher, student)
        parts = layout(*matrices) if dstudent is None else layout(*matrices, dstudent)
        bases, places = (*parts.bases, None), (*parts.places, At(0, 1, 0))
        rate, each = LOG2E / temperature, dloss is not None and dloss.numel() > 1
        scales = Scales(rate, 1 / temperature, scale / temperature, 2.0 ** floor(log2(rate)))
        arguments = *bases[:3], loss, dloss, parts.cols, *places[:3], scales
        plan, longest = None, LONGEST // student.element_size()
        if parts.vector == longest:
            kind = (rows, cols), student.dtype, device_of(student), dstudent is not None
            plan = _plan_of(self, *kind)
        if plan is not None:
            how = Constants(plan.how(student, parts.vector, parts.ends), reverse, each)
            asked = {**plan.options, "maxnreg": _registers_of(plan)}
            return launch(_on_cluster, (rows,), arguments, {"HOW": how}, **asked)
        wide = longest == 4 or cols > 1 << 16
        lanes, warps = STREAMS[wide if parts.vector == longest else 2]
        lanes = max(32, min(lanes, next_power_of_two(-(-cols // parts.vector))))
        row = How(0, 0, parts.vector, cols <= lanes * parts.vector, parts.ends, False, "", "")
        constants = {"HOW": Constants(row, reverse, each, lanes)}
        on_sm = {"num_warps": min(warps, lanes // 32), "maxnreg": STREAM_REGISTERS}
        return launch(_streamed, (rows,), arguments, constants, **on_sm)


@lru_cache(maxsize=4096)
def _plan_of(
    kernel: KlAuto, shape: Shape, dtype: torch.dtype, device: Device, gradient: bool
) -> Cut | None:
    """The cut of rows read by the longest vectors; None where a stream takes them.

    A long row with a gradient gets the first cluster whose shared memory holds all of its chunks
    but `HELD_CHUNKS`; a float32 row that the registers of programs of eight warps hold, those.
    """
    cols, width = shape[1], LONGEST // dtype.itemsize
    asked = kernel.programs or kernel.num_warps
    wide_loss = cols > NARROW and not (gradient or asked)
    if wide_loss or OnCluster.limits(kernel, shape, dtype, device) is not None:
        return None
    plan = kernel.plan((MANY, cols), dtype, width, device)
    held = dtype.itemsize == 4 and plan is not None and plan.warps <= 8
    for programs, warps in () if asked or cols <= LONG or held else CLUSTERS[dtype.itemsize]:
        chunk, slots = programs * warps * LANES * width, SLOT * (3 * programs * warps + 1)
        chunks = -(-(cols // width * width) // chunk)
        shared, room = chunks - HELD_CHUNKS, 48 << 10
        a_chunk = 2 * warps * LANES * LONGEST  # bytes of a program
        if shared * a_chunk <= room < shared * a_chunk + slots:
            shared -= 1  # see `kernels.cluster.cut`
        fits = shared * a_chunk + slots <= known(device.shared_bytes_per_block)
        if chunks <= MOST_CHUNKS and fits and programs <= largest_cluster(device):
            return Cut(programs, warps, chunk, chunks, shared, dtype.itemsize == 2)
    return plan


def _registers_of(plan: Cut) -> int | None:
    """Registers a thread; None leaves them to the compiler.

    Of float32 rows of six or seven chunks it takes more than let an SM hold a program more.
    """
    if plan.shared:
        return 128 if plan.chunks >= MANY_CHUNKS else 96
    return 80 if plan.chunks in (6, 7) and not plan.packed else None


KlGradAuto = variant(  # loss and gradient; the traffic is by an H200's clusters
    KlAuto,
    KL_DIV_GRAD,
    moves=Traffic(by_width(WIDEST, 2 * M * N, 4 * M * N), M * N, write_bytes=4 * M),
)


# --- device code ---

# The lowest maximum of a lane, in powers of two, and that of a row whose own is lower
LEAST, LOWEST = constant(-1073741824.0), constant(-1.7e38)


# Constants of a launch: how a cluster holds a row (of a stream ``even`` where a tile is a row),
# whether each row has a gradient of its own, and vectors of a stream's tile
Constants = namedtuple("Constants", "row reverse each lanes", defaults=[32])
# log₂e / temperature, 1 / temperature, the same times the factor of the gradient, and the power of
# two next to the first
Scales = namedtuple("Scales", "rate inverse scale steep")
# A row on chip: chunks in registers, in shared memory, and its elements at both ends
Parts = namedtuple("Parts", "held waiting end")
# Of a slice: exp(x − shift) is exp2(x·rate − start)·fix, one instruction less for each element
Base = namedtuple("Base", "rate start fix shift")
# Of a row: what exp(a − shift) and exp(b − shift) are multiplied by in the gradient, Σ pₐ·(a − b)
Of = namedtuple("Of", "weight_a weight_b mean")
# Of a stream: where whole vectors of a and b begin, and the strides of their columns
Rows = namedtuple("Rows", "a b a_stride b_stride")
# Of a lane: the maximum m of a·rate, Σ exp2(a·rate − m) and Σ exp2(a·rate − m)·(a − b), and b's
# first two
Sums = namedtuple("Sums", "most_a sum_a further most_b sum_b")


@jit
def _weighted(power: tl.tensor, difference: tl.tensor) -> tl.tensor:
    """Their product; 0 where the power is, whatever the difference."""
    return power * tl.where(power > 0, difference, 0.0)


@jit
def _slope(
    a: tl.tensor, b: tl.tensor, powers: tl.tuple, of: Of, scales: Scales, HOW: tl.constexpr
) -> tl.tensor:
    """The derivative of the loss by the student's z, from exp(a) and exp(b)."""
    if HOW.reverse:
        return of.weight_a * _weighted(powers[0], (a - b - of.mean) * scales.inverse)
    return powers[1] * of.weight_b - powers[0] * of.weight_a


@gluon_jit
def _on_cluster(  # type: ignore[no-untyped-def]
    of_a, of_b, dstudent, loss, dloss, cols, a_at, b_at, dstudent_at, scales, HOW: gl.constexpr
):
    VECTOR: gl.constexpr = HOW.row.vector
    ENDS: gl.constexpr = HOW.row.ends
    LOADS: gl.constexpr = HOW.row.loads
    STORES: gl.constexpr = HOW.row.stores
    WAITING: gl.constexpr = HOW.row.shared
    SLICES: gl.constexpr = gl.num_ctas() * gl.num_warps()
    single: gl.constexpr = in_registers(1, gl.num_warps(), gl.num_ctas())
    slots, end_a, end_b, factor = None, None, None, scales.scale
    waiting_a, waiting_b = None, None
    if SLICES > 1:
        slots = slots_of(3)
    number, vectors = row_number().to(gl.int64), cols
    if ENDS:
        end, at_end, vectors, _ = ends_of(_begin(a_at, number), 1, cols, VECTOR, single)
    row = whole_row(vectors, HOW.row.chunks, VECTOR, HOW.row.even and not ENDS)
    if dloss is not None:
        factor = factor * gl.load(dloss + number if HOW.each else dloss)
    first_a, source_a = row_at(of_a, _begin(a_at, number), 1, VECTOR, ENDS)
    first_b, source_b = row_at(of_b, _begin(b_at, number), 1, VECTOR, ENDS)
    if WAITING > 0:
        waiting_a = row.wait(source_a, 1, WAITING)
        waiting_b = row.wait(source_b, 1, WAITING)
        async_copy.commit_group()
    held_a = row.load(source_a, 1, WAITING, float("-inf"), LOADS)
    held_b = row.load(source_b, 1, WAITING, float("-inf"), LOADS)
    if ENDS:
        end_a = gl.load(first_a + end, mask=at_end, other=float("-inf")).to(gl.float32)
        end_b = gl.load(first_b + end, mask=at_end, other=float("-inf")).to(gl.float32)
    a, b = Parts(held_a, waiting_a, end_a), Parts(held_b, waiting_b, end_b)
    MEAN: gl.constexpr = loss is not None or HOW.reverse
    bases, most, overs, mean = _statistics(a, b, row, scales, slots, MEAN, HOW)
    if loss is not None:
        divergence = mean * scales.inverse - (most[0] - gl.log(overs[0]))
        divergence = divergence + (most[1] - gl.log(overs[1]))
        slice_ = gl.arange(0, SLICES, gl.SliceLayout(1, row.columns.type.layout))
        gl.store(loss + number + 0 * slice_, divergence, mask=slice_ == 0)
    if dstudent is not None:
        first, target = row_at(dstudent, _begin(dstudent_at, number), 1, VECTOR, ENDS)
        weight_a = factor * _weight(bases[0], most[0], overs[0], scales)
        weight_b = factor * _weight(bases[1], most[1], overs[1], scales)
        of = Of(weight_a, weight_b, mean)
        if WAITING > 0:
            barrier()  # between two passes over shared memory, or it is kept in registers
        for i in gl.static_range(row.CHUNKS):
            value = _slope_of(_chunk(a, i, HOW), _chunk(b, i, HOW), bases, of, scales, HOW)
            row.store(target, 1, i, value, STORES)
        if ENDS:
            value = _slope_of(end_a, end_b, bases, of, scales, HOW)
            gl.store(first + end, value.to(dstudent.dtype.element_ty), mask=at_end)


@gluon_jit
def _statistics(a, b, row, scales, slots, MEAN: gl.constexpr, HOW: gl.constexpr):  # type: ignore[no-untyped-def]
    """Each slice's bases of a and b; of the row both maxima, 1 / Σ exp(x − maximum), the mean.

    The mean is 0 where it is not asked for.
    """
    if HOW.row.shared > 0:
        async_copy.wait_group(0)
        barrier()
    most_a, shift_a = _shift(a, row, HOW.row.shared)
    most_b, shift_b = _shift(b, row, HOW.row.shared)
    base_a, base_b = _base(shift_a, scales), _base(shift_b, scales)
    single: gl.constexpr = in_registers(1, gl.num_warps(), gl.num_ctas())
    zeros = gl.full([row.columns.shape[0], 32], 0.0, gl.float32, single)
    sum_a, sum_b, further = zeros, zeros, zeros
    for i in gl.static_range(row.CHUNKS):
        wide_a, wide_b = _chunk(a, i, HOW), _chunk(b, i, HOW)
        power = _power(wide_a, base_a)
        if MEAN:
            further += of_lanes(_weighted(power, wide_a - wide_b), row.VECTOR, single, gl.sum)
        sum_a += of_lanes(power, row.VECTOR, single, gl.sum)
        sum_b += of_lanes(_power(wide_b, base_b), row.VECTOR, single, gl.sum)
    if HOW.row.ends:
        power = _power(a.end, base_a)
        if MEAN:
            further += _weighted(power, a.end - b.end)
        sum_a += power
        sum_b += _power(b.end, base_b)
    of_slice: gl.constexpr = row.columns.type.layout
    sum_a = of_lanes_joined(sum_a, of_slice, gl.sum) * base_a.fix
    sum_b = of_lanes_joined(sum_b, of_slice, gl.sum) * base_b.fix
    further = of_lanes_joined(further, of_slice, gl.sum) * base_a.fix
    most_a, most_b = most_a * scales.inverse, most_b * scales.inverse
    if slots is not None:
        numbers = (most_a, sum_a, further, most_b, sum_b)
        over_a, row_a, further, over_b, row_b = row_of_slices(numbers, slots, "scaled")
    else:
        row_a, row_b = shift_a * scales.inverse, shift_b * scales.inverse
        over_a, over_b = 1.0 / sum_a, 1.0 / sum_b
    return (base_a, base_b), (row_a, row_b), (over_a, over_b), further * over_a


@gluon_jit
def _shift(parts, row, WAITING: gl.constexpr):  # type: ignore[no-untyped-def]
    """The maximum of each slice, and what its exponentials are shifted by: 0 for −inf."""
    highest = highest_of(parts.held, parts.waiting, WAITING, 1, False)
    if WAITING > 0:
        barrier()
    maximum = of_slices(highest, parts.end, row.VECTOR, gl.max)
    return maximum, gl.where(maximum == float("-inf"), 0.0, maximum)


@gluon_jit
def _base(shift, scales):  # type: ignore[no-untyped-def]
    """A slice's `Base`. Where the fix would overflow, all products are exact instead."""
    rate = gl.where(gl.abs(shift * scales.rate) < 1073741824.0, scales.rate, scales.steep)
    start = shift * rate
    return Base(rate, start, gl.exp2(-gl.fma(shift, rate, -start)), shift)


@gluon_jit
def _power(x, base):  # type: ignore[no-untyped-def]
    """exp(x − shift) / fix of the elements of slices."""
    layout: gl.constexpr = x.type.layout
    return gl.exp2(gl.fma(x, by_lane(base.rate, layout), -by_lane(base.start, layout)))


@gluon_jit
def _slope_of(a, b, bases, of, scales, HOW: gl.constexpr):  # type: ignore[no-untyped-def]
    """As `_slope`, of the elements of slices."""
    layout: gl.constexpr = a.type.layout
    of = Of(by_lane(of.weight_a, layout), by_lane(of.weight_b, layout), by_lane(of.mean, layout))
    return _slope(a, b, (_power(a, bases[0]), _power(b, bases[1])), of, scales, HOW)


@gluon_jit
def _weight(base, most, over, scales):  # type: ignore[no-untyped-def]
    """What a slice's exponentials are multiplied by, so that the row's add up to one."""
    return over * base.fix * gl.exp2((base.shift * scales.inverse - most) * 1.4426950408889634)


@gluon_jit
def _begin(at, number):  # type: ignore[no-untyped-def]
    """Where a row begins, in vectors, or in elements of unaligned rows."""
    return number * gl.cast(at.row_stride, gl.int64) + at.lead


@gluon_jit
def _chunk(parts, i: gl.constexpr, HOW: gl.constexpr):  # type: ignore[no-untyped-def]
    """A chunk in float32."""
    WAITING: gl.constexpr = HOW.row.shared
    layout: gl.constexpr = parts.held[0].type.layout
    value = parts.waiting.index(i).load(layout) if i < WAITING else parts.held[i - WAITING]
    return unpacked(value, HOW.row.packed)


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
    LANES: tl.constexpr = HOW.lanes
    ROW: tl.constexpr = HOW.row
    VECTOR: tl.constexpr = HOW.row.vector
    number, rate, factor = tl.program_id(0).to(tl.int64), scales.rate, scales.scale
    ahead = ahead_of(a_at, number, ROW)
    vectors = whole_vectors(cols, ahead, ROW)
    source_a = first_vector(of_a, a_at, number, ROW)
    source_b = first_vector(of_b, b_at, number, ROW)
    rows, held, ends = Rows(source_a, source_b, a_at.col_stride, b_at.col_stride), None, None
    if HOW.row.ends:  # one for each of the first lanes
        lane, behind = tl.arange(0, LANES)[:, None, None], (cols - ahead) % VECTOR
        end = tl.where(lane < VECTOR, lane, cols - behind - VECTOR + lane)
        at_end = tl.where(lane < VECTOR, lane < ahead, lane < VECTOR + behind)
        end_a = _read(first_element(of_a, a_at, number, ROW) + end, at_end)
        end_b = _read(first_element(of_b, b_at, number, ROW) + end, at_end)
        ends = end_a, end_b
    if HOW.row.even:
        a, b = _tile(rows, 0, vectors, HOW)
        held = a, b
    # logits of 2²⁹ and more are further apart than exp2 reaches, at any rate; an exact one is taken
    rates, least = (rate, rate), (LEAST, LEAST)
    shift_a, over_a, shift_b, over_b, mean = _of_row(rows, held, ends, vectors, rates, least, HOW)
    wild_a, wild_b = tl.abs(shift_a) * rate > -0.5 * LEAST, tl.abs(shift_b) * rate > -0.5 * LEAST
    if wild_a | wild_b:
        rates = tl.where(wild_a, scales.steep, rate), tl.where(wild_b, scales.steep, rate)
        least = tl.where(wild_a, LOWEST, LEAST), tl.where(wild_b, LOWEST, LEAST)
        shift_a, over_a, shift_b, over_b, mean = _of_row(
            rows, held, ends, vectors, rates, least, HOW
        )
    if loss is not None:
        divergence = (mean - shift_a + shift_b) * scales.inverse
        tl.store(loss + number, divergence + tl.log(over_a) - tl.log(over_b))
    if dstudent is not None:
        if dloss is not None:
            factor *= tl.load(dloss + number if HOW.each else dloss)
        of = Of(over_a * factor, over_b * factor, mean)
        target = first_vector(dstudent, dstudent_at, number, ROW)
        if HOW.row.ends:
            first = first_element(dstudent, dstudent_at, number, ROW)
            powers = tl.exp2((end_a - shift_a) * rate), tl.exp2((end_b - shift_b) * rate)
            outer = _slope(end_a, end_b, powers, of, scales, HOW)
            tl.store(first + end, outer.to(dstudent.dtype.element_ty), mask=at_end)
        for start in range(0, vectors, LANES):
            if not HOW.row.even:
                a, b = _tile(rows, start, vectors, HOW)
            vector = start + vectors_of(0, LANES)
            places = target + offsets_of(vector, dstudent_at.col_stride, VECTOR)
            pair = tl.exp2((a - shift_a) * rate), tl.exp2((b - shift_b) * rate)
            inner = _slope(a, b, pair, of, scales, HOW)
            tl.store(places, inner.to(dstudent.dtype.element_ty), mask=vector < vectors)


@jit
def _of_row(
    rows: Rows,
    held: tl.tuple,
    ends: tl.tuple,
    vectors: tl.tensor,
    rates: tl.tuple,
    least: tl.tuple,
    HOW: tl.constexpr,
) -> tl.tuple:
    """Of a and of b the shift and 1 / Σ exp(x − shift), and Σ pₐ·(a − b)."""
    LANES: tl.constexpr = HOW.lanes
    zeros = tl.zeros((LANES, 1), tl.float32)
    lanes = Sums(zeros + least[0], zeros, zeros, zeros + least[1], zeros)
    if HOW.row.ends:
        lanes = _absorb(lanes, ends, rates)
    if HOW.row.even:
        lanes = _absorb(lanes, held, rates)
    else:
        whole = vectors // LANES * LANES
        for start in range(0, whole, LANES):
            lanes = _absorb(lanes, _tile(rows, start, None, HOW), rates)
        if whole < vectors:
            lanes = _absorb(lanes, _tile(rows, whole, vectors, HOW), rates)
    shift_a, over_a, weight = _joined(lanes.most_a, lanes.sum_a, rates[0])
    shift_b, over_b, _ = _joined(lanes.most_b, lanes.sum_b, rates[1])
    return shift_a, over_a, shift_b, over_b, tl.sum(lanes.further * weight)


@jit
def _tile(rows: Rows, start: tl.tensor, vectors: tl.tensor, HOW: tl.constexpr) -> tl.tuple:
    """A tile of a and of b, from a number of vectors on; ``vectors`` is None in a whole one."""
    vector = start + vectors_of(0, HOW.lanes)
    inside = None if vectors is None else vector < vectors
    a = rows.a + offsets_of(vector, rows.a_stride, HOW.row.vector)
    b = rows.b + offsets_of(vector, rows.b_stride, HOW.row.vector)
    return _read(a, inside), _read(b, inside)


@jit
def _read(places: tl.tensor, inside: tl.tensor) -> tl.tensor:
    """The elements in float32, −inf where there are none."""
    value = tl.load(places, mask=inside)
    if value.dtype == tl.bfloat16:  # shifted, each is unpacked by one instruction
        value = (value.to(tl.uint16, bitcast=True).to(tl.uint32) << 16).to(tl.float32, bitcast=True)
    value = value.to(tl.float32)
    return value if inside is None else tl.where(inside, value, float("-inf"))


@jit
def _absorb(lanes: Sums, pair: tl.tuple, rates: tl.tuple) -> Sums:
    """The sums of lanes, with the next elements of a and b added."""
    a, b = pair
    most_a, over_a, power = _raised(lanes.most_a, a, rates[0])
    most_b, over_b, other = _raised(lanes.most_b, b, rates[1])
    sum_a = lanes.sum_a * over_a + tl.sum(power, 2)
    further = lanes.further * over_a + tl.sum(_weighted(power, a - b), 2)
    return Sums(most_a, sum_a, further, most_b, lanes.sum_b * over_b + tl.sum(other, 2))


@jit
def _raised(most: tl.tensor, values: tl.tensor, rate: tl.tensor) -> tl.tuple:
    """Each lane's maximum of values in powers of two, the factor for its sums, and the powers."""
    highest = tl.maximum(most, tl.max(values, 2) * rate)
    return highest, tl.exp2(most - highest), tl.exp2(tl.fma(values, rate, -highest[:, :, None]))


@jit
def _joined(most: tl.tensor, summed: tl.tensor, rate: tl.tensor) -> tl.tuple:
    """The row's shift, one over its sum, and the weight of each lane's sums."""
    highest = tl.max(most)
    scale, shift = tl.exp2(most - highest), highest / rate
    over = 1.0 / tl.sum(summed * scale)
    return shift, over * tl.exp2(tl.fma(shift, rate, -highest)), scale * over
