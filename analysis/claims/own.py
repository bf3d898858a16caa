"""What this project says of its own kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from analysis.claims.measure import ANY, CLOCKS, Card, Points, Where
from analysis.claims.verdict import Band, Part, Parts, about, at_least, at_most, below, claim, equals

H200 = "NVIDIA H200"
LOGITS = Where(rows=(4096, None), cols=(32000, None))  # five times L2 and more
COUNTED = Where(cols=(1000, None))
LOSS, BACKWARD, GRAD = "cross_entropy", "cross_entropy_backward", "cross_entropy_grad"
BELOW_25 = "points below 25 µs, the rival less auto in µs"
FROM_25 = "points of 25 µs and more"


def by_each_clock(label: str, band: Band, points: Callable[[str], Points]) -> Iterator[Part]:
    """A part by events and a part in a graph; one number, or every point."""
    for clock in CLOCKS:
        yield points(clock).each(f"{label}, {clock}", band)


@claim("L1")
def l1(card: Card) -> Parts:
    """auto is at least 1.08 times as fast as the best peer, in the mean of all tuned shapes"""
    return by_each_clock("mean", at_least(1.08), lambda clock: card.rival_mean("peers", clock))


@claim("L2")
def l2(card: Card) -> Parts:
    """and at least 1.015 times where 256 MB or more are moved, at tuned widths"""
    band = at_least(1.015)
    return by_each_clock("mean", band, lambda clock: card.rival_mean("peers", clock, large=True))


@claim("L3")
def l3(card: Card) -> Parts:
    """at no point of a tuned width does the best peer take less than 0.98 of the time of auto

    Below 25 µs no peer is done more than 0.5 µs sooner: an H200 flips every kernel between two
    values half a microsecond apart.
    """
    yield from by_each_clock(FROM_25, at_least(0.98), lambda c: card.rival("peers", c, short=False))
    short = {"short": True, "as_gap": True}
    yield from by_each_clock(BELOW_25, at_least(-0.5), lambda c: card.rival("peers", c, **short))


@claim("L4")
def l4(card: Card) -> Parts:
    """auto is at least 1.6 times as fast as torch.softmax, in the mean of all tuned shapes"""
    return by_each_clock("mean", at_least(1.6), lambda clock: card.rival_mean("torch", clock))


@claim("L5")
def l5(card: Card) -> Parts:
    """where 256 MB or more are moved, at tuned widths, auto reaches 97 % of the copy roof up to
    131072 columns and 95 % up to 262144
    """
    for share, cols in ((0.97, (1, 131072)), (0.95, (131073, 262144))):
        label, where = f"share of the roof to {cols[1]} columns", Where(cols=cols)
        yield from _shares(card, label, share, where)


@claim("L6")
def l6(card: Card) -> Parts:
    """auto reads its input once from DRAM, up to 262144 columns

    Where the matrix is at least four times L2, so that nothing is found there by accident.
    """
    where = Where(("limits_counters",), cols=(1, 262144))
    yield card.at_dram("auto", "MN", where, "reads").each("reads at DRAM over MN", about(1, 0.02))


@claim("L7")
def l7(card: Card) -> Parts:
    """on few wide rows auto is at least 1.25 times as fast as QuACK, on one row at least 1.4 times"""
    for rows, factor in ((1, 1.4), (64, 1.25)):
        where = Where(rows=rows, cols=131072, dtype="float32")
        for clock in CLOCKS:
            speed = card.rival("quack", clock, where)
            yield speed.each(f"{rows}×131072 float32, {clock}", at_least(factor))


@claim("L8")
def l8(card: Card) -> Parts:
    """rows of up to 1024 columns take at most 0.5 µs more than a copy, where that is below 25 µs"""
    for clock in CLOCKS:
        gap = card.rival("roof", clock, Where(cols=(1, 1024)), short=True, as_gap=True)
        yield gap.each(f"copy less auto in µs, {clock}", at_least(-0.5))


@claim("L9")
def l9(card: Card) -> Parts:
    """fused_multirow moves 2MN"""
    yield card.counts("fused_multirow", "2MN").each("elements requested over 2MN", equals(1))


@claim("L10")
def l10(card: Card) -> Parts:
    """online_l2 requests 3MN, and DRAM gives the input once

    Its tiles are so large that few rows are in flight; L2 may still hold a row at its second pass.

    Here: L2 does not hold the rows in flight from 65536 columns on, so that DRAM gives up to 1.85 MN.
    """
    yield card.counts("online_l2", "3MN").each("elements requested over 3MN", equals(1))
    where = Where(("limits_counters",), cols=(32768, 262144))
    reads = card.at_dram("online_l2", "MN", where, "reads")
    yield reads.each("reads at DRAM over MN", about(1, 0.05))


@claim("L11")
def l11(card: Card) -> Parts:
    """cooperative reads its input once at widths that no cluster holds"""
    where = Where(("limits_counters",), cols=(524288, None))
    reads = card.at_dram("cooperative", "MN", where, "reads")
    yield reads.each("reads at DRAM over MN, 512K columns and more", about(1, 0.02))


@claim("L12")
def l12(card: Card) -> Parts:
    """cluster reads its input once"""
    where = Where(("limits_counters",), cols=(1, 262144))
    yield card.at_dram("cluster", "MN", where, "reads").each("reads at DRAM over MN", about(1, 0.02))


@claim("L13")
def l13(card: Card) -> Parts:
    """at widths that nobody tuned for auto is at least 1.015 times as fast as the best peer where
    256 MB or more are moved
    """
    which = {"large": True, "held_out": True}
    return by_each_clock("mean", at_least(1.015), lambda c: card.rival_mean("peers", c, **which))


@claim("L14")
def l14(card: Card) -> Parts:
    """and at none of them does the best peer take less than 0.98 of the time of auto"""
    which = {"held_out": True, "short": False}
    return by_each_clock(FROM_25, at_least(0.98), lambda c: card.rival("peers", c, **which))


@claim("L15")
def l15(card: Card) -> Parts:
    """where 256 MB or more are moved, auto reaches 97 % of the copy roof at every one of them"""
    return _shares(card, "share of the roof", 0.97, held_out=True)


@claim("L16")
def l16(card: Card) -> Parts:
    """at 4096 keys attention with its scores in memory moves at least 20 times what it moves online

    By the models 48 times, 6MN + 512M over 512M; as little as 33 times with the scale at q.
    """
    moved = card.at_dram("attention_naive", "attention_online", Where(rows=65536, cols=4096))
    yield moved.each("bytes at DRAM of attention_naive over attention_online", at_least(20))


@claim("L17")
def l17(card: Card) -> Parts:
    """attention_online has 0.60 of cuDNN's speed and 420 Tflop/s from 4096 keys on, in plain Triton

    cuDNN and FlashAttention-3 are faster: they take the exponentials of one tile while they multiply
    the next. Times are those of 420 Tflop/s at D = 128.
    """
    speed = card.ratio("attention_torch", "attention_online", Where(("attention",), cols=(4096, None)))
    yield speed.each("time of cuDNN over its own, from 4096 keys on", at_least(0.60))
    for keys, most in ((4096, 1309), (32768, 10472)):
        time = card.column("attention_online", "time_us", Where(("attention",), cols=keys))
        yield time.each(f"µs at {keys} keys", at_most(most))


@claim("L18")
def l18(card: Card) -> Parts:
    """attention online needs memory for its answer alone, with its scores in memory for 2N/D answers
    more
    """
    where = Where(("attention",), cols=4096)
    memory = card.ratio("attention_naive", "attention_online", where, name="peak_bytes")
    yield memory.each("memory of a call at 4096 keys, D = 128, over online", about(65, 0.02))


@claim("L19")
def l19(card: Card) -> Parts:
    """where 256 MB or more are moved, the gradient of softmax reaches 97 % of the roof of two reads
    and a write, up to 131072 columns
    """
    where = Where(cols=(1, 131072))
    return _shares(card, "share of the roof", 0.97, where, operation="softmax_backward")


@claim("L20")
def l20(card: Card) -> Parts:
    """and 92 % at 262144 columns of float32"""
    where = Where(cols=262144, dtype="float32")
    return _shares(card, "share of the roof", 0.92, where, operation="softmax_backward")


@claim("L21")
def l21(card: Card) -> Parts:
    """at no point of 25 µs and more does the best peer take less than 0.98 of the time of our gradient"""
    which = {"operation": "softmax_backward", "short": False}
    return by_each_clock(FROM_25, at_least(0.98), lambda c: card.rival("peers", c, **which))


@claim("L22")
def l22(card: Card) -> Parts:
    """our gradient is at least 1.05 times as fast as the best peer's, in the mean of all points"""
    which = {"operation": "softmax_backward"}
    return by_each_clock("mean", at_least(1.05), lambda c: card.rival_mean("peers", c, **which))


