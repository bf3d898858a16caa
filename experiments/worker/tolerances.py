"""How far an answer may lie from float64's, by what computed it and in what dtype."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Tolerance:
    """Allowed error in spacings: of one element, and on average over a row."""

    element: float
    row_mean: float


# Inputs are standard normal, so max − x reaches 10: rounding that difference in the working
# precision alone moves exp by up to 10/2 spacings, and ex2's scaling by log2 e as much again.
# QuACK scales max and x by log2 e before it subtracts, each rounded as a number of up to 8, and
# multiplies by an approximate reciprocal: as many again.
_FLOAT32 = Tolerance(element=32, row_mean=16)
_FLOAT64 = Tolerance(element=64, row_mean=32)  # the reference rounds in the same precision
# Computed in float32 and rounded once: half a spacing, one more where the error of float32 tips
# the rounding over. Rounding to nearest is unbiased.
_ROUNDED_ONCE = Tolerance(element=1.5, row_mean=0.25)
# Each of five operations rounds to 16 bit: the difference max − x by half a spacing of a value up
# to 10, which exp turns into up to eight spacings; the sum, the exponential and the quotient add
# one each. The rounded sum is common to the row and biases all of it.
_ROUNDED_EACH = Tolerance(element=16, row_mean=2)
# Triton's interpreter cuts float32 to bfloat16 instead of rounding: up to one spacing, half of
# one on average, always downward.
_TRUNCATED = Tolerance(element=2, row_mean=1)

TOLERANCES: dict[tuple[str, torch.dtype], Tolerance] = {
    **{(b, torch.float32): _FLOAT32 for b in ("eager", "torchscript", "torch", "inductor")},
    **{(b, torch.float64): _FLOAT64 for b in ("eager", "torchscript", "torch", "inductor")},
    **{(b, torch.float32): _FLOAT32 for b in ("triton", "cute", "interpreter")},
    **{(b, torch.float64): _FLOAT64 for b in ("triton", "interpreter")},
    **{(b, t): _ROUNDED_EACH for b in ("eager", "torchscript")
       for t in (torch.float16, torch.bfloat16)},
    **{(b, t): _ROUNDED_ONCE for b in ("torch", "inductor", "triton", "cute")
       for t in (torch.float16, torch.bfloat16)},
    ("interpreter", torch.float16): _ROUNDED_ONCE,
    ("interpreter", torch.bfloat16): _TRUNCATED,
}  # fmt: skip
EXACT = Tolerance(0, 0)
