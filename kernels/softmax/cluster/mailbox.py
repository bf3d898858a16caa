"""How the warps of a row tell each other their statistics: PTX for `cluster`.

Each warp owns one slice of the row and knows its maximum m and its sum d of exp(x − m). A program
of the row keeps a mailbox in its shared memory, one 64-bit slot for each warp of the row. A warp
sends its packed (m, d) to the mailboxes of all programs, lane i to program i, by asynchronous
stores through the cluster's distributed shared memory. Each store counts its bytes off an mbarrier
of the receiver, which opens when the letters of all warps are there. So there is one exchange, no
barrier among the warps of a program, and none of the cluster after the first letter: a program
whose mailbox is complete is written to no more and may end.

The mailbox must exist before a letter is sent. `open_mailbox` initialises the mbarrier and
arrives at the cluster's barrier before the row is loaded; `exchange` waits there, long after. That
arrival is relaxed: nothing but the mbarrier has to be seen, for which there is a fence of its own.
(A releasing one makes every program wait for a fence of the whole GPU before it loads: with it
8192×131072 bfloat16 took 13 % longer.)

Source: PTX ISA, `st.async`, `mbarrier`, `barrier.cluster`, `mapa` (sm_90 and up), `redux`.
"""

from __future__ import annotations

from kernels.gluon import constexpr_function

LOG2E = "0f3FB8AA3B"
MINUS_INFINITY = "0fFF800000"
SEND = "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b64"
SLOT = 8  # bytes of a packed (m, d)


@constexpr_function
def open_mailbox(programs: int, warps: int) -> str:
    """PTX that makes the mailbox; ``$0`` is its address in shared memory.

    Args:
        programs: Programs of the cluster.
        warps: Warps of a program.
    """
    slots = programs * warps
    if programs == 1:
        return f"{{ .shared .align 8 .b64 box[{slots}]; mov.u32 $0, box; }}"
    arrived = f"[box+{SLOT * slots}]"
    return f"""{{
        .shared .align 8 .b64 box[{slots + 1}];
        .reg .pred first;
        .reg .b32 thread;
        mov.u32 thread, %tid.x;
        setp.eq.u32 first, thread, 0;
        @first mbarrier.init.shared::cta.b64 {arrived}, 1;
        @first mbarrier.arrive.expect_tx.shared::cta.b64 _, {arrived}, {SLOT * slots};
        @first fence.mbarrier_init.release.cluster;
        barrier.cluster.arrive.relaxed.aligned;
        mov.u32 $0, box;
    }}"""


@constexpr_function
def row_of(programs: int) -> str:
    """PTX that gives ``$0``, the row of this program: the number of its cluster.

    It is shifted out of the program's own: for ``%clusterid`` the compiler divides, by floats.
    """
    return f"mov.u32 $0, %ctaid.x; shr.u32 $0, $0, {programs.bit_length() - 1};"


@constexpr_function
def exchange(programs: int, warps: int) -> str:
    """PTX that turns a warp's (m, d), ``$2`` and ``$3``, into the row's.

    ``$0`` becomes 1 / Σ dᵢ·exp(mᵢ − max m), ``$1`` the maximum, or 0 where all is −inf, and ``$4``
    is the mailbox's address. Every warp adds in the same order, so that all agree to the last bit.
    """
    slots = programs * warps
    each = max(1, slots // 32)  # letters a lane reads
    width = min(32, slots)
    guard = "@p " if slots < 32 else ""
    lines = [
        ".reg .pred p;",
        ".reg .b32 lane, thread, warp, program, slot, arrived, there, signal, ordered, sign;",
        ".reg .b64 letter;",
        f".reg .f32 most, sum, other, {', '.join(f'm{i}, d{i}' for i in range(each))};",
        "mov.u32 lane, %laneid;",
        "mov.u32 thread, %tid.x;",
        "shr.u32 warp, thread, 5;",
        "mov.b64 letter, {$2, $3};",
        *(_post(warps) if programs == 1 else _send(programs, warps)),
    ]
    if slots < 32:
        lines.append(f"setp.lt.u32 p, lane, {slots};")
    lines.append(f"mad.lo.u32 slot, lane, {SLOT}, $4;")
    for i in range(each):
        lines += [
            f"mov.f32 m{i}, {MINUS_INFINITY};",
            f"mov.f32 d{i}, 0f00000000;",
            f"{guard}ld.shared.v2.f32 {{m{i}, d{i}}}, [slot+{32 * SLOT * i}];",
        ]
    lines.append(f"mov.f32 most, {MINUS_INFINITY};")
    lines += [f"max.f32 most, most, m{i};" for i in range(each)]
    lines += _greatest("most")
    # a row of −inf alone: any finite shift gives the sum 0, and 0 · 1/0 the NaN that torch gives
    lines += [
        f"setp.eq.f32 p, most, {MINUS_INFINITY};",
        "selp.f32 most, 0f00000000, most, p;",
        "mov.f32 sum, 0f00000000;",
    ]
    for i in range(each):
        lines += [
            f"sub.f32 m{i}, m{i}, most;",
            f"mul.f32 m{i}, m{i}, {LOG2E};",
            f"ex2.approx.ftz.f32 m{i}, m{i};",
            f"fma.rn.f32 sum, d{i}, m{i}, sum;",
        ]
    lines += [
        *_sum("sum", width),
        "div.full.f32 $0, 0f3F800000, sum;",
        "mov.f32 $1, most;",
    ]
    return "{\n" + "\n".join(lines) + "\n}"


@constexpr_function
def _post(warps: int) -> list[str]:
    """Within one program: lane 0 writes, and the program's barrier is the postman."""
    return [
        f"mad.lo.u32 slot, warp, {SLOT}, $4;",
        "setp.eq.u32 p, lane, 0;",
        "@p st.shared.b64 [slot], letter;",
        "bar.sync 0;",
    ]


@constexpr_function
def _send(programs: int, warps: int) -> list[str]:
    """To every program of the cluster, this one too, then wait for the letters of all."""
    return [
        "mov.u32 program, %cluster_ctarank;",
        f"mad.lo.u32 warp, program, {warps}, warp;",
        f"mad.lo.u32 slot, warp, {SLOT}, $4;",
        f"add.u32 arrived, $4, {SLOT * programs * warps};",
        f"setp.lt.u32 p, lane, {programs};",
        "barrier.cluster.wait.acquire.aligned;",
        "@p mapa.shared::cluster.u32 there, slot, lane;",
        "@p mapa.shared::cluster.u32 signal, arrived, lane;",
        f"@p {SEND} [there], letter, [signal];",
        "WAIT:",
        "mbarrier.try_wait.parity.shared::cta.b64 p, [arrived], 0;",
        "@!p bra WAIT;",
    ]


@constexpr_function
def _greatest(value: str) -> list[str]:
    """The greatest ``value`` of all 32 lanes, for each of them, in one step instead of five.

    The instruction takes integers: a float's bits order like one once all but the sign of a
    negative are flipped. A NaN may win or lose; its slice's sum is NaN either way.
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
def _sum(value: str, width: int) -> list[str]:
    """Adds ``value`` over the first ``width`` lanes and hands the sum to all 32."""
    lines = []
    for step in (n for n in (16, 8, 4, 2, 1) if n < width):
        lines.append(f"shfl.sync.bfly.b32 other, {value}, {step}, 31, -1;")
        lines.append(f"add.f32 {value}, {value}, other;")
    if width < 32:
        lines.append(f"shfl.sync.idx.b32 {value}, {value}, 0, 31, -1;")
    return lines
