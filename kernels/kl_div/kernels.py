"""KL(teacher‖student) of rows of logits, or KL(student‖teacher), and the student's gradient.

KL(a‖b) = Σ pₐ·(a − b) − lse(a) + lse(b), where lse is the logarithm of the sum of exponentials.
Nothing but the loss and the gradient is written: no softmax and no log-softmax is in memory.
Passes: the loss reads both matrices once, 2MN. With the gradient, rows of whole 16-byte vectors
that a cluster holds (sm_90 and up) are read once, 3MN in all; others stream through tiles, 5MN.
The loss alone is by clusters where their last chunk is nearly full, else by streams (`suits`).
Idea: a cluster's warps each load their slices of both rows, take their maxima and sums, and send
the five numbers to all programs of the cluster in one exchange. A stream keeps a maximum and the
sums of each lane, and rescales them tile by tile.
On chip: both rows, or a tile of each.
Bits: the cut of a row follows from N, the dtype and the card, never from M.
Source: this project; the online sums of Milakov & Gimelshein 2018, arXiv 1805.02867.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import sympy
import torch
from typing_extensions import override

from ..cluster.cut import Cut, OnCluster, cut
from ..cluster.row import distinct, divergences_of, largest, row_number, slots_of, whole_row
from ..device import Device, device_of
from ..kernel import Kernel, Shape, Tensors
from ..language import gl, gluon_jit, jit, next_power_of_two, tl
from ..launch import launch, load_hint, store_hint
from ..softmax_backward.rows import in_vectors
from ..traffic import M, N, Traffic
from ..vectors import LONGEST
from .operation import KL_DIV, KL_DIV_GRAD

MANY = 4096  # rows that a cut is for, whatever M is
# A streaming program's lanes and warps: of rows that are whole vectors, and of others
STREAMS = {True: (512, 16), False: (2048, 8)}
# Of a cut, with which a cluster is the faster one for a loss: see `suits`
NARROW, FEW_WARPS, FULL = 8192, 4, 0.95
WIDEST = 262144  # float32 elements of two rows that an H200's largest cluster holds
LOG2E = 1.4426950408889634


class How(NamedTuple):
    """Constants of a launch."""

    chunks: int
    vector: int
    even: bool
    packed: bool
    reverse: bool
    each: bool  # whether each row has a gradient of its own
    loads: str
    stores: str


@dataclass(frozen=True)
class KlAuto(OnCluster):
    """The loss: by a cluster a row where that can be, else by a stream."""

    operation = KL_DIV
    moves = Traffic(reads=2 * M * N, writes=sympy.S.Zero, write_bytes=4 * M)
    on_chip = 2 * N
    matrices, in_vectors = 2, True

    @override
    def plan(self, shape: Shape, dtype: torch.dtype, width: int, device: Device) -> Cut | None:
        """The cut of a row; None if two rows do not fit."""
        asked = self.programs, self.num_warps, self.matrices
        return cut((MANY, shape[1]), dtype.itemsize, width, device, *asked)

    @override
    def unsupported(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        """See `Kernel`; a stream takes what a cluster does not."""
        return Kernel.unsupported(self, shape, dtype, device)

    @override
    def __call__(self, student: torch.Tensor, teacher: torch.Tensor) -> Tensors:
        loss = torch.empty(len(student), device=student.device)
        self.run(student, teacher, loss)
        return loss

    def run(
        self,
        student: torch.Tensor,
        teacher: torch.Tensor,
        loss: torch.Tensor | None,
        dstudent: torch.Tensor | None = None,
        dloss: torch.Tensor | None = None,
        temperature: float = 1.0,
        reverse: bool = False,
    ) -> None:
        """Writes the results for which memory is given.

        Args:
            student: Logits (M, N), float16, bfloat16 or float32; any strides.
            teacher: Likewise, of the same dtype.
            loss: (M,), float32; a row without columns has loss 0.
            dstudent: The gradient, of adjacent columns; may be the student's own memory.
            dloss: The loss's own gradient, float32: (M,), or (1,) for all rows; None for ones.
            temperature: Divides both.
            reverse: Whether the loss is KL(student‖teacher).
        """
        if student.numel() == 0:
            if loss is not None:
                loss.zero_()
            return
        (rows, cols), width = student.shape, LONGEST // student.element_size()
        matrices = [x for x in (student, teacher, dstudent) if x is not None]
        each = dloss is not None and dloss.numel() > 1
        plan = _plan_of(self, (rows, cols), student.dtype, device_of(student))
        tensors = student, teacher, loss, dstudent, dloss
        written = 0 if dstudent is None else dstudent.stride(0)
        scales = LOG2E / temperature, 1 / temperature
        whole = all(map(in_vectors, matrices))
        if not whole or plan is None or (dstudent is None and not suits(plan, cols)):
            vector, (lanes, warps) = width if whole else 1, STREAMS[whole]
            lanes = min(lanes, next_power_of_two(-(-cols // vector)))
            warps = min(warps, max(lanes // 32, 1))
            constants = {"REVERSE": reverse, "EACH": each, "LANES": lanes, "VECTOR": vector}
            numbers = cols, *student.stride(), *teacher.stride(), written, *scales
            launch(_streamed, (rows,), (*tensors, *numbers), constants, num_warps=warps)
            return
        even, hints = cols == plan.chunks * plan.chunk, (load_hint(student), store_hint(student))
        how = How(plan.chunks, width, even, plan.packed, reverse, each, *hints)
        strides = student.stride(0) // width, teacher.stride(0) // width, written // width
        launch(
            _on_cluster,
            (rows,),
            (*tensors, cols // width, *strides, *scales),
            {"HOW": how},
            num_warps=plan.warps,
            num_ctas=plan.programs,
        )


def suits(plan: Cut, cols: int) -> bool:
    """Whether a cluster computes a loss faster than a stream.

    Of wide rows only with few warps and a last chunk that is nearly full: then clusters have 101 %
    of an H100's roof at 1024 to 4096 rows, else 65 to 94 %, and streams 96 to 97 %.
    """
    full = cols >= FULL * plan.chunks * plan.chunk
    return cols <= NARROW or (plan.warps <= FEW_WARPS and full)


@lru_cache(maxsize=4096)
def _plan_of(kernel: KlAuto, shape: Shape, dtype: torch.dtype, device: Device) -> Cut | None:
    """The cut of rows of whole vectors; None where no cluster takes them."""
    if OnCluster.unsupported(kernel, shape, dtype, device) is not None:
        return None
    return kernel.plan(shape, dtype, LONGEST // dtype.itemsize, device)


@dataclass(frozen=True)
class KlGradAuto(KlAuto):
    """Loss and gradient; see `KlAuto`. Its traffic is by an H200's clusters."""

    operation = KL_DIV_GRAD
    once = (N <= WIDEST) & sympy.Eq(sympy.Mod(N, 8), 0)
    moves = Traffic(
        reads=sympy.Piecewise((2 * M * N, once), (4 * M * N, True)),
        writes=M * N,
        write_bytes=4 * M,
    )

    @override
    def __call__(self, student: torch.Tensor, teacher: torch.Tensor) -> Tensors:
        loss = torch.empty(len(student), device=student.device)
        dstudent = torch.empty(student.shape, dtype=student.dtype, device=student.device)
        self.run(student, teacher, loss, dstudent)
        return loss, dstudent


