"""The claims of B, “Online softmax”. Its kernel is `online`, in chunks of 1024."""

from analysis.claims.card import Card, Where, growth
from analysis.claims.verdict import Parts, claim, optional

LINE = Where(("wide",), dtype="float32")
LENGTHS = Where(("attention_counters",))
LONG_KEYS = Where(("attention_counters",), cols=(4096, None))
FAILED = ("out_of_memory", "compile_error", "launch_error")


@claim("text and B-tab1", "b_tab1")
def b1(card: Card) -> Parts:
    """Online moves 3MN: it reads 2MN and writes MN.

    “this reduces the three-pass algorithm to two global memory passes”
    """
    for kind, formula in (("reads", "2MN"), ("writes", "MN")):
        requested = card.counted("online", kind=kind) / formula
        yield requested.each(f"elements of its {kind} over {formula}", equals=1)
    where = Where(rows=4096, cols=(8192, None))
    reads = card.at_dram("online", where, "reads") / "2MN"
    yield optional(reads.each("reads at DRAM over 2MN, beyond L2", about=(1, 0.01)))


@claim("text", "b_tab1")
def b2(card: Card) -> Parts:
    """Online moves as much as the fused kernel.

    “total memory traffic: 2MN reads and MN writes — same as the fused kernel, but N can now be
    arbitrarily large”
    """
    requested = card.counted("online") / card.counted("fused")
    yield requested.each("elements requested over those of fused", equals=1)
    requested = card.counted("online") / "3MN"
    yield requested.each("elements requested over 3MN", equals=1)


@claim("text")
def b3(card: Card) -> Parts:
    """The result is identical to that of three passes.

    “online softmax is mathematically equivalent to the three-pass algorithm”

    They are identical in exact arithmetic, but round differently in floating point. Identical is
    taken as at most eight epsilons of the dtype apart, which the sum of both errors bounds.
    """
    apart = card.most("online", what="epsilons") + card.most("three_pass", what="epsilons")
    yield apart.each("distance of the answers at most, in epsilons", at_most=8)


@claim("text and B-tab1", "d_fig1")
def b4(card: Card) -> Parts:
    """Online takes any N.

    “the outer range loop handles arbitrary N without allocating O(N) SRAM”

    It has to run and its answer has to be right. C accumulates in double.
    """
    yield card.outcome("every shape tried", "online", "ok", gain=1)
    wide = Where(cols=262144, dtype="float32")
    yield card.outcome("float32 rows of 256K columns", "online", "ok", where=wide)
    label, double = "every shape tried with the sum in float64", "online,accumulate=float64"
    yield optional(card.outcome(label, double, "ok"))
    where = Where(("few_wide",), cols=(262144, None), dtype="float32")
    cost = card.ratio(double, "online", where)
    yield optional(cost.each("time with the sum in float64 over that in float32", above=1))


@claim("text and B-tab1", "a_fig2")
def b5(card: Card) -> Parts:
    """Fused fails at float32 N = 65536: rows beyond 12K–57K elements (48–228 KB) do not fit.

    “for float32, a row exceeding ~12K–57K elements won't fit, and the fused approach fails”

    Only points that a card launched are judged. B's own snippet is one program per row.
    """
    for label, kernel, cols in (
        ("64K columns, one program per row", "fused_row", 65536),
        ("64K columns, persistent programs", "fused", 65536),
        ("beyond 57K columns, persistent programs", "fused", (58369, None)),
    ):
        where = Where(("wide",), cols=cols, dtype="float32")
        yield card.outcome(f"float32 rows of {label}", kernel, *FAILED, where=where, gain=-1)


@claim("text", "a_fig2")
def b6(card: Card) -> Parts:
    """One more read is “a worthwhile exchange when rows are too large to cache”.

    “online softmax trades one extra global memory pass for O(B) SRAM — a worthwhile exchange when
    rows are too large to cache”

    Worthwhile is taken as faster than anything else that computes rows wider than a block's shared
    memory: three passes, PyTorch, and a whole row per program wherever that runs.
    """
    for label, kernel, cols in (
        ("three passes, 64K columns and more", "three_pass", (65536, None)),
        ("torch, 64K columns and more", "torch", (65536, None)),
        ("a whole row per program, 64K columns", "fused_row", 65536),
    ):
        speed = card.ratio(kernel, "online", Where(("wide",), cols=cols, dtype="float32"))
        yield speed.each(f"speed over {label}", above=1)


@claim("text on flash attention", "attention_traffic")
def b7(card: Card) -> Parts:
    """Attention with its scores in memory moves an N×N matrix, which a running (m, d) avoids.

    “the naive approach materializes the full N×N attention matrix in global memory… flash attention
    avoids this by tiling over both key and query dimensions, maintaining (m,d) incrementally and
    accumulating the output V in the same pass”

    M counts all queries, D = 128. Only reads are judged: the last writes are still in L2.
    """
    for kernel, formula in (("attention_naive", "3MN + 384M"), ("attention_online", "384M")):
        reads = card.at_dram(kernel, LONG_KEYS, "reads") / formula
        yield reads.each(f"reads at DRAM of {kernel} over {formula}", about=(1, 0.05))


@claim("text on flash attention", "attention_traffic")
def b8(card: Card) -> Parts:
    """Flash attention is one pass, “regardless of sequence length”.

    “this collapses what would be a three-pass algorithm into a single fused kernel, regardless of
    sequence length”

    One pass over DRAM is judged. From L2, each tile of 64 queries reads all keys and values.
    """
    reads = card.at_dram("attention_online", LENGTHS, "reads") / "384M"
    yield reads.each("reads at DRAM over 384M, whatever the length", about=(1, 0.05))


@claim("text on flash attention", "attention_time")
def b9(card: Card) -> Parts:
    """Fused attention takes “arbitrarily long sequences”.

    “enabling fused attention over arbitrarily long sequences”

    The longest sequence tried has 32768 keys.
    """
    where = Where(("attention",))
    yield card.outcome("every length tried", "attention_online", "ok", where=where)
    grown = growth(card.most, "attention_online", 512, 32768, where)
    yield grown.each("memory of a call at 32768 keys over 512, as many queries", about=(1, 0.02))
