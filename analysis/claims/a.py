"""The claims of A, “Fused softmax”. Its Triton kernel is `fused`: persistent programs."""

from analysis.claims.card import Card, Where, growth, implied
from analysis.claims.verdict import Parts, claim, optional
from analysis.published import series
from experiments.data.cards import datasheets

TUTORIAL = Where(("tutorial",))
WIDE = Where(("tutorial", "wide"), dtype="float32")
LINE = Where(("wide",), dtype="float32")
BEYOND_L2 = Where(rows=4096, cols=(4096, None))
ON_CHIP = 57344  # float32 columns: 224 KB, about what a block's shared memory holds


@claim("A-tab1", "a_tab1")
def a1(card: Card) -> Parts:
    """Naive moves 8MN + 4M.

    “total memory traffic: 5MN + 2M reads and 3MN + 2M writes”

    PyTorch's max(dim=1) also writes M int64 indices, which 8MN + 4M leaves out; 1 % allows for
    them. At DRAM only reads are judged, because the last writes are still in L2 at the end.
    """
    requested = card.counted("naive") / "8MN + 4M"
    yield requested.each("elements requested, nominally, over 8MN + 4M", about=(1, 0.01))
    reads = card.at_dram("naive", BEYOND_L2, "reads") / "5MN + 2M"
    yield optional(reads.each("reads at DRAM over 5MN + 2M", about=(1, 0.01)))


@claim("A-tab1", "a_tab1")
def a2(card: Card) -> Parts:
    """Fused moves 2MN.

    “a fused kernel can reduce this to just MN reads and MN writes”

    Judged on rows that fit on chip; A8 is about wider rows.
    """
    requested = card.counted("fused") / "2MN"
    yield requested.each("elements requested over 2MN", equals=1)
    reads = card.at_dram("fused", Where(rows=4096, cols=(1, ON_CHIP)), "reads") / "MN"
    yield optional(reads.each("reads at DRAM over MN", about=(1, 0.01)))


@claim("text", "a_fig1")
def a3(card: Card) -> Parts:
    """The traffic ratio approaches 4.

    “for large matrices, the factor approaches 4x”

    It approaches 4 from above as N grows.
    """
    requested = card.counted("naive", Where(cols=(8192, None))) / card.counted("fused")
    yield requested.each("requested by naive, nominally, over fused, 8192 columns", about=(4, 0.01))
    where = Where(rows=4096, cols=(16384, ON_CHIP))
    moved = card.at_dram("naive", where) / card.at_dram("fused", where)
    yield optional(moved.each("bytes at DRAM, naive over fused", about=(4, 0.05)))


@claim("text", "a_fig2")
def a4(card: Card) -> Parts:
    """Triton is about 4× faster than naive under torch JIT.

    “triton is approximately 4x faster than the naive torch JIT implementation”

    A factor claimed for many widths is judged by its geometric mean over them, here and in D1, D2
    and E1. In A's own figure the factor falls from 4.0 to 2.6 as N grows.
    """
    speed = card.ratio("naive_script", "fused", TUTORIAL, mean=True)
    yield speed.each("speed over naive as a script, mean of the tutorial's widths", about=(4, 0.15))


@claim("text", "a_fig2")
def a5(card: Card) -> Parts:
    """Triton beats torch.softmax at most widths.

    “triton outperforms torch.softmax across most matrix sizes”

    The widths are those of the tutorial and of A-fig2 that both ran. Triton is faster at most of
    them if it is faster at their median.
    """
    speed = card.ratio("torch", "fused", WIDE)
    yield speed.pick(0.5).each("speed over torch, median of the widths at M = 4096", above=1)


@claim("text", "d_fig1")
def a6(card: Card) -> Parts:
    """PyTorch peaks above Triton: 1515 against 1448 GB/s.

    “memory bandwidth utilization reaches up to 1448 GB/s for triton vs 1515 GB/s for PyTorch at
    peak”

    A names no card, so that only the order of the two peaks can be judged.
    """
    torch, fused = (card.rates(kernel, WIDE).pick(1) for kernel in ("torch", "fused"))
    yield (torch / fused).each("PyTorch's peak over Triton's", gain=-1, above=1)


@claim("A-fig2", "a_fig2")
def a7(card: Card) -> Parts:
    """A softmax of 4096 rows takes the times of A-fig2.

    “triton fused softmax consistently outperforms both naive and torch.softmax implementations”

    A names no card, but any card's memory would have to move the bytes in these times.
    """
    peak, drawn = max(one.peak_gbps or 0.0 for one in datasheets()), series("a_fig2")
    for kernel, formula in (("fused", "2MN"), ("torch", "2MN"), ("naive", "8MN + 4M")):
        rates = implied(formula, 4096, drawn.sizes, "float32", drawn.kernels[kernel])
        label = f"GB/s that {kernel}'s printed times imply, to the peak of the fastest card"
        yield rates.each(label, at_most=peak)
    for kernel, printed in (("naive", 1.25), ("torch", 1.418)):
        grown = growth(card.times, kernel, 16384, 262144, LINE)
        label = f"growth of {kernel}'s time from 16384 to 262144 columns, as printed"
        yield grown.each(label, about=(printed, 0.25))


@claim("text", "d_fig1")
def a8(card: Card) -> Parts:
    """Fused works best while a row fits on chip.

    “the fused softmax approach works best when each row fits in GPU SRAM”

    A row of 64K float32 columns, 256 KB, is more than a block's shared memory. Programs are
    launched for it nevertheless, and their registers spill.
    """
    speed = card.ratio("online", "fused", Where(("tutorial", "wide"), cols=(1, 32768)))
    yield speed.pick(0.5).each("speed over online, median of up to 32768 columns", above=1)
    for kernel in ("fused", "fused_row"):
        grown = growth(card.rates, kernel, 16384, 65536, LINE)
        yield grown.each(f"bandwidth of {kernel} at 65536 columns over 16384", below=1)
    where = Where(rows=4096, cols=(ON_CHIP + 1, None))
    reads = card.at_dram("fused", where, "reads") / "MN"
    yield optional(reads.each("reads at DRAM beyond 57344 columns over MN", above=1))
