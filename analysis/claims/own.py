"""This project's claims about its kernels: each is a function whose docstring is the claim."""

from collections.abc import Iterator
from typing import Any

from analysis.claims.card import ANY_SHAPE, CLOCKS, Card, Where
from analysis.claims.verdict import Part, Parts, Points

H200 = "NVIDIA H200"
COUNTER_SHAPES = Where(("limits_counters",), cols=(1, 262144))  # at least four times L2
LOGIT_SHAPES = Where(rows=(4096, None), cols=(32000, None))  # five times L2 and more
COUNT_SHAPES = Where(cols=(1000, None))
LARGE_POINTS = Where(large=True)
LONG_POINTS = Where(short=False)
BACKWARD = "softmax_backward"
LOSS = "cross_entropy"
LOSS_BACKWARD = "cross_entropy_backward"
LOSS_GRAD = "cross_entropy_grad"
SHARE, MEAN, FROM_25 = "share of the roof", "mean", "points of 25 µs and more"


def l1(card: Card) -> Parts:
    """auto is at least 1.08 times as fast as the best peer, in the mean of all tuned shapes"""
    return _both(card, "peers", MEAN, 1.08, mean=True)


def l2(card: Card) -> Parts:
    """auto is at least 1.015 times as fast as the best peer, at tuned widths and 256 MB or more"""
    return _both(card, "peers", MEAN, 1.015, LARGE_POINTS, mean=True)


def l3(card: Card) -> Parts:
    """at every point of a tuned width the best peer takes at least 0.98 of the time of auto

    Below 25 µs, where times on an H200 step by half a microsecond, that much is allowed.
    """
    yield from _both(card, "peers", FROM_25, 0.98, LONG_POINTS)
    label = "points below 25 µs, best peer less auto in µs"
    yield from _both(card, "peers", label, -0.5, Where(short=True), as_gap=True)


def l4(card: Card) -> Parts:
    """auto is at least 1.6 times as fast as torch.softmax, in the mean of all tuned shapes"""
    return _both(card, "torch", MEAN, 1.6, mean=True)


def l5(card: Card) -> Parts:
    """where 256 MB or more are moved, at tuned widths, auto reaches 97 % of the copy roof up to
    131072 columns and 95 % up to 262144
    """
    for cols, share in (((1, 131072), 0.97), ((131073, 262144), 0.95)):
        where = Where(cols=cols, large=True)
        yield from _both(card, "roof", f"{SHARE} to {cols[1]} columns", share, where)


def l6(card: Card) -> Parts:
    """auto reads its input once from DRAM, up to 262144 columns"""
    yield _reads(card, "auto", COUNTER_SHAPES, 0.02)


def l7(card: Card) -> Parts:
    """on few wide rows auto is at least 1.25 times as fast as QuACK, on one row 1.4 times"""
    for rows, factor in ((1, 1.4), (64, 1.25)):
        where = Where(rows=rows, cols=131072, dtype="float32")
        yield from _both(card, "quack", f"{rows} rows", factor, where)


def l8(card: Card) -> Parts:
    """up to 1024 columns auto takes at most 0.5 µs more than a copy, where it takes below 25 µs"""
    where = Where(cols=(1, 1024), short=True)
    return _both(card, "roof", "copy less auto in µs", -0.5, where, as_gap=True)


def l9(card: Card) -> Parts:
    """fused_multirow moves 2MN"""
    yield (card.counted("fused_multirow") / "2MN").each("elements requested over 2MN", equals=1)


def l10(card: Card) -> Parts:
    """online_l2 requests 3MN, and reads its input once from DRAM

    Its tiles are so large that few rows are in flight, which L2 may still hold at the second pass.
    """
    yield (card.counted("online_l2") / "3MN").each("elements requested over 3MN", equals=1)
    yield _reads(card, "online_l2", Where(COUNTER_SHAPES.grids, cols=(32768, 262144)), 0.05)


def l11(card: Card) -> Parts:
    """cooperative reads its input once at widths that no cluster holds"""
    yield _reads(card, "cooperative", Where(COUNTER_SHAPES.grids, cols=(524288, None)), 0.02)


def l12(card: Card) -> Parts:
    """cluster reads its input once"""
    yield _reads(card, "cluster", COUNTER_SHAPES, 0.02)


def l13(card: Card) -> Parts:
    """at widths that nobody tuned for auto is at least 1.015 times as fast as the best peer where
    256 MB or more are moved
    """
    return _both(card, "peers", MEAN, 1.015, Where(large=True, tuned=False), mean=True)


