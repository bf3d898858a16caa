"""A cluster of programs holds one row on chip and synchronises once: Gluon, sm_90 and newer.

Passes: one; reads MN, writes MN: 2MN.
Idea: each warp of the cluster takes one slice of the row. It loads the slice into registers,
computes its maximum m and its sum d of exp(x − m) within the warp, and sends the pair to all
programs of the cluster (`exchange`). This is the only message. With all pairs the warp scales and
stores its slice. No reduction uses a program's barrier. If the row is in registers, the wait for
the messages is the only wait, and other clusters' loads keep memory busy meanwhile.
On chip: the row. A thread holds up to 64 float32 elements, or 128 packed 16-bit elements (it
computes their exponentials twice: half the registers, so twice the warps in flight). Further
elements wait in shared memory, filled by asynchronous copies.
At L2: loads and stores may ask for `evict_last`, by size (`kernels/launch.py`).
A row is a sequence of chunks, tiles [warps of the cluster, 32 lanes × one vector]. So any N works,
and only the last chunk is masked. Rows that are not a whole number of vectors are unaligned: the
chunks then cover the whole vectors within the row, and one warp takes the remaining elements at
both ends, one per lane.
Source: this project; clusters for softmax after QuACK (Guo, Zadouri, Dao 2025), the warp-local
statistics after Milakov & Gimelshein 2018, arXiv 1805.02867.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil, log2
from typing import Annotated

import torch
from typing_extensions import override

from ..device import (
    CLUSTER_PROGRAMS_PER_SM,
    Device,
    device_of,
    known,
    largest_cluster,
    resident_clusters,
    resident_programs,
)
from ..kernel import Kernel, Shape, power_of_two
from ..language import (
    MOST_PROGRAMS,
    async_copy,
    barrier,
    constant,
    constexpr_function,
    gl,
    gluon_jit,
)
from ..launch import launch, load_hint, store_hint
from ..traffic import M, N, Traffic
from .operation import SOFTMAX
from .tiles import LONGEST, empty_result, vector

LANES = 32
MOST_WARPS = 16  # of a program
SHARED_BYTES = 192 << 10  # a program's part of the row in shared memory, out of the SM's 227 KB

# Penalties of a cut, as fractions of the best cut's time, fitted to all cuts of 50 widths
# on an H200 (docs/lab_book.md): too few bytes on chip at once, warps short of what SMs hold, chunks
# that wait in shared memory, programs of more or fewer warps than five, a last wave that fills the
# card in part, threads with little of the row, for each halving of it, and, seen at 1M columns
# alone, programs that have their SM for themselves: while they wait nothing is loaded; and, at
# 8×262144, clusters of 16, a GPC each, of which two share SMs that one keeps busy, others idle.
ENOUGH_BYTES = 92 << 10  # of rows, for each SM
ENOUGH_BYTES_A_THREAD = 27
BEST_WARPS = 5
TOO_FEW_BYTES, TOO_FEW_WARPS, WAITING, OTHER_WARPS, LAST_WAVE, SPREAD, ALONE, CROWDED = (
    *(0.055, 0.033, 0.027, 0.016, 0.006, 0.1, 0.07, 0.03),
)

LOG2E = constant(1.4426950408889634)
PTX_LOG2E = "0f3FB8AA3B"
MINUS_INFINITY, MINUS_300, ONE = "0fFF800000", "0fC3960000", "0f3F800000"
SEND = "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b64"
SLOT = 8  # bytes of a packed (m, d)


@dataclass(frozen=True)
class Cluster(Kernel):
    """One cluster per row.

    Attributes:
        programs: Programs per cluster, up to 16; None decides by the bytes of a row.
        num_warps: Warps per program; None decides by the same rule.
    """

    operation = SOFTMAX
    backend = "triton"
    moves = Traffic(reads=M * N, writes=M * N)
    on_chip = N

    programs: Annotated[int | None, power_of_two(1, 16)] = None
    num_warps: Annotated[int | None, power_of_two(1, 16)] = None

    @override
    def unsupported(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        if (reason := super().unsupported(shape, dtype, device)) is not None:
            return reason
        if (reason := clusters_missing(device)) is not None:
            return reason
        if 0 in shape:
            return None
        plan = self.plan(shape, dtype, LONGEST // dtype.itemsize, device)
        return not_launched(plan, shape, device, "registers and shared memory", self.programs)

    def plan(self, shape: Shape, dtype: torch.dtype, width: int, device: Device) -> Cut | None:
        """The cut of a row read by vectors of ``width``; None if it does not fit."""
        rows, cols = shape
        return cut((rows, cols), dtype.itemsize, width, device, self.programs, self.num_warps)

    @override
    def __call__(self, x: torch.Tensor, y: torch.Tensor | None = None) -> torch.Tensor:
        """See `Kernel`.

        Raises:
            ValueError: the row does not fit on chip; strided columns fit less.
        """
        y = empty_result(x) if y is None else y
        if x.numel() > 0:
            rows, cols = x.shape
            width = reading(x)
            ends = vector(x) < width
            unit = 1 if ends else width  # of the lengths that the kernel is given
            plan = self.plan((rows, cols), x.dtype, width, device_of(x))
            if plan is None:
                raise ValueError(f"cluster: {cols} elements read by {width} do not fit on chip")
            launch(
                _cluster,
                (rows,),
                (x, y, cols // unit, x.stride(0) // unit, x.stride(1)),
                {
                    "CHUNKS": plan.chunks,
                    "SHARED": plan.shared,
                    "VECTOR": width,
                    "EVEN": cols == plan.chunks * plan.chunk,
                    "ENDS": ends,
                    "PACKED": plan.packed,
                    "LOADS": load_hint(x),
                    "STORES": store_hint(x),
                },
                num_warps=plan.warps,
                num_ctas=plan.programs,
            )
        return y


@dataclass(frozen=True)
class Cut:
    """A row in chunks: tiles of programs × warps slices, each 32 lanes × one vector.

    Attributes:
        programs: Programs of the cluster.
        warps: Warps per program.
        chunk: Elements of a chunk.
        chunks: Chunks of the row; the last may extend beyond its end.
        shared: The number of first chunks kept in shared memory; registers hold the others.
        packed: Whether 16-bit elements stay packed in registers.
    """

    programs: int
    warps: int
    chunk: int
    chunks: int
    shared: int
    packed: bool

    def resident(self, width: int, device: Device) -> int:
        """Programs that the device holds at once, limited by registers and shared memory."""
        held = (self.chunks - self.shared) * width
        registers = int(32 + 0.55 * held if self.packed else 17 + 1.1 * held)  # as Triton compiles
        registers = min(registers, known(device.registers_per_sm) // (self.warps * LANES))
        return resident_programs(registers, self.warps, self.shared_bytes, device)

    @property
    def shared_bytes(self) -> int:
        """Shared memory per program: the chunks that wait there and the cluster's slots."""
        slots = SLOT * (self.programs * self.warps + 1)
        return self.shared * self.warps * LANES * LONGEST + slots