@claim("L23")
def l23(card: Card) -> Parts:
    """on an H200 the gradient of 4096 rows takes at most 385 and 1600 µs in bfloat16, 770 and 3300 in
    float32, at 65536 and 262144 columns
    """
    for dtype, limits in (("bfloat16", (385, 1600)), ("float32", (770, 3300))):
        for cols, limit in zip((65536, 262144), limits, strict=True):
            where = Where(rows=4096, cols=cols, dtype=dtype)
            yield _time(card, "backward_auto", where, limit)


@claim("L24")
def l24(card: Card) -> Parts:
    """the widest rows reach 90 % of the copy roof at 64×1048576, and one row of them in float16 80 %"""
    for clock in CLOCKS:
        for dtype in ("bfloat16", "float32"):
            where = Where(rows=64, cols=1048576, dtype=dtype)
            share = card.rival("roof", clock, where)
            yield share.each(f"share of the roof at 64 rows, {dtype}, {clock}", at_least(0.9))
        share = card.rival("roof", clock, Where(rows=1, cols=1048576, dtype="float16"))
        yield share.each(f"share of the roof at one row, {clock}", at_least(0.8))


@claim("L25")
def l25(card: Card) -> Parts:
    """8×262144 of float32 is not behind QuACK: it is done no more than 0.5 µs later"""
    for clock in CLOCKS:
        where = Where(rows=8, cols=262144, dtype="float32")
        gap = card.rival("quack", clock, where, as_gap=True)
        yield gap.each(f"QuACK less auto in µs, {clock}", at_least(-0.5))