def l14(card: Card) -> Parts:
    """at widths nobody tuned for, the best peer takes at least 0.98 of auto's time from 25 µs on"""
    return _both(card, "peers", FROM_25, 0.98, Where(short=False, tuned=False))


def l15(card: Card) -> Parts:
    """at widths that nobody tuned for, auto reaches 97 % of the copy roof from 256 MB on"""
    return _both(card, "roof", SHARE, 0.97, Where(large=True, tuned=False))


def l16(card: Card) -> Parts:
    """at 4096 keys attention_naive moves at least 20 times the bytes of attention_online

    By the models 49 times, 6MN + 512M over 512M; 33.5 times if the scale is applied to q.
    """
    where = Where(rows=65536, cols=4096)
    moved = card.at_dram("attention_naive", where) / card.at_dram("attention_online")
    yield moved.each("bytes at DRAM of attention_naive over attention_online", at_least=20)


def l17(card: Card) -> Parts:
    """attention_online has 0.60 of cuDNN's speed and 420 Tflop/s from 4096 keys on, in plain Triton

    cuDNN and FlashAttention 4 are faster: they compute the exponentials of one tile while they
    multiply the next. The limits in µs are those of 420 Tflop/s at D = 128.
    """
    where = Where(("attention",), cols=(4096, None))
    speed = card.ratio("attention_torch", "attention_online", where)
    yield speed.each("cuDNN's time over attention_online's, from 4096 keys on", at_least=0.60)
    for keys, limit in ((4096, 1309), (32768, 10472)):
        time = card.times("attention_online", Where(("attention",), cols=keys))
        yield time.each(f"µs at {keys} keys", at_most=limit)


def l18(card: Card) -> Parts:
    """attention_online needs memory only for its answer, attention_naive for 2N/D answers more"""
    where = Where(("attention",), cols=4096)
    memory = card.most("attention_naive", where) / card.most("attention_online", where)
    yield memory.each("memory of a call at 4096 keys, D = 128, over online", about=(65, 0.02))


def l19(card: Card) -> Parts:
    """where 256 MB or more are moved, the gradient of softmax reaches 97 % of the roof of two reads
    and a write, up to 131072 columns
    """
    where = Where(cols=(1, 131072), large=True)
    return _both(card, "roof", SHARE, 0.97, where, operation=BACKWARD)


def l20(card: Card) -> Parts:
    """the gradient of softmax reaches 92 % of its roof at 262144 float32 columns from 256 MB on"""
    where = Where(cols=262144, dtype="float32", large=True)
    return _both(card, "roof", SHARE, 0.92, where, operation=BACKWARD)


def l21(card: Card) -> Parts:
    """at every point from 25 µs on the best peer takes at least 0.98 of the time of our gradient"""
    return _both(card, "peers", FROM_25, 0.98, LONG_POINTS, operation=BACKWARD)


def l22(card: Card) -> Parts:
    """our gradient is at least 1.05 times as fast as the best peer's, in the mean of all points"""
    return _both(card, "peers", MEAN, 1.05, mean=True, operation=BACKWARD)


def l23(card: Card) -> Parts:
    """on an H200 the gradient of 4096 rows takes at most 385 and 1600 µs in bfloat16, 770 and 3300
    in float32, at 65536 and 262144 columns
    """
    for dtype, limits in (("bfloat16", (385, 1600)), ("float32", (770, 3300))):
        for cols, limit in zip((65536, 262144), limits, strict=True):
            yield _time(card, "backward_auto", 4096, cols, limit, dtype)


def l24(card: Card) -> Parts:
    """auto reaches 90 % of the copy roof at 64×1048576, and 80 % at 1×1048576 of float16"""
    for rows, dtype, share in ((64, "bfloat16", 0.9), (64, "float32", 0.9), (1, "float16", 0.8)):
        where = Where(rows=rows, cols=1048576, dtype=dtype)
        yield from _both(card, "roof", f"{SHARE}, {rows} rows {dtype}", share, where)


def l25(card: Card) -> Parts:
    """at 8×262144 of float32 auto takes at most 0.5 µs more than QuACK"""
    where = Where(rows=8, cols=262144, dtype="float32")
    return _both(card, "quack", "QuACK less auto in µs", -0.5, where, as_gap=True)


def l27(card: Card) -> Parts:
    """where 256 MB or more are read, the loss of cross-entropy reaches 97 % of the read roof, and
    on an H200 the loss of 8192×128256 bfloat16 takes at most 490 µs
    """
    yield from _both(card, "roof", SHARE, 0.97, LARGE_POINTS, operation=LOSS)
    yield _time(card, "ce_auto", 8192, 128256, 490)


