"""The claim of E, “Softmax in OpenAI Triton”. Its kernel is `fused_row`: one program per row."""

from analysis.claims.card import Card, Where
from analysis.claims.verdict import Parts, claim

TUTORIAL = Where(("tutorial",))


@claim("text and E-fig1", "e_fig1")
def e1(card: Card) -> Parts:
    """Triton is up to 3× faster, slightly faster than torch in September 2024, and “very stable”.

    E measured an RTX 3090 Ti with the torch of 2024; only reports of its text are at hand. “Up to”
    is an upper end. Slightly is taken as by at most a quarter; very stable, as in D3 and over the
    same columns, as steadier than torch.
    """
    speed = card.ratio("torch", "fused_row", TUTORIAL)
    yield speed.pick(1).each("speed over torch at the best width", at_most=3)
    mean = card.ratio("torch", "fused_row", TUTORIAL, mean=True)
    yield mean.each("faster than torch, mean of the tutorial's widths", above=1)
    yield mean.each("slightly faster than torch, mean of the tutorial's widths", between=(1, 1.25))
    where = Where(("tutorial",), cols=(256, 12288))
    torch, fused = (card.rates(kernel, where).spread for kernel in ("torch", "fused_row"))
    label = "PyTorch's highest over lowest bandwidth, over Triton's, 256 to 12288 columns"
    yield (torch / fused).each(label, gain=1, above=1)
