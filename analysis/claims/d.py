"""The claims of D, “Fused Softmax Tutorial”, a summary of Triton's tutorial 02: kernel `fused`."""

from analysis.claims.card import Card, Where
from analysis.claims.verdict import Parts, claim, fact

TUTORIAL = Where(("tutorial",))
OF_D = Where(("tutorial",), cols=(256, 12288))


@claim("text", "d_fig1")
def d1(card: Card) -> Parts:
    """Triton is about 4× faster than torch softmax.

    “vs. PyTorch softmax: Triton is approximately 4x faster”

    D also says 3–4× over naive, which moves four times PyTorch's bytes.
    """
    speed = card.ratio("torch", "fused", TUTORIAL, mean=True)
    yield speed.each("speed over torch, mean of the tutorial's widths", about=(4, 0.15))
    label, most = "speed of torch over naive, by D2 and D1", 4 / 4
    yield fact(label, most > 1, "above 1", f"at most {most:g}: D2's 3–4 over D1's 4")


@claim("text", "d_fig1")
def d2(card: Card) -> Parts:
    """Triton is 3–4× faster than naive “across varying column counts”.

    “vs. naive implementation: Triton shows 3-4x improvement across varying column counts”

    Judged by the geometric mean over D's widths, as A4 is.
    """
    speed = card.ratio("naive", "fused", OF_D, mean=True)
    yield speed.each("speed over naive, mean of 256 to 12288 columns", between=(3, 4))


@claim("text", "d_fig1")
def d3(card: Card) -> Parts:
    """Triton sustains 1400+ GB/s, steady from 256 to 12288 columns; PyTorch “fluctuated more”.

    “Performance remains consistent from 256 to 12,288 columns … Triton maintained 1,400+ GB/s for
    large matrices while PyTorch fluctuated more significantly”

    Steady is judged as D compares, and as in E1 over the same columns: the highest bandwidth over
    the lowest is smaller than PyTorch's.
    """
    rates = card.rates("fused", Where(("tutorial",), cols=(4096, 12288)))
    yield rates.each("GB/s from 4096 columns on", at_least=1400)
    label = "PyTorch's highest over lowest bandwidth, over Triton's, 256 to 12288 columns"
    torch, fused = (card.rates(kernel, OF_D).spread for kernel in ("torch", "fused"))
    yield (torch / fused).each(label, gain=1, above=1)


@claim("D-test", "d_test")
def d4(card: Card) -> Parts:
    """The answer is allclose to torch's at 1823×781.

    “Testing with irregular dimensions (1823×781) confirms padding mechanisms work correctly”

    A row is ok if every element is within 32 spacings of the float64 answer; two such answers are
    within 8e-6 of each other, inside allclose's 1e-5.
    """
    where = Where(rows=1823, cols=781, dtype="float32")
    apart = card.most("fused", where, "epsilons") + card.most("torch", where, "epsilons")
    yield apart.each("distance of the two answers at most, in epsilons", at_most=8)
    for kernel in ("fused", "torch"):
        yield card.outcome(f"{kernel}'s answer", kernel, "ok", where=where)