@gluon_jit
def _on_cluster(  # type: ignore[no-untyped-def]
    student,
    teacher,
    loss,
    dstudent,
    dloss,
    vectors,
    student_vectors,
    teacher_vectors,
    dstudent_vectors,
    rate,
    inverse,
    HOW: gl.constexpr,
):
    SLICES: gl.constexpr = gl.num_ctas() * gl.num_warps()
    LOADS: gl.constexpr = HOW.loads
    STORES: gl.constexpr = HOW.stores
    if SLICES > 1:
        slots = slots_of(3)
    number = row_number().to(gl.int64)
    row = whole_row(vectors, HOW.chunks, HOW.vector, HOW.even)
    student += number * (gl.cast(student_vectors, gl.int64) * HOW.vector)
    teacher += number * (gl.cast(teacher_vectors, gl.int64) * HOW.vector)
    upstream = inverse
    if dloss is not None:
        upstream = gl.load(dloss + number if HOW.each else dloss) * inverse
    if HOW.reverse:  # KL(a‖b)
        a = row.load(student, 1, 0, float("-inf"), LOADS)
        b = row.load(teacher, 1, 0, float("-inf"), LOADS)
    else:
        b = row.load(student, 1, 0, float("-inf"), LOADS)
        a = row.load(teacher, 1, 0, float("-inf"), LOADS)

    most_a, shift_a = _shift(a, row)
    most_b, shift_b = _shift(b, row)
    zeros = gl.full(row.columns.shape, 0.0, gl.float32, row.columns.type.layout)
    sum_a, sum_b, further = zeros, zeros, zeros
    for i in gl.static_range(row.CHUNKS):
        of_a = distinct(a[i], HOW.packed).to(gl.float32)
        of_b = distinct(b[i], HOW.packed).to(gl.float32)
        power = gl.exp2((of_a - shift_a[:, None]) * rate)
        further += gl.where(power > 0, power * (of_a - of_b), 0.0)
        sum_a += power
        sum_b += gl.exp2((of_b - shift_b[:, None]) * rate)
    sum_a, sum_b = gl.sum(sum_a, axis=1), gl.sum(sum_b, axis=1)
    further = gl.sum(further, axis=1)
    over_a, row_a, over_b, row_b = 1.0 / sum_a, shift_a * inverse, 1.0 / sum_b, shift_b * inverse
    if SLICES > 1:
        over_a, row_a, further, over_b, row_b = divergences_of(
            most_a * inverse, sum_a, further, most_b * inverse, sum_b, slots
        )
    mean = further * over_a  # Σ p·(a − b)
    if loss is not None:
        value = mean * inverse - (row_a - gl.log(over_a)) + (row_b - gl.log(over_b))
        slice_ = gl.arange(0, SLICES, gl.SliceLayout(1, row.columns.type.layout))
        gl.store(loss + number + 0 * slice_, value, mask=slice_ == 0)
    if dstudent is not None:
        dstudent += number * (gl.cast(dstudent_vectors, gl.int64) * HOW.vector)
        over_a *= gl.exp2((shift_a * inverse - row_a) * 1.4426950408889634)
        over_b *= gl.exp2((shift_b * inverse - row_b) * 1.4426950408889634)
        for i in gl.static_range(row.CHUNKS):
            of_a = distinct(a[i], HOW.packed).to(gl.float32)
            of_b = distinct(b[i], HOW.packed).to(gl.float32)
            p = gl.exp2((of_a - shift_a[:, None]) * rate) * over_a[:, None]
            if HOW.reverse:
                value = gl.where(p > 0, p * ((of_a - of_b - mean[:, None]) * inverse), 0.0)
            else:
                value = gl.exp2((of_b - shift_b[:, None]) * rate) * over_b[:, None] - p
            row.store(dstudent, 1, i, value * upstream, STORES)


