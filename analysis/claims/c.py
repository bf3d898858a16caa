"""The claims of C, “Triton Kernels - Fused Softmax”.

Its kernel is `hybrid_whole`, whose block always held the row, with Triton's default of four warps.
C names no card, so that none of its absolute numbers can be judged.
"""

from analysis.claims.card import Card, Where, growth, implied
from analysis.claims.verdict import Parts, claim, fact, optional
from analysis.published import worked_example

VOCAB = Where(("vocab",))
MEASURED = Where(("vocab",), cols=(1024, 32000))  # the widths from 1024 on that C shows
EXAMPLE = Where(rows=8192, cols=32000, dtype="float16")


@claim("text on C-fig1", "c_fig1")
def c1(card: Card) -> Parts:
    """Triton is competitive at small batch.

    “our Triton implementation achieving competitive performance with PyTorch's optimized kernels
    for small batches”

    Competitive is taken as no more than a tenth slower, at every batch.
    """
    speed = card.ratio("torch", "hybrid_whole", Where(("small_batch",)))
    yield speed.each("speed over torch, 1 to 64 rows", at_least=0.9)


@claim("text on C-fig3", "c_fig3")
def c2(card: Card) -> Parts:
    """Beyond N ≈ 1024 Triton flattens, while PyTorch “continues to scale” to similar levels.

    “for larger vocabulary sizes (N > ~1024), Triton performance plateaus around 870-900 GB/s while
    PyTorch continues to scale, reaching similar performance levels at the highest vocabulary sizes”

    Flat: the highest is at most 1.25 times the lowest. Similar: within a tenth.
    """
    yield card.rates("hybrid_whole", MEASURED).spread.each(
        "Triton's highest over lowest, 1024 to 32000 columns", at_most=1.25
    )
    for start, end in ((1024, 8192), (8192, 32000)):
        grown = growth(card.rates, "torch", start, end, VOCAB)
        yield grown.each(f"PyTorch's climb from {start} to {end} columns", above=1)
    rates = card.ratio("hybrid_whole", "torch", Where(("vocab",), cols=32000))
    yield rates.each("PyTorch's bandwidth over Triton's at 32000 columns", gain=-1, about=(1, 0.1))


@claim("text on C-fig3", "c_fig3")
def c3(card: Card) -> Parts:
    """Triton wins at N = 512–8192 and falls behind at 32K and more.

    “Triton outperforms PyTorch at medium sizes (512-8192) but shows significant performance
    degradation at very large vocabularies (32K+), while PyTorch maintains consistent throughput
    across all vocabulary sizes”
    """
    medium = card.ratio("torch", "hybrid_whole", Where(("vocab",), cols=(512, 8192)))
    yield medium.each("speed over torch, 512 to 8192 columns", above=1)
    large = card.ratio("torch", "hybrid_whole", Where(("vocab",), cols=(32000, None)))
    yield large.each("speed over torch, 32000 columns and more", below=1)


@claim("text, its worked point", "c_fig2")
def c4(card: Card) -> Parts:
    """M = 8192, N = 32000, float16: PyTorch 1.1638 ms, 901.02 GB/s; Triton 1.2150 ms, 863.02 GB/s.

    “Average time per iteration: 1.1638 ms; Bandwidth: 901.02 GB/s … 1.2150 ms; Bandwidth: 863.02
    GB/s”

    C names no card: only the arithmetic of the times and their ratio are judged.
    """
    speed = card.ratio("torch", "hybrid_whole", EXAMPLE)
    yield speed.each("Triton's speed over PyTorch, printed 0.958", about=(0.958, 0.1))
    for kernel, us, gbps in (("torch", 1163.8, 901.02), ("hybrid", 1215.0, 863.02)):
        rate = implied("2MN", 8192, [32000], "float16", [us])
        yield rate.each(f"GB/s that {kernel}'s printed time implies", about=(gbps, 0.0001))


@claim("C-ex", "c_ex")
def c5(card: Card) -> Parts:
    """The worked example 3×8 in blocks of 4 is right.

    “Let's walk through a concrete example showing how softmax works in a Triton kernel with
    block-level processing”

    A printed number is right within one unit of its last digit.
    """
    for line in (one for one in worked_example() if one.published):
        label = f"row {line.row}, {line.quantity}"
        yield fact(label, line.agrees == "yes", line.published, line.recomputed)


@claim("text", "c_fig3")
def c6(card: Card) -> Parts:
    """Capping the block made it slower from N ≥ 1024 on.

    “when I capped the BLOCK_SIZE, the kernel performance wasn't great as soon we hit vocab
    dimension of >=1024”

    The block is capped at 512, so that 1024 is the first width in three passes; both have four
    warps. Judged at the widths that C measured, up to 32000. At 65536 four warps cannot hold a row,
    and the capped kernel is faster.
    """
    cost = card.ratio("hybrid_capped", "hybrid_whole", MEASURED)
    yield cost.each("time capped over time uncapped, 1024 to 32000 columns", above=1)


@claim("text", "c_fig3")
def c7(card: Card) -> Parts:
    """Triton “autotuned” the block to 128 threads where torch used 1024.

    “the BLOCK_SIZE was automatically changed to 128 in case of the triton kernel versus 1024 for
    Torch. It seems that triton is autotuning the hard CUDA block size”

    No row records the threads of torch's kernels.
    """
    label = "threads, which tuning would have changed"
    yield fact(label, 128 != 4 * 32, "other than the default", "128, the default of 4 warps of 32")
    where = Where(("vocab",), cols=(1, 32000))
    tuned = card.ratio("fused_row", "hybrid_whole", where)
    label = "time with 4 to 16 warps by width over time with 4 (tuning finds the least)"
    yield optional(tuned.each(label, gain=0, at_least=0.95))  # both are Triton's


@claim("code, the empty attention_softmax_fused", "attention_traffic")
def c8(card: Card) -> Parts:
    """A softmax fused into attention “reduces memory traffic in attention computation”.

    “Reduces memory traffic in attention computation”
    """
    where = Where(("attention_counters",))
    moved = card.at_dram("attention_naive", where) / card.at_dram("attention_online")
    yield moved.each("bytes at DRAM with the scores in memory over online", above=1)


@claim("its code, what could come next", "cross_entropy")
def c9(card: Card) -> Parts:
    """Softmax and cross-entropy “in a single kernel” save the bandwidth of storing the softmax.

    “Fused Softmax + Cross-Entropy Loss … softmax and cross-entropy in a single kernel … Saves
    memory bandwidth by avoiding intermediate softmax storage”

    C gives the function without a body. Naive is softmax, logarithm and gather as separate kernels;
    fused is `ce_online`, which writes no softmax.
    """
    where = Where(cols=(1000, None))
    requested = card.counted("ce_naive", where) / card.counted("ce_online")
    yield requested.each("elements that naive requests, nominally, over fused", above=1)
    writes = card.counted("ce_online", where, "writes") / "MN"
    yield writes.each("elements that fused writes over a softmax's MN", below=0.01)
    large = Where(("llm",), rows=(4096, None), dtype="bfloat16")
    speed = card.ratio("ce_naive", "ce_online", large)
    yield speed.each("speed over naive, 4096 tokens and more", above=1)
