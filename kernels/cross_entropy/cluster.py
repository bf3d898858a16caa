"""A cluster of programs holds one row of logits on chip: Gluon, sm_90 and newer.

One kernel computes the loss, the gradient of short rows, both together, log-softmax, logsumexp, and
log-probability with entropy.
Passes: one; reads MN, and writes MN for a gradient or a log-softmax.
Idea: as in `softmax/cluster.py`, a warp loads its slice of the row into registers, computes its
maximum m and its sum d of exp(z − m), and sends the pair to all programs of the cluster. Label
smoothing (Σ z) and the entropy send one more sum. There is no other message. The lane that holds
the target's logit reads it a second time and writes the row's results. For the gradient all lanes
write p·a − b as if there were no target; then that lane overwrites its one element. So no element
is compared with the target. The gradient may overwrite the logits, because each thread overwrites
only elements that it has read itself.
Narrow rows (`has_narrow`): a warp holds one or several. They need no other warp, and their loads
are in flight together. If they are unaligned, all vectors are read that they have a part of;
elements of their neighbours count as −∞, and are not written.
On chip: the row. A thread holds up to 64 float32 elements, or 128 packed 16-bit elements, or 160
with an entropy. Capped logits with a gradient take 64 for any dtype: their tanh is kept.
The bits of a row depend on N, the cut and the row's offset within a 16-byte vector; not on M.
Source: this project; z-loss and the kept logsumexp as in flash-attention's and QuACK's
cross-entropy, the in-place gradient as in Liger-Kernel's.
"""

from __future__ import annotations

from collections import namedtuple
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from typing_extensions import override

from ..cluster.cut import MANY, Cut, OnCluster, cut, reading
from ..cluster.ptx import LANES
from ..cluster.row import (
    Row,
    by_lane,
    distinct,
    ends_of,
    in_registers,
    of_slices,
    row_at,
    row_number,
    row_of_slices,
    slots_of,
    unpacked,
)
from ..device import REGISTER_STEP, Device, device_of, largest_cluster
from ..kernel import Shape, variant
from ..language import LOG2E, constant, gl, gluon_jit, next_power_of_two, tl
from ..launch import beyond_l2, launch
from ..traffic import M, N, Traffic
from ..vectors import LONGEST
from . import rows as streaming
from .operation import (
    CROSS_ENTROPY,
    CROSS_ENTROPY_GRAD,
    LOG_SOFTMAX,
    LOGPROB_ENTROPY,
    LOGSUMEXP,
)
from .rows import NARROW, Call, RowVariant

LN2 = constant(0.6931471805599453)
FEWEST_WARPS, AT_ONCE = 4, 3  # warps per row; programs that an SM should hold
A_THREAD = 128  # bytes per thread for rows of fewer warps
UNDER_WAY = {1: 112 << 10, 2: 160 << 10}  # most bytes in flight per SM, by programs per cluster
MOST_UNDER_WAY = 192 << 10  # the same for larger clusters, whose programs wait for each other
BESIDE, MOST_REGISTERS = 16, 128  # registers per thread: beside a row's vectors, and at most
# With an entropy: 16-bit elements per thread; registers beside vectors; programs of an SM
MOST_OF_ENTROPY, BESIDE_ENTROPY, AT_ONCE_ENTROPY = 160, 12, 4
MANY_CHUNKS, HEAVY = 12, 96  # with more chunks, a gradient takes so many registers
# Columns up to which a warp holds a row, or several. Of 16 bit more, if rows are unaligned, or with
# an entropy. Fewer, by the bytes of an element, if a gradient is written, or a logarithm.
MOST_UNALIGNED, MOST_WITH_ENTROPY = 4608, 6144
MOST_OF_GRADIENT, MOST_OF_LOGARITHM, FEWEST_OF_LOGARITHM = {2: 2048, 4: 511}, {2: 1024, 4: 128}, 32
# Their cuts: the most vectors that a lane has under way, of aligned and of unaligned rows
AHEAD = (8, 12)
FEW_VECTORS, FEWEST_LANES = 24, (4, 8)  # up to so many vectors the first, else the second
ONE_WARP = 64  # vectors of an aligned row: from here on a program has one warp, else two
LARGEST = constant(3.4028234663852886e38)
NOTHING = constant(-300.0)  # exp2 of it is 0 in float32
DROP_NAN, KEEP_NAN = (constant(tl and getattr(tl.PropagateNan, one)) for one in ("NONE", "ALL"))