@gluon_jit
def _shift(values, row):  # type: ignore[no-untyped-def]
    """The maximum of each slice, and what its exponentials are shifted by: 0 for −inf."""
    highest = values[0].to(gl.float32)
    for i in gl.static_range(1, row.CHUNKS):
        highest = gl.maximum(highest, values[i].to(gl.float32))
    maximum = largest(highest, None, row.VECTOR)
    return maximum, gl.where(maximum == float("-inf"), 0.0, maximum)


@jit
def _streamed(
    student: tl.tensor,
    teacher: tl.tensor,
    loss: tl.tensor,
    dstudent: tl.tensor,
    dloss: tl.tensor,
    cols: tl.tensor,
    student_row: tl.tensor,
    student_col: tl.tensor,
    teacher_row: tl.tensor,
    teacher_col: tl.tensor,
    dstudent_row: tl.tensor,
    rate: tl.tensor,
    inverse: tl.tensor,
    REVERSE: tl.constexpr,
    EACH: tl.constexpr,
    LANES: tl.constexpr,
    VECTOR: tl.constexpr,
) -> None:
    TILE: tl.constexpr = LANES * VECTOR
    number = tl.program_id(0).to(tl.int64)
    student += number * student_row
    teacher += number * teacher_row
    within = tl.arange(0, LANES)[:, None] * VECTOR + tl.arange(0, VECTOR)[None, :]
    most_a = tl.full((LANES,), float("-inf"), tl.float32)
    most_b = most_a
    sum_a = tl.zeros((LANES,), tl.float32)
    sum_b, further = sum_a, sum_a
    for start in range(0, cols, TILE):
        at = (start + within).to(tl.int64)
        a, b = _pair(student, teacher, student_col, teacher_col, at, cols, REVERSE)
        most_a, over_a, shift = _raised(most_a, a, rate)
        power = tl.exp2((a - shift[:, None]) * rate)
        sum_a = sum_a * over_a + tl.sum(power, 1)
        further = further * over_a + tl.sum(tl.where(power > 0, power * (a - b), 0.0), 1)
        most_b, over_b, shift = _raised(most_b, b, rate)
        sum_b = sum_b * over_b + tl.sum(tl.exp2((b - shift[:, None]) * rate), 1)
    shift_a, over, scale_a = _joined(most_a, sum_a, rate)
    shift_b, over_b, _ = _joined(most_b, sum_b, rate)
    mean = tl.sum(further * scale_a) * over
    if loss is not None:
        value = (mean - shift_a + shift_b) * inverse + tl.log(over) - tl.log(over_b)
        tl.store(loss + number, value)
    if dstudent is not None:
        upstream = inverse
        if dloss is not None:
            upstream = tl.load(dloss + number if EACH else dloss) * inverse
        for start in range(0, cols, TILE):
            at = (start + within).to(tl.int64)
            a, b = _pair(student, teacher, student_col, teacher_col, at, cols, REVERSE)
            p = tl.exp2((a - shift_a) * rate) * over
            if REVERSE:
                gradient = tl.where(p > 0, p * ((a - b - mean) * inverse), 0.0)
            else:
                gradient = tl.exp2((b - shift_b) * rate) * over_b - p
            gradient = (gradient * upstream).to(dstudent.dtype.element_ty)
            tl.store(dstudent + number * dstudent_row + at, gradient, mask=at < cols)