@claim("L26")
def l26(card: Card) -> Parts:
    """a plain call of softmax(x) costs the host no more than torch.softmax, with autograd at most 1.2
    times it forward and 1.1 forward and backward, and at 4096×256 no more than QuACK's
    """
    for layer, limit in (
        ("plain function", 1.0),
        ("autograd, forward", 1.2),
        ("autograd, forward and backward", 1.1),
    ):
        yield card.host(layer).single(f"{layer}, over PyTorch's", at_most(limit))
    cost = card.host("plain function, 4096×256", "QuACK's softmax, 4096×256")
    yield cost.single("a plain call at 4096×256 over QuACK's", at_most(1.0))


@claim("L27")
def l27(card: Card) -> Parts:
    """where 256 MB or more are read, the loss of cross-entropy reaches 97 % of the read roof, and on
    an H200 that of 8192×128256 bfloat16 takes at most 490 µs
    """
    yield from _shares(card, "share of the roof", 0.97, operation=LOSS)
    yield _time(card, "ce_auto", Where(rows=8192, cols=128256, dtype="bfloat16"), 490)


@claim("L28")
def l28(card: Card) -> Parts:
    """the loss is at least 1.15 times as fast as the best peer's in the mean of all points, and 1.5
    times at up to 2048 columns and at the odd vocabulary 50257
    """
    for label, limit, where in (
        ("all points", 1.15, ANY),
        ("to 2048 columns", 1.5, Where(cols=(1, 2048))),
        ("at 50257 columns", 1.5, Where(cols=50257)),
    ):
        for clock in CLOCKS:
            speed = card.rival_mean("peers", clock, where, operation=LOSS)
            yield speed.single(f"mean, {label}, {clock}", at_least(limit))