def clusters_missing(device: Device) -> str | None:
    """One sentence that says why a device has no clusters; None if it has them."""
    if gl is None or largest_cluster(device) == 0:
        return "needs thread-block clusters: a CUDA device of sm_90 or newer, and Gluon"
    return None


def not_launched(
    plan: Cut | None, shape: Shape, device: Device, held: str, programs: int | None = None
) -> str | None:
    """One sentence that says why a device cannot launch this cut; None if it can.

    Args:
        plan: The cut of a row; None if it does not fit.
        shape: Rows and columns.
        device: A device that has clusters.
        held: The place where the kernel keeps a row, for the message.
        programs: The requested number of programs per cluster, or None.
    """
    rows, cols = shape
    most = largest_cluster(device)
    if programs is not None and programs > most:
        return f"clusters of {programs} programs are asked for; {device.name} has up to {most}"
    if plan is None:
        return f"keeps a row in the {held} of a cluster; rows of {cols} do not fit on {device.name}"
    if rows * plan.programs > MOST_PROGRAMS:
        return f"a launch takes {MOST_PROGRAMS} programs; here it is {plan.programs} a row"
    return None


def reading(x: torch.Tensor) -> int:
    """Elements of a vector by which the middle of each row of ``x`` is read and written.

    Args:
        x: Shape ``(M, N)``, M and N at least 1.
    """
    rows, cols = x.shape
    row_stride, col_stride = x.stride()
    longest = LONGEST // x.element_size()
    # The result is contiguous: a row of it begins as far from a vector as the row that is read
    alike = rows == 1 or (row_stride - cols) % longest == 0
    if cols >= 2 * longest and col_stride == 1 and x.data_ptr() % LONGEST == 0 and alike:
        return longest
    return vector(x)