@jit
def _pair(
    student: tl.tensor,
    teacher: tl.tensor,
    student_col: tl.tensor,
    teacher_col: tl.tensor,
    at: tl.tensor,
    cols: tl.tensor,
    REVERSE: tl.constexpr,
) -> tl.tuple:
    """A tile of a and of b, −inf beyond the row."""
    inside = at < cols
    s = tl.load(student + at * student_col, mask=inside, other=float("-inf")).to(tl.float32)
    t = tl.load(teacher + at * teacher_col, mask=inside, other=float("-inf")).to(tl.float32)
    if REVERSE:
        return s, t
    return t, s


@jit
def _raised(most: tl.tensor, values: tl.tensor, rate: tl.tensor) -> tl.tuple:
    """Each lane's maximum with new values, the factor for its sums, and its shift."""
    highest = tl.maximum(most, tl.max(values, 1))
    shift = tl.where(highest == float("-inf"), 0.0, highest)
    return highest, tl.exp2((most - shift) * rate), shift


@jit
def _joined(most: tl.tensor, summed: tl.tensor, rate: tl.tensor) -> tl.tuple:
    """The row's shift, one over its sum, and the factor of each lane."""
    highest = tl.max(most)
    shift = tl.where(highest == float("-inf"), 0.0, highest)
    scale = tl.exp2((most - shift) * rate)
    return shift, 1.0 / tl.sum(summed * scale), scale
