"""The gate: no time is published for a wrong answer.

An element may differ from float64's answer by so many spacings of its dtype at that answer, plus
one subnormal step. A row's sum may differ from the sum of the correctly rounded answers by a mean
of so many spacings an element: rounding errors cancel in a sum, and an answer of all zeros, which
passes element by element where 16-bit values near the smallest number, does not. Where an operation
says that its answer is a sum whose terms cancel, spacings are taken at the terms' magnitude.
"""

from __future__ import annotations

import math
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch

from kernels.kernel import Operation

EXPONENT = 0x7FF0 << 48  # of a float64
CHUNK_ELEMENTS = 1 << 23  # float64 temporaries of a chunk stay near half a gigabyte


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


@runtime_checkable
class Cancelling(Protocol):
    """An operation whose answer is a sum of terms that may cancel."""

    def magnitude(self, x: torch.Tensor) -> torch.Tensor:
        """The terms' absolute values added up, in float64, like the operation's reference."""


@dataclass(frozen=True)
class Verdict:
    """What the gate found. ``reason`` is None when the answer is right."""

    reason: str | None
    max_abs_error: float | None = None
    relative_error: float | None = None


@dataclass(frozen=True)
class Known:
    """An answer that passed: its fingerprint, and what the gate found."""

    answer: int
    verdict: Verdict


def check(
    y: torch.Tensor,
    x: torch.Tensor,
    operation: Operation,
    backend: str,
    made: MutableMapping[int, Known | None] | None = None,
) -> Verdict:
    """Compares an answer with the float64 reference, in chunks of whole rows.

    An answer that is bit for bit one that passed for the same input is not computed with again.

    Args:
        y: What the kernel returned for ``x``.
        x: The input, shape ``(M, N)``, or several matrices of one shape stacked before it.
        operation: Gives the reference.
        backend: Selects the tolerance, as rows spell it.
        made: For the `fingerprint` of every input as it was made, the answer that passed for it,
            which is noted here; None where nothing was called.
    """
    shape, asked = x.shape[-2:], None if made is None else fingerprint(x)
    if made is not None and asked not in made:
        return Verdict("changed its input, so that its answer cannot be compared with any")
    if y.shape != shape or y.dtype != x.dtype:
        return Verdict(f"returned {tuple(y.shape)} {y.dtype} for {tuple(shape)} {x.dtype}")
    if x.numel() and y.data_ptr() == x.data_ptr():
        return Verdict("returned its input's own memory")
    tolerance = EXACT if operation.exact else TOLERANCES[backend, x.dtype]
    if made is None or asked is None:
        return _compare(y, x, operation, tolerance)
    known, answered = made[asked], fingerprint(y)
    if known is not None and known.answer == answered:
        return known.verdict
    verdict = _compare(y, x, operation, tolerance)
    if verdict.reason is None:
        made[asked] = Known(answered, verdict)
    return verdict


def _compare(
    y: torch.Tensor, x: torch.Tensor, operation: Operation, tolerance: Tolerance
) -> Verdict:
    shape, info = y.shape, torch.finfo(x.dtype)
    slack = 0.0 if tolerance == EXACT else info.smallest_normal * info.eps
    step = max(CHUNK_ELEMENTS // max(shape[1], 1), 1)
    # right elements, right row sums, Σ(y − ref)² and Σ ref², read once at the end
    totals = torch.zeros(4, dtype=torch.float64, device=x.device)
    worst = torch.zeros((), dtype=torch.float64, device=x.device)
    for first in range(0, shape[0], step):
        rows = slice(first, first + step)
        block, answer = x[..., rows, :], y[rows].double()
        if y.dtype == torch.float64:
            answer = answer.clone()  # what follows works in place
        reference = operation.reference(block)
        at = operation.magnitude(block) if isinstance(operation, Cancelling) else reference
        space = spacing(at, x.dtype)
        rounded = reference.to(x.dtype).sum(-1, dtype=torch.float64)
        sums = (answer.sum(-1) - rounded).abs()
        # written as "within", so that NaN counts as wrong
        right_sums = sums <= tolerance.row_mean * space.sum(-1)
        error = answer.sub_(reference).abs_()
        right = error <= space.mul_(tolerance.element).add_(slack)
        found = (
            *(right.sum().double(), right_sums.sum().double()),
            *(error.square().sum(), reference.square().sum()),
        )
        totals += torch.stack(found)
        if error.numel():
            worst = torch.maximum(worst, error.max())
    right_ones, right_rows, error2, reference2 = totals.tolist()
    wrong, wrong_sums = y.numel() - int(right_ones), shape[0] - int(right_rows)
    share = _finite(math.sqrt(error2 / reference2)) if reference2 > 0 else 0.0
    errors = _finite(float(worst)), share
    if wrong:
        return Verdict(
            f"{wrong} of {y.numel()} elements differ from float64 by more than "
            f"{tolerance.element:g} spacings",
            *errors,
        )
    if wrong_sums:
        return Verdict(f"{wrong_sums} of {shape[0]} row sums are off", *errors)
    return Verdict(None, *errors)


def fingerprint(x: torch.Tensor) -> int:
    """A checksum of a tensor's bits and their places, in chunks; any one changed element shows.

    Each word of bits, as a whole number, is multiplied by an odd number of its own, and the
    products are summed modulo 2^64. A word is eight bytes, or an element where they do not divide.
    """
    flat = x.flatten()
    aligned = flat.numel() * flat.itemsize % 8 == 0 and flat.data_ptr() % 8 == 0
    whole = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    bits = flat.view(torch.int64 if aligned else whole[x.itemsize])
    total = torch.zeros((), dtype=torch.int64, device=x.device)
    for first in range(0, bits.numel(), CHUNK_ELEMENTS):
        part = bits[first : first + CHUNK_ELEMENTS]
        factors = torch.arange(2 * first + 1, 2 * (first + part.numel()), 2, device=x.device)
        total += factors.mul_(part).sum()
    return int(total)


def spacing(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Distance between neighbours of ``dtype`` at float64 ``values``, subnormals included.

    It is a tensor of its own. What a double keeps of its bits as exponent is the power of two
    below its magnitude; zero and subnormal doubles have none.
    """
    info = torch.finfo(dtype)
    powers = values.contiguous().view(torch.int64).bitwise_and(EXPONENT).view(torch.float64)
    return powers.mul_(info.eps).clamp_(info.smallest_normal * info.eps, info.max * info.eps)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