# tanh x = t·P(t²) / Q(t²), t = min(|x| / EDGE, 1), with the sign of x. The coefficients minimise
# the relative error, 2e-8; the remaining error comes from rounding the steps.
EDGE = constant(8.75)
P0, P1, P2 = constant(0.31992658972740173), constant(3.28157377243042), constant(6.591681957244873)
P3, P4 = constant(3.0051109790802), constant(0.15176866948604584)
Q0, Q1 = constant(0.03656303882598877), constant(1.30815589427948)
Q2, Q3 = constant(5.56182861328125), constant(5.443514347076416)  # Q4 is 1
WITHIN_ONE = constant("{ .reg .f32 r; abs.f32 r, $1; mul.sat.f32 $0, r, $2; }")
QUOTIENT = constant(
    "{ .reg .f32 r; rcp.approx.ftz.f32 r, $2; mul.sat.f32 r, $1, r; copysign.f32 $0, $3, r; }"
)


class RowCluster(OnCluster, RowVariant):
    """The common part of these variants: one cluster per row, cut by N and dtype, not by M."""

    on_chip = N

    @override
    def plan(self, shape: Shape, dtype: torch.dtype, width: int, device: Device) -> Cut | None:
        """The cut of a row read by vectors of ``width``; None if it does not fit."""
        return plan_of(shape[1], dtype.itemsize, width, device, self.programs, self.num_warps)

    @override
    def run(self, call: Call) -> None:
        """See `RowVariant`; there is no ``weight``, and ``dloss`` is contiguous or one number.

        Raises:
            ValueError: a row does not fit on chip; strided columns fit less.
        """
        x, options, written, dloss = call.x, call.options, call.matrix, call.dloss
        entropy, gradient = call.entropy is not None, call.dlogits is not None
        if x.numel() == 0:
            return streaming.run(call)
        rows, cols = x.shape
        width, ends = reading(x, written)
        unit = 1 if ends else width  # of the lengths passed to the kernel
        given, capped = (self.programs, self.num_warps), options.softcap != 0
        several = not any(given) and has_narrow(call, width, ends)
        if several:
            plan: Cut | None = narrow_cut(cols, width, ends, x.element_size())
        else:
            plan = plan_of(cols, x.element_size(), width, device_of(x), *given, entropy)
            if capped and gradient:
                # Capped logits stay in float32 for the gradient's pass: computing them twice from
                # packed ones takes two fifths longer at 4096×32000 bfloat16 on an H200
                plan = self.plan((rows, cols), torch.float32, width, device_of(x)) or plan
        if plan is None:
            raise ValueError(f"cluster: {cols} elements read by {width} do not fit on chip")
        strides = (0, 1) if written is None else (written.stride(0) // unit, written.stride(1))
        lanes = plan.chunk // width if several else LANES
        slices = plan.programs * plan.warps * LANES // lanes
        at_once = slices if several else 1  # rows of a program
        in_cap = abs(options.softcap) or 1.0  # the unit of capped logits
        inverse, smoothing = in_cap / options.temperature, options.label_smoothing
        ignored = options.ignore_index
        registers = None
        if not several and (gradient or (call.y is None and beyond_l2(x))):
            registers = registers_of(plan, device_of(x), gradient, entropy, capped)
        how = How(
            row=plan.how(x, width, ends and not several),
            lanes=lanes,
            slices=slices,
            several=several,
            covers=ends and several,
            alone=several or slices == 1,
            kind=call.kind,
            further=call.further,
            gradient=gradient,
            logarithm=call.y is not None,
            capped=capped,
            each=dloss is not None and dloss.numel() > 1,
            mean=call.known and call.mean,
        )
        lse = None if call.known and not call.mean else call.lse  # it is computed anew
        arguments = (
            *(x, call.target, call.of_target, call.entropy, written, lse, dloss),
            Sizes(rows, cols // unit, x.stride(0) // unit, x.stride(1), *strides, ignored),
            Numbers(inverse, 1 / in_cap, smoothing, smoothing / cols, options.z_loss),
        )
        clusters, asked = -(-rows // at_once), {**plan.options, "maxnreg": registers}
        launch(_rows, (clusters,), arguments, {"HOW": how}, **asked)


@lru_cache(maxsize=4096)
def plan_of(
    cols: int,
    size: int,
    width: int,
    device: Device,
    programs: int | None,
    warps: int | None,
    entropy: bool = False,
) -> Cut | None:
    """The cut of rows read by ``width`` elements of ``size`` bytes; None if no cut fits.

    A warp requests all of its elements before it waits, and a packed element takes half a register.
    So the fewer warps hold a row, the more bytes an SM has in flight. A row of four warps or more
    gets as few warps as can hold it, and as few programs as still let an SM hold `AT_ONCE`, so that
    some compute while others load. Fitted to 32000 to 262144 columns on an H200. For narrower rows
    a thread holds `A_THREAD` bytes. Rows up to `NARROW` elements, and rows with given programs or
    warps, get softmax's cut. With an ``entropy`` a thread may hold more 16-bit elements, so that
    rows of 131073 to 163840 columns need no 64 warps, and the programs that an SM holds are counted
    by the registers that `registers_of` asks for.
    """

    def cut_into(programs: int | None, warps: int | None) -> Cut | None:
        one = cut((MANY, cols), size, width, device, programs, warps, waiting=False)
        if one is None and entropy and programs and warps and size == 2 and width > 1:
            chunk = programs * warps * LANES * width
            chunks = -(-(cols // width * width) // chunk)
            if chunks * width <= MOST_OF_ENTROPY and programs <= largest_cluster(device):
                return Cut(programs, warps, chunk, chunks, 0, True)
        return one

    def resident(one: Cut) -> int:
        registers = registers_of(one, device, False, True) if entropy else None
        return one.resident(width, device, registers)

    asked = cut_into(programs, warps)
    if asked is None or programs is not None or warps is not None:
        return asked
    for total in (1 << n for n in range(9)):
        shares = [(some, total // some) for some in (1, 2, 4, 8, 16) if 1 <= total // some <= 16]
        cuts = [one for share in shares if (one := cut_into(*share)) is not None]
        if cuts and total < FEWEST_WARPS:
            few = next_power_of_two(-(-cols * size // (32 * A_THREAD)))
            return (cut_into(1, few) if cols > NARROW else None) or asked
        if cuts:
            wide = (AT_ONCE_ENTROPY if entropy else AT_ONCE) * (device.sms or 1)
            return next((one for one in cuts if resident(one) >= wide), cuts[-1])
    return asked


def has_narrow(call: Call, width: int, ends: bool) -> bool:
    """Whether a warp may hold several rows: narrow rows that 16-byte vectors read.

    Args:
        call: What is computed.
        width: Elements of the vectors that read its rows, see `reading`.
        ends: Whether rows are unaligned.
    """
    options, (rows, cols), size = call.options, call.x.shape, call.x.element_size()
    overlap = ends and rows > 1 and call.x.stride(0) < cols  # no row follows that has the vector
    if width * size != LONGEST or size == 8 or overlap:
        return False
    if call.y is not None:
        return FEWEST_OF_LOGARITHM <= cols <= MOST_OF_LOGARITHM[size]
    # elements that are not the row's would count in a sum of logits, or of capped ones
    plain = options.softcap == 0 and options.label_smoothing == 0
    if (ends or call.dlogits is not None) and not plain:
        return False
    if call.dlogits is not None:
        return cols <= MOST_OF_GRADIENT[size]
    wide = MOST_WITH_ENTROPY if call.entropy is not None else MOST_UNALIGNED if ends else NARROW
    return cols <= (wide if size == 2 else NARROW)


@lru_cache(maxsize=4096)
def registers_of(
    plan: Cut, device: Device, gradient: bool, entropy: bool, capped: bool = False
) -> int | None:
    """Registers per thread, which set the occupancy; None leaves them to the compiler.

    For one cut the compiler takes 64 to 155, depending on the outputs. Of programs that only read,
    too many per SM have more loads in flight than memory serves well, and too few leave memory
    idle. Programs with an entropy are bound by arithmetic: as many as fit are best. For logits
    within L2 the compiler decides: with few registers one load may wait for another. Fitted to
    packed rows of 2304 to 262144 columns on an H200. float32 rows, and programs of more than four
    warps without an entropy, are fast as compiled.

    Args:
        plan: The cut of a row.
        device: The device that runs the kernel.
        gradient: Whether a gradient is written; not with an entropy.
        entropy: Whether an entropy is written.
        capped: Whether logits are capped. A gradient of 64 capped logits per thread spills nothing
            in `HEAVY` registers, while the compiler would take up to 127.
    """
    held = plan.chunks * plan.chunk // (plan.programs * plan.warps * LANES)
    if capped and gradient and not plan.packed:
        return HEAVY if held > 32 else None
    many, held_by_sm = plan.chunks > MANY_CHUNKS, device.registers_per_sm
    if not plan.packed or held_by_sm is None or (plan.warps > FEWEST_WARPS and not entropy):
        return None
    if gradient:
        return HEAVY if many else None
    beside = BESIDE_ENTROPY if entropy else BESIDE
    need = -(-(plan.chunks * LONGEST // 4 + beside) // REGISTER_STEP) * REGISTER_STEP
    if entropy:
        return need if many else None
    threads = plan.warps * LANES
    under_way = UNDER_WAY.get(plan.programs, MOST_UNDER_WAY)
    most = under_way // (plan.chunks * threads * LONGEST)
    for registers in range(need, MOST_REGISTERS, REGISTER_STEP):
        if held_by_sm // (threads * registers) <= most:
            return registers
    return MOST_REGISTERS


@lru_cache(maxsize=4096)
def narrow_cut(cols: int, width: int, ends: bool, size: int) -> Cut:
    """The cut of a narrow row, read by ``width`` elements of ``size`` bytes.

    Fitted to rows of 40 to 6144 columns on an H200. An unaligned row begins anywhere in a vector.
    """
    vectors = (cols + 2 * (width - 1)) // width if ends else cols // width
    fewest = FEWEST_LANES[vectors > FEW_VECTORS]
    lanes = min(LANES, max(fewest, next_power_of_two(-(-vectors // AHEAD[ends]))))
    warps = 1 if vectors >= ONE_WARP and not ends else 2
    return Cut(1, warps, lanes * width, -(-vectors // lanes), 0, size == 2)


NUMBERS = Traffic(reads=M * N + M, read_bytes=8 * M, write_bytes=8 * M)  # two of each row
GRADIENT = Traffic(reads=M * N + M, writes=M * N + M, read_bytes=8 * M, write_bytes=4 * M)
A_NUMBER = Traffic(reads=M * N, write_bytes=4 * M)
MATRIX = Traffic(reads=M * N, writes=M * N)
CeCluster = variant(RowCluster, CROSS_ENTROPY, moves=NUMBERS, beside=("lse",))
LogprobEntropyCluster = variant(RowCluster, LOGPROB_ENTROPY, moves=NUMBERS)
CeGradCluster = variant(RowCluster, CROSS_ENTROPY_GRAD, moves=GRADIENT)
CeGradClusterInPlace = variant(CeGradCluster, CROSS_ENTROPY_GRAD, overwrites="logits")
LogSumExpCluster = variant(RowCluster, LOGSUMEXP, moves=A_NUMBER)
LogSoftmaxCluster = variant(RowCluster, LOG_SOFTMAX, moves=MATRIX)


# Device code in Gluon.


class How(NamedTuple):
    """What a launch computes, and how it reads and writes; constants of the compiled kernel."""

    row: Any  # how a row is held: `cluster.cut.How`
    lanes: int  # of a row's slice: fewer than 32 where a warp holds several rows
    slices: int  # of a cluster: of a row, or if it is ``alone`` rows
    several: bool  # whether a warp holds a row, or several, that need no other warp
    covers: bool  # whether several rows' vectors have elements of their neighbours too
    alone: bool  # whether a slice is a row
    kind: str  # see `Call`
    further: str
    gradient: bool
    logarithm: bool  # whether the log-softmax is written
    capped: bool
    each: bool  # whether each row's loss has a gradient of its own
    mean: bool  # whether lse[M] multiplies the gradient, instead of being written


# The whole numbers of a launch: lengths in vectors, or in elements of unaligned rows
Sizes = namedtuple("Sizes", "rows cols row_stride col_stride y_row_stride y_col_stride ignored")
# The options of the loss: 1 / temperature in units of the cap, 1 / cap, and the others. `share` is
# the smoothing of one class; `rate`, which the kernel computes, is `inverse`·log₂e.
Numbers = namedtuple("Numbers", "inverse inverse_cap smoothing share z_loss rate", defaults=[None])
# A slice's row: its number, whether there is one, `Row`, elements, and of an unaligned row the
# results of `ends_of`; of one that vectors cover `ahead` are its neighbour's elements in the first
Here = namedtuple("Here", "number exists row cols end at_end ahead")
# A row's target: its column (0 where it is out of range), whether this lane holds it, its logit,
# whether it is in range, and whether the row is not ignored
Target = namedtuple("Target", "column own logit valid counts")
# Of a slice: its maximum of z, and the shift of its exponentials, of the logits read. Of the row:
# 1 / Σ exp(z − max z), max z, the logarithm of that sum, and the sum of entropy or of smoothing
Statistics = namedtuple("Statistics", "maximum shift quotient row_maximum logarithm further")


@gluon_jit
def _tanh(value, scale):  # type: ignore[no-untyped-def]
    """tanh(value·scale), scale > 0, within four spacings of float32; 0 for NaN."""
    size = gl.inline_asm_elementwise(
        WITHIN_ONE, "=f,f,f", [value, scale * (1 / EDGE)], gl.float32, is_pure=True, pack=1
    )
    square = size * size
    over = P0 + square * (P1 + square * (P2 + square * (P3 + square * P4)))
    under = Q0 + square * (Q1 + square * (Q2 + square * (Q3 + square)))
    return gl.inline_asm_elementwise(
        QUOTIENT, "=f,f,f,f", [size * over, under, value], gl.float32, is_pure=True, pack=1
    )


@gluon_jit
def _capped(value, inverse_cap, CAPPED: gl.constexpr, PACKED: gl.constexpr = False):  # type: ignore[no-untyped-def]
    """Logits unpacked again to float32; capped logits are in units of the cap and lose NaN."""
    if CAPPED:
        return _tanh(unpacked(value, PACKED), inverse_cap)
    return distinct(value, PACKED).to(gl.float32)


@gluon_jit
def _gradient(exponential, logit, scale, offset, HOW: gl.constexpr, TARGET: gl.constexpr = False):  # type: ignore[no-untyped-def]
    value = exponential * scale
    if TARGET or HOW.further == "added":
        value = value - offset
    if HOW.capped:
        value = value * (1.0 - logit * logit)
    return value


@gluon_jit
def _opened(sizes, single: gl.constexpr, HOW: gl.constexpr):  # type: ignore[no-untyped-def]
    """The row of each slice."""
    VECTOR: gl.constexpr = HOW.row.vector
    WIDTH: gl.constexpr = HOW.lanes * VECTOR
    CHUNK: gl.constexpr = WIDTH if HOW.alone else HOW.slices * WIDTH
    layout: gl.constexpr = in_registers(VECTOR, gl.num_warps(), gl.num_ctas(), HOW.lanes)
    number, cols = row_number(), gl.cast(sizes.cols, gl.int32)
    slice_ = gl.arange(0, HOW.slices, gl.SliceLayout(1, layout))
    within = gl.arange(0, WIDTH, gl.SliceLayout(0, layout))
    columns = (slice_[:, None] * (0 if HOW.alone else WIDTH) + within[None, :]).to(gl.int64)
    exists, end, at_end, ahead = 1, 0, 0, 0  # Triton 3.6 returns no None
    if HOW.several:  # the last row again where there are no more
        number = number * HOW.slices + slice_
        exists = number < sizes.rows
        number = gl.minimum(number, sizes.rows - 1)
    number, vectors = number.to(gl.int64), cols
    cut: gl.constexpr = 2 if HOW.covers else 0 if HOW.row.even and not HOW.row.ends else 1
    if HOW.row.ends:
        end, at_end, vectors, ahead = ends_of(number, sizes.row_stride, cols, VECTOR, single)
    elif HOW.covers:
        ahead = (number * gl.cast(sizes.row_stride, gl.int64) % VECTOR).to(gl.int32)
        # the matrix's last vector is left out if the matrix has only a part of it
        rounded = gl.where(number + 1 < sizes.rows, VECTOR - 1, 0)
        vectors = ((ahead + cols + rounded) // VECTOR)[:, None]
    else:
        cols = vectors * VECTOR
    FULL: gl.constexpr = HOW.row.chunks - cut if HOW.row.chunks > cut else 0
    row = Row(columns, vectors, HOW.row.chunks, CHUNK, VECTOR, FULL)
    return Here(number, exists, row, cols, end, at_end, ahead)


@gluon_jit
def _elements(here, i: gl.constexpr):  # type: ignore[no-untyped-def]
    """Which elements of chunk ``i`` are a covered row's own."""
    columns = (here.row.columns + i * here.row.CHUNK).to(gl.int32) - here.ahead[:, None]
    return (columns >= 0) & (columns < here.cols)


@gluon_jit
def _own_elements(values, source, here, sizes, HOW: gl.constexpr):  # type: ignore[no-untyped-def]
    """The chunks of covered rows, of which the neighbours' elements become −∞.

    The matrix's last vector may extend beyond its memory: the last program reads by elements.
    """
    row = here.row
    own = ()  # type: tuple[gl.tensor, ...]
    at_last = (row_number() + 1) * HOW.slices >= sizes.rows
    for i in gl.static_range(row.CHUNKS):
        value = values[i]
        if i == 0 or i >= row.FULL:
            inside = _elements(here, i)
            if i >= row.FULL:  # noqa: SIM102, which the compiler decides
                if at_last:
                    value = gl.load(source + row.columns + i * row.CHUNK, inside, float("-inf"))
            value = gl.where(inside, value, float("-inf"))
        own += (value,)
    return own


@gluon_jit
def _store(y, stride, i: gl.constexpr, value, here, HOW: gl.constexpr):  # type: ignore[no-untyped-def]
    """Writes chunk ``i`` of the rows at ``y``, as `Row.store`, and none of several twice.

    The elements of vectors that a covered row shares with its neighbours are written one by one.
    """
    STORES: gl.constexpr = HOW.row.stores
    row = here.row
    if HOW.several:
        vector = (row.columns + i * row.CHUNK).to(gl.int32) // row.VECTOR
        place = y + (row.columns + i * row.CHUNK) * stride
        value = value.to(y.dtype.element_ty)
        mask = here.exists[:, None] & (row.columns >= 0)
        if HOW.covers and (i == 0 or i >= row.FULL):
            whole = mask & (vector >= ((here.ahead + row.VECTOR - 1) // row.VECTOR)[:, None])
            whole &= vector < ((here.ahead + here.cols) // row.VECTOR)[:, None]
            gl.store(place, value, whole, eviction_policy=STORES)
            mask &= _elements(here, i) & (whole == 0)
        elif i >= row.FULL:
            mask &= row.inside(i)
        gl.store(place, value, mask, eviction_policy=STORES)
    else:
        row.store(y, stride, i, value, STORES)


@gluon_jit
def _row_at(pointer, stride, here, HOW: gl.constexpr):  # type: ignore[no-untyped-def]
    """Pointers to the first element of rows, and to their first vector, or covering vector."""
    VECTOR: gl.constexpr = HOW.row.vector
    if HOW.covers:
        begin = here.number * gl.cast(stride, gl.int64)
        return pointer + begin, (pointer + begin // VECTOR * VECTOR)[:, None]
    first, vectors = row_at(pointer, here.number, stride, VECTOR, HOW.row.ends)
    if HOW.several:
        vectors = vectors[:, None]
    return first, vectors


@gluon_jit
def _target_of(wanted, first, here, sizes, numbers, single: gl.constexpr, HOW: gl.constexpr):  # type: ignore[no-untyped-def]
    """A row's target, of which the lane that holds its column loads the logit.

    Without targets that is the first column.
    """
    SLICES: gl.constexpr = HOW.slices
    LANES: gl.constexpr = HOW.lanes
    WIDTH: gl.constexpr = LANES * HOW.row.vector
    column = gl.cast(0, gl.int32)
    valid = column == 0
    counts = valid
    if wanted is not None:
        if HOW.several:
            wanted = by_lane(wanted, single)
        valid = (wanted >= 0) & (wanted < here.cols)
        column = gl.where(valid, wanted, 0).to(gl.int32)
        if HOW.kind == "loss":
            counts = wanted != sizes.ignored
    if HOW.row.ends:
        inner, whole = column - here.ahead, here.row.vectors * HOW.row.vector
        outside = (inner < 0) | (inner >= whole)
        its_slice = gl.where(outside, 0, inner % here.row.CHUNK // WIDTH)
        behind = gl.where(inner >= whole, 16 + inner - whole, inner % WIDTH // HOW.row.vector)
        its_lane = gl.where(inner < 0, column, behind)
    else:
        place = column
        if HOW.covers:
            place = column + by_lane(here.ahead, single)
        its_slice, its_lane = place % here.row.CHUNK // WIDTH, place % WIDTH // HOW.row.vector
    own = gl.arange(0, LANES, gl.SliceLayout(0, single))[None, :] == its_lane
    if HOW.several:
        own = own & by_lane(here.exists, single)
    else:
        own = (gl.arange(0, SLICES, gl.SliceLayout(1, single)) == its_slice)[:, None] & own
    column = gl.full([SLICES, LANES], 0, gl.int64, single) + column
    logit = 0.0
    if wanted is not None:
        logit = gl.load(first + column * sizes.col_stride, mask=own, other=0.0)
        logit = _capped(logit, numbers.inverse_cap, HOW.capped)
    return Target(column, own, logit, valid, counts)


@gluon_jit
def _highest(values, row, HOW: gl.constexpr):  # type: ignore[no-untyped-def]
    """Each lane's greatest logits, and zeros for its sum: NaN where the cap will lose a NaN."""
    highest = values[0].to(gl.float32)
    for i in gl.static_range(1, row.CHUNKS):
        value = values[i].to(gl.float32)
        highest = gl.maximum(highest, value, KEEP_NAN if HOW.capped else DROP_NAN)
    zeros = gl.full(highest.shape, 0.0, gl.float32, highest.type.layout)
    if HOW.capped:
        zeros = gl.where(highest == highest, 0.0, float("nan"))
    return highest, zeros


@gluon_jit
def _exponentials(values, total, shift, row, numbers, HOW: gl.constexpr):  # type: ignore[no-untyped-def]
    """Each lane's Σ exp(z − shift) and further sum, and of unpacked rows exponentials, or capped z.

    These take the registers of the logits, for the gradient.
    """
    kept = ()  # type: tuple[gl.tensor, ...]
    rate = numbers.rate
    further = gl.full(total.shape, 0.0, gl.float32, total.type.layout)
    for i in gl.static_range(row.CHUNKS):
        value = _capped(values[i], numbers.inverse_cap, HOW.capped, HOW.row.packed)
        power = (value - shift[:, None]) * rate
        exponential = gl.exp2(power)
        if (HOW.capped or HOW.further == "added") and i >= row.FULL:
            exponential = gl.where(row.inside(i), exponential, 0.0)
            value = gl.where(row.inside(i), value, 0.0)
        total = total + exponential
        if HOW.further == "weighted":
            further = further + exponential * gl.maximum(power, NOTHING)
        if HOW.further == "added":
            further = further + value
        if HOW.gradient and not HOW.row.packed:
            kept += (value if HOW.capped else exponential,)
    return total, further, kept


@gluon_jit
def _store_gradient(  # type: ignore[no-untyped-def]
    y, stride, values, kept, here, wanted, upstream, sizes, numbers, of, HOW: gl.constexpr
):
    """Writes the gradient as if there were no target; returns scale, offset, a target's factor."""
    rate = numbers.rate
    valid, counts = (wanted >= 0) & (wanted < here.cols), wanted != sizes.ignored
    factor = gl.cast(numbers.inverse, gl.float32)
    if HOW.capped:
        factor = factor * numbers.inverse_cap
    if upstream is not None:
        factor = factor * upstream
    factor = gl.where(valid, factor, float("nan"))
    scale = of.quotient * gl.exp2((of.maximum - of.row_maximum) * LOG2E)
    scale = scale * (factor * (1.0 + 2.0 * numbers.z_loss * (of.row_maximum + of.logarithm)))
    if HOW.capped:  # where all exponentials are numbers, zeros need no selection of elements
        scale, factor = gl.where(counts, scale, 0.0), gl.where(counts, factor, 0.0)
    offset = factor * numbers.share
    if HOW.several:
        counts = counts[:, None]
    for i in gl.static_range(here.row.CHUNKS):
        if not HOW.row.packed and not HOW.capped:
            value, exponential = 0.0, kept[i]
        elif HOW.capped:
            value = (
                _capped(values[i], numbers.inverse_cap, True, True) if HOW.row.packed else kept[i]
            )
            exponential = gl.exp2(value * rate - (of.shift * rate)[:, None])
        else:
            value = _capped(values[i], numbers.inverse_cap, False, True)
            exponential = gl.exp2((value - of.shift[:, None]) * rate)
        value = _gradient(exponential, value, scale[:, None], offset, HOW)
        if not HOW.capped:
            value = gl.where(counts, value, 0.0)
        _store(y, stride, i, value, here, HOW)
    return scale, offset, factor


@gluon_jit
def _statistics(  # type: ignore[no-untyped-def]
    values, value_at_end, wanted, slots, here, sizes, numbers, HOW: gl.constexpr
):
    """A row's `Statistics`; see `_exponentials`; of its ends exponentials and z."""
    row, at_end = here.row, here.at_end
    highest, total = _highest(values, row, HOW)
    maximum = of_slices(highest, value_at_end, HOW.row.vector, gl.max)
    maximum = _capped(maximum, numbers.inverse_cap, HOW.capped)  # the cap is monotonic
    if HOW.kind == "lse" and not HOW.logarithm:  # logsumexp of +∞ is +∞; a loss would be NaN
        maximum = gl.minimum(maximum, LARGEST)
    # −inf − −inf would be NaN where only this slice is all −inf
    shift = gl.where(maximum == float("-inf"), 0.0, maximum)
    if wanted is not None:
        # Forces the target's load before the exponentials. The value changes only for ignored rows,
        # whose result nobody reads. Without it the compiler loads the target and its logit last.
        shift = gl.where(wanted == sizes.ignored, gl.minimum(shift, LARGEST), shift)
    total, further, kept = _exponentials(values, total, shift, row, numbers, HOW)
    exponential_at_end, further_at_end = None, None
    if HOW.row.ends:
        if HOW.capped:
            lost = value_at_end != value_at_end
            value_at_end = _capped(value_at_end, numbers.inverse_cap, True)
            value_at_end = gl.where(lost, float("nan"), value_at_end)
        single: gl.constexpr = at_end.type.layout
        power = (value_at_end - by_lane(shift, single)) * numbers.rate
        exponential_at_end = gl.where(at_end, gl.exp2(power), 0.0)
        if HOW.further == "weighted":
            further_at_end = exponential_at_end * gl.maximum(power, NOTHING)
        if HOW.further == "added":
            further_at_end = gl.where(at_end, value_at_end, 0.0)
    # passes NaN on, because Triton's maximum ignores it
    summed = of_slices(total, exponential_at_end, HOW.row.vector, gl.sum)
    if HOW.further != "":
        further = of_slices(further, further_at_end, HOW.row.vector, gl.sum)
    maximum, scaled = maximum * numbers.inverse, shift * numbers.inverse
    if HOW.alone:
        quotient, row_maximum = 1.0 / summed, scaled
    elif HOW.further != "":
        FURTHER: gl.constexpr = HOW.further  # for Triton 3.6
        joined = row_of_slices((maximum, summed, further), slots, FURTHER)
        quotient, row_maximum, further = joined
    else:
        quotient, row_maximum = row_of_slices((maximum, summed), slots, "")
    logarithm = -gl.log(quotient)  # of Σ exp(z − max z)
    of = Statistics(maximum, shift, quotient, row_maximum, logarithm, further)
    if not HOW.row.ends:  # Triton 3.6 returns no None
        exponential_at_end, value_at_end = 0.0, 0.0
    return of, kept, exponential_at_end, value_at_end


@gluon_jit
def _store_results(  # type: ignore[no-untyped-def]
    loss, entropy, lse, there, target, numbers, of, single: gl.constexpr, HOW: gl.constexpr
):
    """Writes the results with one value per row at ``there``, by the lane of its target."""
    zeros = gl.zeros(there.shape, gl.float32, single)
    row_maximum, logarithm = by_lane(of.row_maximum, single), by_lane(of.logarithm, single)
    row_lse = row_maximum + logarithm
    if lse is not None:
        value = row_lse + zeros
        if HOW.kind == "loss":
            value = gl.where(target.counts, value, 0.0)
        gl.store(lse + there, value, mask=target.own)
    if HOW.kind == "loss" and loss is not None:
        value = (row_maximum - target.logit * numbers.inverse) + logarithm
        if HOW.further == "added":
            further = numbers.share * numbers.inverse * by_lane(of.further, single)
            value = value * (1.0 - numbers.smoothing) + (numbers.smoothing * row_lse - further)
        value = value + numbers.z_loss * row_lse * row_lse
        value = gl.where(target.valid, value, float("nan"))
        gl.store(loss + there, gl.where(target.counts, value, 0.0), mask=target.own)
    if entropy is not None:
        value = (target.logit * numbers.inverse - row_maximum) - logarithm
        value = gl.where(target.valid, value, float("nan"))
        gl.store(loss + there, value, mask=target.own)
        value = logarithm - by_lane(of.further, single) * by_lane(of.quotient, single) * LN2
        gl.store(entropy + there, value + zeros, mask=target.own)


@gluon_jit
def _store_logarithm(y, stride, values, value_at_end, here, numbers, of, HOW: gl.constexpr):  # type: ignore[no-untyped-def]
    """Writes log-softmax of the row ``y``: its first element, and where whole vectors begin."""
    offset = of.shift * numbers.inverse - of.row_maximum - of.logarithm
    for i in gl.static_range(here.row.CHUNKS):
        value = distinct(values[i], HOW.row.packed).to(gl.float32) - of.shift[:, None]
        _store(y[1], stride, i, value * numbers.inverse + offset[:, None], here, HOW)
    if HOW.row.ends:
        single: gl.constexpr = here.at_end.type.layout
        value = (value_at_end - by_lane(of.shift, single)) * numbers.inverse
        value = value + by_lane(offset, single)
        gl.store(y[0] + here.end, value.to(y[0].dtype.element_ty), mask=here.at_end)


@gluon_jit
def _rows(  # type: ignore[no-untyped-def]
    x, target, loss, entropy, y, lse, dloss, sizes, numbers, HOW: gl.constexpr
):
    LOADS: gl.constexpr = HOW.row.loads
    ENDS: gl.constexpr = HOW.row.ends
    single: gl.constexpr = in_registers(1, gl.num_warps(), gl.num_ctas(), HOW.lanes)
    slots, wanted, upstream, value_at_end = None, None, None, None
    if not HOW.alone:
        slots = slots_of(2 if HOW.further != "" else 1)
    here = _opened(sizes, single, HOW)
    number = here.number
    first, source = _row_at(x, sizes.row_stride, here, HOW)
    if target is not None:
        wanted = gl.load(target + number)
    if dloss is not None:
        upstream = gl.load(dloss + number if HOW.each else dloss)
    if HOW.mean:
        upstream = upstream * gl.load(lse + sizes.rows)
        lse = None
    values = here.row.load(source, sizes.col_stride, 0, float("-inf"), LOADS)
    if ENDS:
        value_at_end = gl.load(first + here.end, mask=here.at_end, other=float("-inf"))
        value_at_end = value_at_end.to(gl.float32)
    if HOW.several:
        first, number = by_lane(first, single), by_lane(number, single)
    at = _target_of(wanted, first, here, sizes, numbers, single, HOW)
    if HOW.covers:
        values = _own_elements(values, source, here, sizes, HOW)
    numbers = Numbers(*numbers[:5], numbers.inverse * LOG2E)  # type: ignore[call-arg]
    of, kept, exponential, value_at_end = _statistics(
        values, value_at_end, wanted, slots, here, sizes, numbers, HOW
    )
    stride = sizes.y_col_stride
    if y is not None:
        result, place = _row_at(y, sizes.y_row_stride, here, HOW)
    if HOW.logarithm:
        _store_logarithm((result, place), stride, values, value_at_end, here, numbers, of, HOW)
    if HOW.gradient:
        scale, offset, factor = _store_gradient(
            place, stride, values, kept, here, wanted, upstream, sizes, numbers, of, HOW
        )
        scale = by_lane(scale, single)
        if HOW.several:
            result = by_lane(result, single)
            offset, factor = by_lane(offset, single), by_lane(factor, single)
        if ENDS:
            value = _gradient(exponential, value_at_end, scale, offset, HOW)
            value = gl.where(at.counts, value, 0.0).to(y.dtype.element_ty)
            gl.store(result + here.end, value, mask=here.at_end)
        # The lane writes the target's element a second time, after its other stores
        exponential = gl.exp2((at.logit - by_lane(of.shift, single)) * numbers.rate)
        offset = offset + factor * (1.0 - numbers.smoothing)
        value = _gradient(exponential, at.logit, scale, offset, HOW, True)
        value = gl.where(at.counts, value, 0.0).to(y.dtype.element_ty)
        gl.store(result + at.column * stride, value, mask=at.own)
    there = gl.full(at.own.shape, 0, gl.int64, single) + number
    _store_results(loss, entropy, lse, there, at, numbers, of, single, HOW)