@lru_cache(maxsize=4096)
def cut(
    shape: tuple[int, int],
    itemsize: int,
    width: int,
    device: Device,
    programs: int | None = None,
    warps: int | None = None,
    tensors: int = 1,
    waiting: bool = True,
) -> Cut | None:
    """The cheapest cut of the rows of a matrix; None if a row does not fit on chip.

    A cut never has a larger cluster, or more shared memory per program, than the device.

    Args:
        shape: Rows and columns, each at least 1.
        itemsize: Bytes of an element, 2 or 4.
        width: Elements of a vector.
        device: A CUDA device.
        programs: Programs per cluster; None takes the cheapest.
        warps: Warps per program; None decides by the same rule.
        tensors: The number of matrices whose row is held on chip.
        waiting: Whether chunks of one matrix may wait in shared memory.
    """
    waiting = waiting and tensors == 1
    most, room = largest_cluster(device), device.shared_bytes_per_block or SHARED_BYTES
    cuts = [
        fitting
        for some in ([programs] if programs else (1, 2, 4, 8, 16))
        for many in ([warps] if warps else (1, 2, 4, 8, 16))
        if some <= most
        and (fitting := _fitting(shape[1], itemsize, width, some, many, tensors, waiting))
        is not None
        and fitting.shared_bytes <= room
    ]
    if not cuts:
        return None
    size = itemsize * tensors
    return min(cuts, key=lambda one: _cost(one, shape, size, width * tensors, device))


