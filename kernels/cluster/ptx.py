"""How the warps of a row exchange their statistics, in PTX.

Each warp owns one slice of the row and knows its statistics, such as its maximum m and its sum d of
exp(x − m). A program of the row keeps slots in its shared memory, one of 64 bits for each warp of
the row. A warp sends its packed (m, d) to the slots of all programs, lane i to program i, by
asynchronous stores through the cluster's distributed shared memory. Each store counts its bytes off
an mbarrier of the receiver, which opens when the messages of all warps are there. So there is one
exchange, no barrier among the warps of a program, and none of the cluster after the first message:
a program whose slots are complete is written to no more and may end.

The slots must exist before a message is sent. `open_slots` initialises the mbarrier and arrives at
the cluster's barrier before the row is loaded; an exchange waits there, long after. That arrival is
relaxed: nothing but the mbarrier has to be seen, for which there is a fence of its own. (A
releasing one makes every program wait for a fence of the whole GPU before it loads: with it
8192×131072 bfloat16 took 13 % longer.)

Every warp combines the messages in the same order, so that all agree to the last bit.

Source: PTX ISA, `st.async`, `mbarrier`, `barrier.cluster`, `mapa` (sm_90 and up), `redux`.
"""

from __future__ import annotations

from ..language import constexpr_function

LANES = 32
SLOT = 8  # bytes of a message, such as a packed (m, d)
LOG2E = "0f3FB8AA3B"
MINUS_INFINITY, MINUS_300, ZERO, ONE = "0fFF800000", "0fC3960000", "0f00000000", "0f3F800000"
SEND = "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b64"