def l28(card: Card) -> Parts:
    """the loss is at least 1.15 times as fast as the best peer's in the mean of all points, and 1.5
    times at up to 2048 columns and at the odd vocabulary 50257
    """
    yield from _both(card, "peers", MEAN, 1.15, mean=True, operation=LOSS)
    for label, cols in (("to 2048 columns", (1, 2048)), ("at 50257 columns", (50257, 50257))):
        where, label = Where(cols=cols), f"{MEAN} {label}"
        yield from _both(card, "peers", label, 1.5, where, mean=True, operation=LOSS)


def l29(card: Card) -> Parts:
    """where 256 MB or more are moved, loss and gradient in one call reach 97 % of the copy roof,
    and on an H200 those of 8192×128256 bfloat16 take at most 1020 µs
    """
    yield from _both(card, "roof", SHARE, 0.97, LARGE_POINTS, operation=LOSS_GRAD)
    yield _time(card, "ce_grad_auto", 8192, 128256, 1020)


def l30(card: Card) -> Parts:
    """from 256 MB on, loss and gradient in one call are at least 1.4 times as fast as QuACK's two
    calls, 1.05 times as its one call for both, and 1.3 times as Liger's

    QuACK's two calls are added up at 4096 and 8192 tokens of the vocabularies that it takes: not
    the odd one, nor 151936 and 152064, where its loss is wrong. Liger's kernel is launched without
    the queries to the device that its function makes and waits for.
    """
    cols = [32000, 50304, 102400, 128256, 256000, 262144]
    where = Where(("llm",), [4096, 8192], cols, "bfloat16")
    both = card.ratio("ce_quack + ce_backward_quack", "ce_grad_auto", where, mean=True)
    yield both.each("QuACK's two calls, mean", at_least=1.4)
    which: dict[str, Any] = {"where": LARGE_POINTS, "operation": LOSS_GRAD, "mean": True}
    yield from _both(card, "quack", "QuACK's one call, mean", 1.05, **which)
    yield card.rival("liger", "events", **which).each("Liger's, mean, events", at_least=1.3)


def l31(card: Card) -> Parts:
    """where 256 MB or more are moved, the gradient from logits and logsumexp reaches 98 % of the
    copy roof and is at least 1.05 times as fast as QuACK's
    """
    yield from _both(card, "roof", SHARE, 0.98, LARGE_POINTS, operation=LOSS_BACKWARD)
    label = "QuACK's, mean"
    yield from _both(card, "quack", label, 1.05, LARGE_POINTS, operation=LOSS_BACKWARD, mean=True)


def l32(card: Card) -> Parts:
    """on an H200 log-probability and entropy of 8192×151936 bfloat16 take at most 590 µs"""
    yield _time(card, "logprob_entropy_auto", 8192, 151936, 590)


def l34(card: Card) -> Parts:
    """the loss reads the logits once and writes next to nothing; loss and gradient in one call read
    them once and write them once
    """
    reads, writes = (card.counted("ce_online", COUNT_SHAPES, kind) for kind in ("reads", "writes"))
    yield (reads / "MN").each("reads of the loss over MN", about=(1, 0.01))
    yield (writes / "MN").each("writes of the loss over MN", below=0.01)
    yield _reads(card, "ce_online", LOGIT_SHAPES, 0.01)
    yield _reads(card, "ce_grad_cluster", LOGIT_SHAPES, 0.01)


def l35(card: Card) -> Parts:
    """Liger's forward moves 3MN and more"""
    moved = card.at_dram("ce_liger", LOGIT_SHAPES) / "3MN"
    yield moved.each("bytes at DRAM over 3MN", at_least=0.99)


def _both(
    card: Card, over: str, label: str, least: float, where: Where = ANY_SHAPE, **which: Any
) -> Iterator[Part]:
    """Parts: `Card.rival` is at least ``least``, timed by events and in a graph."""
    for clock in CLOCKS:
        found = card.rival(over, clock, where, **which)
        yield found.each(f"{label}, {clock}", at_least=least)


def _reads(card: Card, kernel: str, where: Where, within: float) -> Part:
    """A part: the input is read once from DRAM, up to a share ``within``."""
    reads = card.at_dram(kernel, where, "reads") / "MN"
    return reads.each(f"reads at DRAM of {kernel} over MN", about=(1, within))


def _time(
    card: Card, kernel: str, rows: int, cols: int, limit: float, dtype: str = "bfloat16"
) -> Part:
    """A part: an H200 takes at most ``limit`` µs."""
    time = card.times(kernel, Where(rows=rows, cols=cols, dtype=dtype))
    time = time if card.gpu == H200 else Points(needs=f"needs rows of an {H200}")
    return time.each(f"µs at {rows}×{cols} {dtype}", at_most=limit)