def _fitting(
    cols: int, itemsize: int, width: int, programs: int, warps: int, tensors: int, waiting: bool
) -> Cut | None:
    """The cut of ``cols`` elements for so many programs and warps; None if they do not fit."""
    chunk = programs * warps * LANES * width
    chunks = max(1, -(-(cols // width * width) // chunk))  # of whole vectors
    held = chunks * width * tensors  # elements per thread
    packed = itemsize == 2 and width > 1 and held > 32
    if held <= (128 if packed else 64):
        return Cut(programs, warps, chunk, chunks, 0, packed)
    if width * itemsize < LONGEST or not waiting:
        return None  # only copies of 16 bytes go past L1 into shared memory
    # Of 64 elements in registers some give way, so that they leave room for a third program an SM
    in_registers = 64 // width - (0 if packed else 2 if warps < MOST_WARPS else 8)
    shared = chunks - in_registers
    # Triton asks the driver for more than 48 KB by its own allocation, without the slots
    if 0 <= (48 << 10) - shared * warps * LANES * LONGEST < SLOT * (programs * warps + 1):
        shared += 1
    if shared * warps * LANES * LONGEST > SHARED_BYTES:
        return None
    return Cut(programs, warps, chunk, chunks, shared, packed)


def _cost(one: Cut, shape: tuple[int, int], itemsize: int, width: int, device: Device) -> float:
    """The estimated extra time of a cut, as a fraction of a perfect cut's time."""
    rows, cols = shape
    sms, resident = known(device.sms), one.resident(width, device)
    alone, crowded = resident <= sms, False
    if one.programs > 1:  # an SM holds eight of an empty kernel's programs in clusters
        an_sm = min(resident // sms, CLUSTER_PROGRAMS_PER_SM)
        clusters = resident_clusters(one.programs, device)
        resident = clusters * an_sm // CLUSTER_PROGRAMS_PER_SM
        two_on_an_sm = clusters // CLUSTER_PROGRAMS_PER_SM < rows <= resident
        busy_with_one = cols * itemsize / one.programs > ENOUGH_BYTES / 2
        crowded = one.programs == 16 and two_on_an_sm and busy_with_one
    at_once = min(max(resident, 1), rows)
    on_chip = at_once * cols * itemsize / sms
    busy = at_once * one.programs * one.warps / (sms * known(device.warps_per_sm))
    a_thread = cols * itemsize / (one.programs * one.warps * LANES)
    waves = rows / at_once
    return (
        TOO_FEW_BYTES * max(0.0, 1 - on_chip / ENOUGH_BYTES)
        + TOO_FEW_WARPS * (1 - busy)
        + WAITING * one.shared / one.chunks
        + OTHER_WARPS * abs(log2(one.warps / BEST_WARPS))
        + LAST_WAVE * (ceil(waves) / waves - 1)
        + SPREAD * max(0.0, log2(ENOUGH_BYTES_A_THREAD / a_thread))
        + ALONE * (alone and waves > 1)
        + CROWDED * crowded
    )


# Where the elements of a chunk lie: in which program, and there in which thread or address.


@constexpr_function
def _of_cluster(programs: int) -> list[list[int]]:
    """The layout of programs along the rows of a tile, in tiles of one program."""
    return [[1 << bit, 0] for bit in range(programs.bit_length() - 1)]


@constexpr_function
def in_registers(width: int, warps: int, programs: int, lanes: int = 32) -> object:
    """The register layout with a row in so many lanes of a warp: its reduction stays there."""
    of_warp = [32 // lanes, lanes]
    return gl.BlockedLayout([1, width], of_warp, [warps, 1], [1, 0], _of_cluster(programs))


@constexpr_function
def in_shared_memory(width: int, programs: int) -> object:
    """The shared layout of a chunk for asynchronous copies of whole vectors."""
    return gl.SwizzledSharedLayout(width, 1, 1, [1, 0], _of_cluster(programs))


# How the warps of a row exchange their statistics, in PTX.
#
# Each warp owns one slice of the row and knows its maximum m and its sum d of exp(x − m). A program
# of the row keeps slots in its shared memory, one of 64 bits for each warp of the row. A warp sends
# its packed (m, d) to the slots of all programs, lane i to program i, by asynchronous stores
# through the cluster's distributed shared memory. Each store counts its bytes off an mbarrier of
# the receiver, which opens when the messages of all warps are there. So there is one exchange, no
# barrier among the warps of a program, and none of the cluster after the first message: a program
# whose slots are complete is written to no more and may end.
#
# The slots must exist before a message is sent. `open_slots` initialises the mbarrier and arrives
# at the cluster's barrier before the row is loaded; `exchange` waits there, long after. That
# arrival is relaxed: nothing but the mbarrier has to be seen, for which there is a fence of its
# own. (A releasing one makes every program wait for a fence of the whole GPU before it loads: with
# it 8192×131072 bfloat16 took 13 % longer.)
#
# Source: PTX ISA, `st.async`, `mbarrier`, `barrier.cluster`, `mapa` (sm_90 and up), `redux`.


@constexpr_function
def open_slots(programs: int, warps: int, messages: int = 1) -> str:
    """PTX that allocates the slots; ``$0`` is their address in shared memory.

    Args:
        programs: Programs of the cluster.
        warps: Warps per program.
        messages: Messages per warp.
    """
    slots = programs * warps * messages
    if programs == 1:
        return f"{{ .shared .align 8 .b64 slots[{slots}]; mov.u32 $0, slots; }}"
    arrived = f"[slots+{SLOT * slots}]"
    return f"""{{
        .shared .align 8 .b64 slots[{slots + 1}];
        .reg .pred first;
        .reg .b32 thread;
        mov.u32 thread, %tid.x;
        setp.eq.u32 first, thread, 0;
        @first mbarrier.init.shared::cta.b64 {arrived}, 1;
        @first mbarrier.arrive.expect_tx.shared::cta.b64 _, {arrived}, {SLOT * slots};
        @first fence.mbarrier_init.release.cluster;
        barrier.cluster.arrive.relaxed.aligned;
        mov.u32 $0, slots;
    }}"""


@constexpr_function
def row_of(programs: int) -> str:
    """PTX that sets ``$0`` to the row of this program, which is the number of its cluster.

    It shifts the program's index: for ``%clusterid`` the compiler would emit a float division.
    """
    return f"mov.u32 $0, %ctaid.x; shr.u32 $0, $0, {programs.bit_length() - 1};"


@constexpr_function
def exchange(programs: int, warps: int, late: bool = False) -> str:
    """PTX that turns a warp's (m, d), ``$2`` and ``$3``, into the row's.

    ``$0`` becomes 1 / Σ dᵢ·exp(mᵢ − max m), ``$1`` the maximum, or 0 where all is −inf, and ``$4``
    is the slots' address. Every warp adds in the same order, so that all agree to the last bit.
    With ``late`` no warp waits for the others' slots before its message is computed.
    """
    lines = _gathered(programs, warps, ["{$2, $3}"], "$4", late)
    for i in range(_each(programs, warps)):
        lines += [
            f"sub.f32 m{i}, m{i}, most;",
            f"mul.f32 m{i}, m{i}, {PTX_LOG2E};",
            f"ex2.approx.ftz.f32 m{i}, m{i};",
            f"fma.rn.f32 sum, d{i}, m{i}, sum;",
        ]
    lines += add_lanes("sum", min(32, programs * warps))
    lines += ["div.full.f32 $0, 0f3F800000, sum;", "mov.f32 $1, most;"]
    return "{\n" + "\n".join(lines) + "\n}"


@constexpr_function
def exchange_further(programs: int, warps: int, weighted: bool, late: bool = False) -> str:
    """As `exchange`, PTX that turns a warp's (m, d) and a further sum into the row's.

    The inputs are ``$3`` to ``$5``. ``$0`` and ``$1`` are set as in `exchange`, ``$2`` to the total
    of the further sums. ``$6`` is the slots' address, allocated for two messages per warp.

    Args:
        programs: Programs of the cluster.
        warps: Warps per program.
        weighted: Whether the further sum is Σ exp(x − m)·(x − m)·log₂e with the warp's own maximum,
            and must be rescaled to the row's maximum; otherwise the sums are just added.
        late: As in `exchange`.
    """
    lines = _gathered(programs, warps, ["{$3, $4}", "{$5, $5}"], "$6", late)
    for i in range(_each(programs, warps)):
        lines += [f"sub.f32 m{i}, m{i}, most;", f"mul.f32 m{i}, m{i}, {PTX_LOG2E};"]
        if weighted:  # exp2(−300) is 0, and no 0 · −inf comes of it
            lines += [f"max.f32 m{i}, m{i}, {MINUS_300};", f"fma.rn.f32 e{i}, d{i}, m{i}, e{i};"]
        lines += [f"ex2.approx.ftz.f32 m{i}, m{i};", f"fma.rn.f32 sum, d{i}, m{i}, sum;"]
        by = f"m{i}" if weighted else ONE
        lines.append(f"fma.rn.f32 further, e{i}, {by}, further;")
    for value in ("sum", "further"):
        lines += add_lanes(value, min(32, programs * warps))
    lines += ["div.full.f32 $0, 0f3F800000, sum;", "mov.f32 $1, most;", "mov.f32 $2, further;"]
    return "{\n" + "\n".join(lines) + "\n}"


@constexpr_function
def _each(programs: int, warps: int) -> int:
    """The number of messages of one kind that a lane reads."""
    return max(1, programs * warps // 32)


@constexpr_function
def _gathered(programs: int, warps: int, messages: list[str], slots: str, late: bool) -> list[str]:
    """PTX that exchanges messages: the first is (m, d), a second one holds its number twice.

    Afterwards each lane has its share of them in m₀, d₀, e₀, m₁ …, and in ``most`` the greatest m,
    or 0 if all are −inf.
    """
    number, each = programs * warps, _each(programs, warps)
    guard = "@p " if number < 32 else ""
    held = ", ".join(f"m{i}, d{i}" for i in range(each))
    lines = [
        ".reg .pred p;",
        ".reg .b32 lane, thread, warp, program, slot, arrived, there, signal, ordered, sign;",
        ".reg .b64 message;",
        f".reg .f32 most, sum, other, {held};",
        "mov.u32 lane, %laneid;",
        "mov.u32 thread, %tid.x;",
        "shr.u32 warp, thread, 5;",
        f"mov.b64 message, {messages[0]};",
        *deliver(programs, warps, slots, messages[1:], late),
    ]
    if number < 32:
        lines.append(f"setp.lt.u32 p, lane, {number};")
    lines.append(f"mad.lo.u32 slot, lane, {SLOT}, {slots};")
    for i in range(each):
        lines += [
            f"mov.f32 m{i}, {MINUS_INFINITY};",
            f"mov.f32 d{i}, 0f00000000;",
            f"{guard}ld.shared.v2.f32 {{m{i}, d{i}}}, [slot+{32 * SLOT * i}];",
        ]
    if len(messages) > 1:
        lines.append(f".reg .f32 further, {', '.join(f'e{i}' for i in range(each))};")
        lines.append("mov.f32 further, 0f00000000;")
        for i in range(each):
            lines.append(f"mov.f32 e{i}, 0f00000000;")
            lines.append(f"{guard}ld.shared.f32 e{i}, [slot+{SLOT * (number + 32 * i)}];")
    lines.append(f"mov.f32 most, {MINUS_INFINITY};")
    lines += [f"max.f32 most, most, m{i};" for i in range(each)]
    lines += _greatest("most")
    # a row of −inf alone: any finite shift gives the sum 0, and 0 · 1/0 the NaN that torch gives
    lines += [
        f"setp.eq.f32 p, most, {MINUS_INFINITY};",
        "selp.f32 most, 0f00000000, most, p;",
        "mov.f32 sum, 0f00000000;",
    ]
    return lines


@constexpr_function
def deliver(
    programs: int, warps: int, slots: str, others: tuple[str, ...] = (), late: bool = False
) -> list[str]:
    """PTX that writes the warp's ``message`` to the slots of all programs and waits for all warps.

    Each of the ``others`` goes to further slots, behind the slots of the message before it.
    """
    if programs == 1:
        lines: list[str] = _store(programs, warps, slots, others)
    else:
        lines = _send(programs, warps, slots, others, late)
    return lines


@constexpr_function
def _store(programs: int, warps: int, slots: str, others: tuple[str, ...]) -> list[str]:
    """Within one program: lane 0 writes, and the program's barrier makes the message visible."""
    lines = [
        f"mad.lo.u32 slot, warp, {SLOT}, {slots};",
        "setp.eq.u32 p, lane, 0;",
        "@p st.shared.b64 [slot], message;",
    ]
    for place, other in enumerate(others, 1):
        lines.append(f"mov.b64 message, {other};")
        lines.append(f"@p st.shared.b64 [slot+{SLOT * programs * warps * place}], message;")
    return [*lines, "bar.sync 0;"]


@constexpr_function
def _send(programs: int, warps: int, slots: str, others: tuple[str, ...], late: bool) -> list[str]:
    """PTX that sends a message to every program of the cluster and waits for all messages.

    The cluster wait is an acquire, which empties L1; the compiler may move it up to just behind
    the row's loads. With ``late`` the message is first written to this program's own slot.
    """
    number = programs * warps
    lines = [
        "mov.u32 program, %cluster_ctarank;",
        f"mad.lo.u32 warp, program, {warps}, warp;",
        f"mad.lo.u32 slot, warp, {SLOT}, {slots};",
        f"add.u32 arrived, {slots}, {SLOT * number * (1 + len(others))};",
        f"setp.lt.u32 p, lane, {programs};",
        "@p st.shared.b64 [slot], message;" if late else "",
        "barrier.cluster.wait.acquire.aligned;",
        "@p mapa.shared::cluster.u32 there, slot, lane;",
        "@p mapa.shared::cluster.u32 signal, arrived, lane;",
        f"@p {SEND} [there], message, [signal];",
    ]
    for place, other in enumerate(others, 1):
        lines.append(f"mov.b64 message, {other};")
        lines.append(f"@p {SEND} [there+{SLOT * number * place}], message, [signal];")
    return [
        *lines,
        "WAIT:",
        "mbarrier.try_wait.parity.shared::cta.b64 p, [arrived], 0;",
        "@!p bra WAIT;",
    ]


@constexpr_function
def _greatest(value: str) -> list[str]:
    """The greatest ``value`` of all 32 lanes, in every lane, in one step instead of five.

    The instruction compares integers: the bits of floats order like integers once all bits but the
    sign of negative numbers are flipped. A NaN may win or lose; its slice's sum is NaN either way.
    """
    flip = [
        "shr.s32 sign, ordered, 31;",
        "and.b32 sign, sign, 0x7fffffff;",
        "xor.b32 ordered, ordered, sign;",
    ]
    return [
        f"mov.b32 ordered, {value};",
        *flip,
        "redux.sync.max.s32 ordered, ordered, -1;",
        *flip,
        f"mov.b32 {value}, ordered;",
    ]


@constexpr_function
def add_lanes(value: str, width: int) -> list[str]:
    """Adds ``value`` over the first ``width`` lanes; all 32 lanes receive the sum."""
    lines = []
    for step in (n for n in (16, 8, 4, 2, 1) if n < width):
        lines.append(f"shfl.sync.bfly.b32 other, {value}, {step}, 31, -1;")
        lines.append(f"add.f32 {value}, {value}, other;")
    if width < 32:
        lines.append(f"shfl.sync.idx.b32 {value}, {value}, 0, 31, -1;")
    return lines


# Device code of a program, in Gluon.


@gluon_jit
def distinct(value, PACKED: gl.constexpr):  # type: ignore[no-untyped-def]
    """The same values, but the compiler must unpack packed ones again.

    Kept unpacked between two passes they would take twice the registers.
    """
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
def row_at(pointer, row, stride, VECTOR: gl.constexpr, ENDS: gl.constexpr):  # type: ignore[no-untyped-def]
    """Pointers to the first element of a row, and to the first vector within it.

    Lengths are in vectors, so that the compiler knows that they are multiples; with ENDS they are
    in elements.
    """
    if ENDS:
        begin = row * gl.cast(stride, gl.int64)
        first = pointer + begin
        within = pointer + (begin + VECTOR - 1) // VECTOR * VECTOR
    else:  # a length of 1 is made a constant, which has no dtype to change
        first = pointer + row * (gl.cast(stride, gl.int64) * VECTOR)
        within = first
    return first, within


@gluon_jit
def ends_of(row, stride, cols, VECTOR: gl.constexpr, single: gl.constexpr):  # type: ignore[no-untyped-def]
    """The elements before and after the whole vectors of a row, and the number of vectors.

    Returns:
        Each lane's column, whether the lane has one, the number of vectors, and the number of
        elements ahead of them. In the first slice's warp, lanes 0 to 15 take the elements ahead,
        lanes 16 to 31 the elements behind.
    """
    SLICES: gl.constexpr = gl.num_ctas() * gl.num_warps()
    begin = row * gl.cast(stride, gl.int64)
    ahead = ((begin + VECTOR - 1) // VECTOR * VECTOR - begin).to(gl.int32)
    behind = (cols - ahead) % VECTOR
    lane = gl.arange(0, 32, gl.SliceLayout(0, single))
    end = gl.where(lane < 16, lane, cols - behind - 16 + lane)
    at_end = gl.where(lane < 16, lane < ahead, lane < 16 + behind)
    at_end = (gl.arange(0, SLICES, gl.SliceLayout(1, single)) == 0)[:, None] & at_end[None, :]
    end = end[None, :] + gl.zeros([SLICES, 32], gl.int32, single)
    return end, at_end, (cols - ahead) // VECTOR, ahead


@gluon_jit
def load_chunks(  # type: ignore[no-untyped-def]
    source,
    columns,
    vectors,
    col_stride,
    SHARED: gl.constexpr,
    CHUNKS: gl.constexpr,
    CHUNK: gl.constexpr,
    VECTOR: gl.constexpr,
    EVEN: gl.constexpr,
    LOADS: gl.constexpr,
):
    """The chunks from SHARED on; −inf beyond the last vector."""
    CACHE: gl.constexpr = ".cg" if LOADS == "" else ""  # PTX takes one or the other
    values = ()  # type: tuple[gl.tensor, ...]
    for i in gl.static_range(SHARED, CHUNKS):
        place = source + (columns + i * CHUNK) * col_stride
        if EVEN or i + 1 < CHUNKS:
            value = gl.load(place, cache_modifier=CACHE, eviction_policy=LOADS)
        else:
            inside = (columns + i * CHUNK) // VECTOR < vectors
            value = gl.load(
                place, mask=inside, other=float("-inf"), cache_modifier=CACHE, eviction_policy=LOADS
            )
        values += (value,)
    return values


@gluon_jit
def by_lane(values, VECTOR: gl.constexpr, single: gl.constexpr, reduce: gl.constexpr):  # type: ignore[no-untyped-def]
    """Each lane's elements of a tile reduced to one value, in the layout of one value per lane."""
    lanes = gl.reshape(values, [values.shape[0], 32, VECTOR])
    return gl.convert_layout(reduce(lanes, axis=2), single, assert_trivial=True)


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
    ENDS: gl.constexpr,
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
    single: gl.constexpr = in_registers(1, WARPS, PROGRAMS)
    HELD: gl.constexpr = CHUNKS - SHARED  # chunks in registers
    TOGETHER: gl.constexpr = 2 if SHARED % 2 == 0 else 1  # chunks read from shared memory at once

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
    first, source = row_at(x, row, row_vectors, VECTOR, ENDS)
    result, target = row_at(y, row, vectors, VECTOR, ENDS)
    target += columns
    if ENDS:
        end, at_end, vectors, _ = ends_of(row, row_vectors, vectors, VECTOR, single)

    if SHARED > 0:
        waiting = gl.allocate_shared_memory(
            x.dtype.element_ty, [SHARED, SLICES, WIDTH], in_shared_memory(VECTOR, PROGRAMS)
        )
        for i in gl.static_range(SHARED):
            place = source + (columns + i * CHUNK) * col_stride
            async_copy.async_copy_global_to_shared(waiting.index(i), place, cache_modifier=".cg")
        async_copy.commit_group()
    values = load_chunks(
        *(source, columns, vectors, col_stride, SHARED, CHUNKS, CHUNK, VECTOR, EVEN, LOADS)
    )
    if ENDS:
        value_at_end = gl.load(first + end, mask=at_end, other=float("-inf")).to(gl.float32)

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
    if ENDS:
        highest = gl.maximum(by_lane(highest, VECTOR, single, gl.max), value_at_end)
        maximum = gl.convert_layout(gl.max(highest, axis=1), gl.SliceLayout(1, layout))
    else:
        maximum = gl.max(highest, axis=1)
    # −inf − −inf would be NaN where only this slice is all −inf
    shift = gl.where(maximum == float("-inf"), 0.0, maximum)

    exponentials = ()  # type: tuple[gl.tensor, ...]
    total = gl.full([SLICES, WIDTH], 0.0, gl.float32, layout)
    for i in gl.static_range(HELD):
        exponential = _exponential(distinct(values[i], PACKED), shift)
        total = total + exponential
        if not PACKED:
            exponentials += (exponential,)
    if SHARED > 0:
        barrier()  # between two passes over shared memory, or the compiler keeps it in registers
        for i in range(0, SHARED, TOGETHER):
            for j in gl.static_range(TOGETHER):
                total = total + _exponential(waiting.index(i + j).load(layout), shift)
    # NaN comes through here: Triton's maximum passes over it
    if ENDS:
        shift_at_end = gl.convert_layout(shift, gl.SliceLayout(1, single))
        total = by_lane(total, VECTOR, single, gl.sum) + _exponential(value_at_end, shift_at_end)
        summed = gl.convert_layout(gl.sum(total, axis=1), gl.SliceLayout(1, layout))
    else:
        summed = gl.sum(total, axis=1)

    if SLICES > 1:
        inverse, row_maximum = gl.inline_asm_elementwise(
            exchange(PROGRAMS, WARPS),
            "=f,=f,f,f,r",
            [maximum, summed, slots],
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
            exponential = _exponential(distinct(values[i], PACKED), row_maximum)
            value = (exponential * inverse[:, None]).to(y.dtype.element_ty)
        else:
            value = (exponentials[i] * scale[:, None]).to(y.dtype.element_ty)
        if EVEN or i + 1 < HELD:
            gl.store(target + (i + SHARED) * CHUNK, value, eviction_policy=STORES)
        else:
            inside = (columns + (i + SHARED) * CHUNK) // VECTOR < vectors
            gl.store(target + (i + SHARED) * CHUNK, value, mask=inside, eviction_policy=STORES)
    if ENDS:
        row_maximum = gl.convert_layout(row_maximum, gl.SliceLayout(1, single))
        inverse = gl.convert_layout(inverse, gl.SliceLayout(1, single))
        value = _exponential(value_at_end, row_maximum) * inverse[:, None]
        gl.store(result + end, value.to(y.dtype.element_ty), mask=at_end)