@constexpr_function
def open_slots(programs: int, warps: int, messages: int = 1) -> str:
    """PTX that allocates slots for so many messages of each warp; ``$0`` is their address."""
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
def normalizer(programs: int, warps: int, count: int, further: str, late: bool) -> str:
    """PTX that turns a warp's (m, d), and a further sum, into the row's; of one row or of two.

    ``$0`` becomes 1 / Σ dᵢ·exp(mᵢ − max m), ``$1`` the maximum, or 0 where all is −inf, and ``$2``
    the row's further sum where there is one. ``$3`` and ``$4`` are a second row's first two. Then
    come the inputs in the same order, and last the address of the slots, which are for a message of
    each pair (m, d) and of the further sum.

    Args:
        count: Numbers of a warp: 2, 3 with a further sum, 5 with a second row too.
        further: ``"added"`` for a sum that is just added, ``"scaled"`` for one that is rescaled
            like d, ``"weighted"`` for Σ exp(x − m)·(x − m)·log₂e, likewise.
        late: Whether no warp waits for the others' slots before its own message is computed.
    """
    number, each = programs * warps, range(_each(programs, warps))
    m, d, *others, slots = (f"${count + i}" for i in range(count + 1))
    messages = [f"{{{m}, {d}}}", *(f"{{{sum_}, {sum_}}}" for sum_ in others[:1])]
    if count > 3:
        messages.append(f"{{{others[1]}, {others[2]}}}")
    lines = _delivered(programs, warps, messages, slots, late)
    for first in (0, 3)[: 1 + count // 5]:
        if first > 0:
            lines += [f"setp.lt.u32 p, lane, {number};", f"mov.f32 sum, {ZERO};"]
            for i in each:
                lines += [f"mov.f32 a{i}, {MINUS_INFINITY};", f"mov.f32 b{i}, {ZERO};"]
                place = f"[slot+{SLOT * (2 * number + LANES * i)}]"
                lines.append(f"@p ld.shared.v2.f32 {{a{i}, b{i}}}, {place};")
            further = ""
        lines += _maximum(programs, warps)
        for i in each:
            lines += [f"sub.f32 a{i}, a{i}, most;", f"mul.f32 a{i}, a{i}, {LOG2E};"]
            if further == "weighted":  # exp2(−300) is 0, and no 0 · −inf comes of it
                lines.append(f"max.f32 a{i}, a{i}, {MINUS_300};")
                lines.append(f"fma.rn.f32 c{i}, b{i}, a{i}, c{i};")
            lines += [f"ex2.approx.ftz.f32 a{i}, a{i};", f"fma.rn.f32 sum, b{i}, a{i}, sum;"]
            if further:
                by = ONE if further == "added" else f"a{i}"
                lines.append(f"fma.rn.f32 more, c{i}, {by}, more;")
        lines += _add_lanes("sum", number)
        if further:
            lines += [*_add_lanes("more", number), "mov.f32 $2, more;"]
        lines += [f"div.full.f32 ${first}, {ONE}, sum;", f"mov.f32 ${first + 1}, most;"]
    return "{\n" + "\n".join(lines) + "\n}"


@constexpr_function
def totals(programs: int, warps: int, count: int) -> str:
    """PTX that turns one or two sums of a warp into the row's, in the order of `normalizer`."""
    message = f"{{${count}, ${2 * count - 1}}}"
    lines = _delivered(programs, warps, [message], f"${2 * count}", False, ZERO)
    for answer in range(count):
        total, part = (("sum", "a"), ("more", "b"))[answer]
        lines += [f"add.f32 {total}, {total}, {part}{i};" for i in range(_each(programs, warps))]
        lines += [*_add_lanes(total, programs * warps), f"mov.f32 ${answer}, {total};"]
    return "{\n" + "\n".join(lines) + "\n}"


@constexpr_function
def _each(programs: int, warps: int) -> int:
    """The number of messages of one kind that a lane reads."""
    return max(1, programs * warps // LANES)


@constexpr_function
def _delivered(
    programs: int,
    warps: int,
    messages: list[str],
    slots: str,
    late: bool,
    nothing: str = MINUS_INFINITY,
) -> list[str]:
    """PTX that sends each warp's messages to all programs of the row, and waits for all.

    Afterwards each lane has its share of them: of the first message two numbers, a₀, b₀, a₁ …, with
    a = ``nothing`` and b = 0 where there is none, and c₀, c₁ … of a second one. ``sum`` and
    ``more`` are declared and 0.
    """
    number, each = programs * warps, _each(programs, warps)
    guard = "@p " if number < LANES else ""
    held = ", ".join(f"a{i}, b{i}, c{i}" for i in range(each))
    lines = [
        ".reg .pred p;",
        ".reg .b32 lane, thread, warp, program, slot, arrived, there, signal, ordered, sign;",
        ".reg .b64 message;",
        f".reg .f32 most, sum, more, other, {held};",
        "mov.u32 lane, %laneid;",
        "mov.u32 thread, %tid.x;",
        "shr.u32 warp, thread, 5;",
        f"mov.b64 message, {messages[0]};",
        *(_store if programs == 1 else _send)(programs, warps, slots, messages[1:], late),
    ]
    if number < LANES:
        lines.append(f"setp.lt.u32 p, lane, {number};")
    lines += [f"mad.lo.u32 slot, lane, {SLOT}, {slots};"]
    for i in range(each):
        place = f"[slot+{LANES * SLOT * i}]"
        lines += [f"mov.f32 a{i}, {nothing};", f"mov.f32 b{i}, {ZERO};"]
        lines.append(f"{guard}ld.shared.v2.f32 {{a{i}, b{i}}}, {place};")
    for i in range(each if len(messages) > 1 else 0):
        lines.append(f"mov.f32 c{i}, {ZERO};")
        lines.append(f"{guard}ld.shared.f32 c{i}, [slot+{SLOT * (number + LANES * i)}];")
    return [*lines, f"mov.f32 sum, {ZERO};", f"mov.f32 more, {ZERO};"]


@constexpr_function
def _store(programs: int, warps: int, slots: str, others: list[str], late: bool) -> list[str]:
    """Within one program: lane 0 writes, and the program's barrier makes the messages visible."""
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
def _send(programs: int, warps: int, slots: str, others: list[str], late: bool) -> list[str]:
    """To every program of the cluster; further messages go behind the slots of the first.

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
def _maximum(programs: int, warps: int) -> list[str]:
    """PTX that sets ``most``, in every lane, to the greatest of all a; 0 if all are −inf.

    One instruction takes the maximum of all lanes, but of integers: the bits of floats order like
    integers once all bits but the sign of negative numbers are flipped. A NaN may win or lose; its
    slice's sum is NaN either way. For a row of −inf alone any finite shift gives the sum 0, and
    0 · 1/0 the NaN that torch gives.
    """
    flip = [
        "shr.s32 sign, ordered, 31;",
        "and.b32 sign, sign, 0x7fffffff;",
        "xor.b32 ordered, ordered, sign;",
    ]
    return [
        f"mov.f32 most, {MINUS_INFINITY};",
        *(f"max.f32 most, most, a{i};" for i in range(_each(programs, warps))),
        "mov.b32 ordered, most;",
        *flip,
        "redux.sync.max.s32 ordered, ordered, -1;",
        *flip,
        "mov.b32 most, ordered;",
        f"setp.eq.f32 p, most, {MINUS_INFINITY};",
        f"selp.f32 most, {ZERO}, most, p;",
    ]


@constexpr_function
def _add_lanes(value: str, number: int) -> list[str]:
    """Adds ``value`` over the first ``number`` lanes, or all; every lane receives the sum."""
    lines = []
    for step in (n for n in (16, 8, 4, 2, 1) if n < number):
        lines.append(f"shfl.sync.bfly.b32 other, {value}, {step}, 31, -1;")
        lines.append(f"add.f32 {value}, {value}, other;")
    if number < LANES:
        lines.append(f"shfl.sync.idx.b32 {value}, {value}, 0, 31, -1;")
    return lines