@claim("L29")
def l29(card: Card) -> Parts:
    """where 256 MB or more are moved, loss and gradient in one call reach 97 % of the copy roof, and on
    an H200 those of 8192×128256 bfloat16 take at most 1020 µs
    """
    yield from _shares(card, "share of the roof", 0.97, operation=GRAD)
    yield _time(card, "ce_grad_auto", Where(rows=8192, cols=128256, dtype="bfloat16"), 1020)


@claim("L30")
def l30(card: Card) -> Parts:
    """there they are at least 1.4 times as fast as QuACK's forward and backward, 1.05 times as its
    forward that writes the gradient too, and 1.3 times as Liger's

    Two calls are added up at 4096 and 8192 tokens of the vocabularies that QuACK takes: not of the
    odd one, nor of 151936 and 152064, where its loss alone is wrong. Liger's kernel is launched
    without what its function asks the device, and waits for, in between.
    """
    cols = [32000, 50304, 102400, 128256, 256000, 262144]
    where = Where(("llm",), rows=[4096, 8192], cols=cols, dtype="bfloat16")
    both = card.ratio("ce_quack", "ce_grad_auto", where, plus="ce_backward_quack")
    yield both.mean("QuACK's two calls, mean", at_least(1.4))
    for maker, factor in (("quack", 1.05), ("liger", 1.3)):
        for clock in CLOCKS if maker == "quack" else ("events",):
            speed = card.rival_mean(maker, clock, operation=GRAD, large=True)
            yield speed.single(f"{maker}'s one call, mean, {clock}", at_least(factor))


@claim("L31")
def l31(card: Card) -> Parts:
    """where 256 MB or more are moved, the gradient from logits and logsumexp reaches 98 % of the copy
    roof and is at least 1.05 times as fast as QuACK's
    """
    yield from _shares(card, "share of the roof", 0.98, operation=BACKWARD)
    for clock in CLOCKS:
        speed = card.rival_mean("quack", clock, operation=BACKWARD, large=True)
        yield speed.single(f"QuACK's, mean, {clock}", at_least(1.05))


@claim("L32")
def l32(card: Card) -> Parts:
    """on an H200 log-probability and entropy of 8192×151936 bfloat16 take at most 590 µs"""
    where = Where(rows=8192, cols=151936, dtype="bfloat16")
    yield _time(card, "logprob_entropy_auto", where, 590)


@claim("L33")
def l33(card: Card) -> Parts:
    """cross_entropy costs the host at most 1.1 times what F.cross_entropy does"""
    yield card.host(LOSS).single("host time over PyTorch's", at_most(1.1))


@claim("L34")
def l34(card: Card) -> Parts:
    """the loss reads the logits once and writes next to nothing; loss and gradient in one call read
    them once and write them once

    DRAM is judged where the logits are five times L2 and more.
    """
    for kind, band in (("reads", about(1, 0.01)), ("writes", below(0.01))):
        yield card.counts("ce_online", "MN", COUNTED, kind).each(f"{kind} of the loss over MN", band)
    for kernel in ("ce_online", "ce_grad_cluster"):
        reads = card.at_dram(kernel, "MN", LOGITS, "reads")
        yield reads.each(f"reads at DRAM of {kernel} over MN", about(1, 0.01))


@claim("L35")
def l35(card: Card) -> Parts:
    """Liger's forward moves 3MN and more

    Here: it reads each row again to write the gradient over it. L2 serves what is read again, so that
    DRAM sees less than 2MN.
    """
    yield card.at_dram("ce_liger", "3MN", LOGITS).each("bytes at DRAM over 3MN", at_least(0.99))


def _shares(
    card: Card, label: str, share: float, where: Where = ANY, **which: object
) -> Iterator[Part]:
    """Our share of the roof at every large point."""
    band = at_least(share)
    return by_each_clock(
        label, band, lambda clock: card.rival("roof", clock, where, large=True, **which)
    )


def _time(card: Card, kernel: str, where: Where, limit: float) -> Part:
    time = card.column(kernel, "time_us", where, gpu=H200)
    return time.each(f"µs at {where.rows}×{where.cols} {where.dtype}", at_most(limit))
