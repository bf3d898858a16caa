"""The gate: compares answers with a float64 reference. No time is published for a wrong answer.

A spacing (ulp) is the distance between neighbouring numbers of a dtype. An element may differ from
the reference by a number of spacings at its value, plus one subnormal step; integers must be equal.
For outputs in `Operation.row_sums`, a row's sum may also differ from the sum of the rounded
reference by a number of spacings per element. Rounding errors cancel in a sum; an answer of all
zeros fails there, even if 16-bit answers are so small that zeros pass element by element. Where
terms of an answer cancel, the operation gives their `magnitude`, and spacings are taken at that.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from kernels.kernel import Operation, Tensors, as_tuple

EXPONENT = 0x7FF0 << 48  # mask of a float64's exponent bits
CHUNK_ELEMENTS = 1 << 23  # float64 temporaries of a chunk stay near half a gigabyte


@dataclass(frozen=True)
class Tolerance:
    """The allowed error in spacings: of one element, and of a row's sum per element."""

    element: float
    row_mean: float


# Inputs are standard normal, so max − x reaches 10: rounding that difference in the working
# precision alone moves exp by up to 10/2 spacings, and ex2's scaling by log2 e as much again.
# QuACK scales max and x by log2 e before it subtracts, each rounded as a number of up to 8, and
# multiplies by an approximate reciprocal: as many again.
_FLOAT32 = Tolerance(element=32, row_mean=16)
_FLOAT64 = Tolerance(element=64, row_mean=32)  # the reference has rounding errors of this size too
# Computed in float32 and rounded once: half a spacing, and one more if float32's error changes
# the direction of rounding. Rounding to nearest is unbiased.
_ROUNDED_ONCE = Tolerance(element=1.5, row_mean=0.25)
# Each of five operations rounds to 16 bit: the difference max − x by half a spacing of a value up
# to 10, which exp turns into up to eight spacings; the sum, the exponential and the quotient add
# one each. The rounded sum is common to the row and biases all of it. A log-probability of up to
# 32 in magnitude, rounded by half a spacing of its own, gives a probability up to seventeen.
_ROUNDED_EACH = Tolerance(element=18, row_mean=2)
# Triton's interpreter cuts float32 to bfloat16 instead of rounding: up to one spacing, half of
# one on average, always downward.
_TRUNCATED = Tolerance(element=2, row_mean=1)

_WIDE = {torch.float32: _FLOAT32, torch.float64: _FLOAT64}
TOLERANCES = {  # of 16-bit answers, by backend
    **dict.fromkeys(("eager", "torchscript"), _ROUNDED_EACH),
    **dict.fromkeys(("torch", "inductor", "triton", "cute", "interpreter"), _ROUNDED_ONCE),
    "tilelang": _ROUNDED_ONCE,
    "outside": _ROUNDED_EACH,  # unknown code, so each of its operations may round
}
EXACT_TOLERANCE = Tolerance(0, 0)
SMALLEST = torch.finfo(torch.float32).smallest_normal  # kernels compute in float32


@dataclass(frozen=True)
class CheckResult:
    """The gate's result. ``reason`` says why an answer is wrong; None if it is right."""

    reason: str | None
    max_abs_error: float | None = None
    relative_error: float | None = None


def check(
    answer: Tensors, given: Tensors, operation: Operation, backend: str, factor: float = 1
) -> CheckResult:
    """Compares an answer with the float64 reference, in chunks of whole rows.

    Args:
        answer: What the kernel returned, a tensor or a tuple of tensors.
        given: The operation's inputs; if the kernel overwrites one, its copy from before the call.
        operation: Its ``reference`` computes the right answer.
        backend: The backend as in rows; it selects the tolerance.
        factor: Multiplies the tolerance. If it is not 1 (`hard` inputs), float32 subnormals may be
            flushed to zero, and elements without a finite reference are not compared.
    """
    answers, inputs = as_tuple(answer), as_tuple(given)
    if reason := defect(answers, inputs, operation):
        return CheckResult(reason)
    rows = answers[0].shape[0]
    if not rows:
        return CheckResult(None, 0.0, 0.0)
    cut = [operation.rowwise(array) for array in operation.inputs]
    widest = max(t.numel() for t in (*answers, *inputs)) // rows
    step = max(CHUNK_ELEMENTS // max(widest, 1), 1)
    allowed = [tolerance(operation, y, backend) for y in answers]
    found: list[list[torch.Tensor]] = [[] for _ in answers]
    for first in range(0, rows, step):
        part = slice(first, first + step)
        blocks = [x[part] if by_rows else x for x, by_rows in zip(inputs, cut, strict=True)]
        references = as_tuple(operation.reference(*blocks))
        magnitudes = operation.magnitude(*blocks)
        scales = references if magnitudes is None else as_tuple(magnitudes)
        for i, (y, reference, scale) in enumerate(zip(answers, references, scales, strict=True)):
            narrow = reference.is_floating_point() and reference.dtype != torch.float64
            if narrow or reference.shape != y[part].shape:
                gave = f"{tuple(reference.shape)} {reference.dtype}"
                due = f"{tuple(y[part].shape)} torch.float64"
                return CheckResult(f"the reference of {operation.name} gave {gave}, not {due}")
            sums = operation.outputs[i].name in operation.row_sums
            found[i].append(_errors(y[part], reference.double(), scale, allowed[i], factor, sums))
    reasons, absolute, relative = [], [], []
    for i, y in enumerate(answers):
        totals = torch.stack(found[i])
        wrong, off, error2, reference2 = totals[:, :4].sum(0).tolist()
        absolute.append(float(totals[:, 4].max()))
        of = f"{operation.outputs[i].name}: " if len(answers) > 1 else ""
        if wrong:
            nan = any(bool(part.isnan().any()) for part in y.split(step))
            reasons.append(
                f"{of}{wrong:.0f} of {y.numel()} elements differ from float64 by more than "
                f"{factor * allowed[i].element:g} spacings"
                + ("; it has NaN" if nan else f"; the largest error is {absolute[i]:.3g}")
            )
        elif off:
            reasons.append(f"{of}{off:.0f} of {rows} row sums are off")
        relative.append(math.sqrt(error2 / reference2) if reference2 > 0 else 0.0)
    return CheckResult(next(iter(reasons), None), _largest(absolute), _largest(relative))


def _errors(
    y: torch.Tensor,
    reference: torch.Tensor,
    scale: torch.Tensor,  # spacings are taken at these values
    allowed: Tolerance,
    factor: float,
    sums: bool,  # whether to check row sums
) -> torch.Tensor:
    """Five numbers: wrong elements, wrong row sums, Σ(y − ref)², Σ ref², and the largest error."""
    dtype, answer = y.dtype, y.to(torch.float64, copy=True)  # the rest works in place
    space, wrong_sums = spacing(scale.double(), dtype), torch.zeros((), device=y.device)
    if sums and y.numel():
        # without the largest element: rounding may move it by a whole spacing, and it may be most
        # of the sum; the check of single elements covers it
        largest = space.argmax(-1, keepdim=True)
        ours, theirs, spaces = (
            t.scatter(-1, largest, 0).sum(-1, dtype=torch.float64)
            for t in (y, reference.to(dtype), space)
        )
        # negated, so that NaN counts as wrong, here and below
        within = (ours - theirs).abs() <= factor * allowed.row_mean * spaces
        wrong_sums = (~within).sum()
    slack = 0.0
    if allowed != EXACT_TOLERANCE:
        slack = _subnormal_step(dtype) if factor == 1 else max(_subnormal_step(dtype), SMALLEST)
    error = answer.sub_(reference).abs_()
    right = error <= space.mul_(factor * allowed.element).add_(slack)
    if factor != 1:
        right |= ~reference.isfinite()
    norms = [torch.linalg.vector_norm(values).square() for values in (error, reference)]
    most = error.max() if error.numel() else torch.zeros((), device=y.device)
    return torch.stack([one.double() for one in ((~right).sum(), wrong_sums, *norms, most)])


def defect(
    answers: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], operation: Operation
) -> str | None:
    """Why an answer is refused without a look at its values; None if it is well formed.

    It must have the right shapes and dtypes, consist of plain tensors (a subclass may compute its
    values when they are read), and share no memory with the inputs.
    """
    shape, dtype = operation.point_of(inputs)
    found = [(tuple(y.shape), y.dtype) for y in answers]
    wanted = operation.layout(operation.outputs, shape, dtype)
    fits = [
        one == other or (array.either and one == (other[0], dtype))
        for one, other, array in zip(found, wanted, operation.outputs, strict=False)
    ]
    if len(found) != len(wanted) or not all(fits):
        texts = (", ".join(f"{size} {kind}" for size, kind in one) for one in (found, wanted))
        return "returned {} for {}".format(*texts)
    for y in answers:
        if type(y) is not torch.Tensor:
            return f"returned a {type(y).__name__}, not a torch.Tensor"
    return "returned its input's own memory" if storages(answers) & storages(inputs) else None


def tolerance(operation: Operation, y: torch.Tensor, backend: str) -> Tolerance:
    """The tolerance for ``y``, an output of the operation that ``backend`` computed."""
    if operation.exact or not y.dtype.is_floating_point:
        return EXACT_TOLERANCE
    truncated = (backend, y.dtype) == ("interpreter", torch.bfloat16)
    return _WIDE.get(y.dtype, _TRUNCATED if truncated else TOLERANCES[backend])


def storages(tensors: Sequence[torch.Tensor]) -> set[int]:
    """The addresses of the tensors' storages; a view has its base's. Empty tensors have none."""
    return {t.untyped_storage().data_ptr() for t in tensors if t.numel()}


def _largest(values: Sequence[float]) -> float | None:
    """The largest value; None if any is not finite."""
    return max(values) if all(map(math.isfinite, values)) else None


def fingerprints(tensors: Tensors) -> tuple[int, ...]:
    """The `fingerprint` of each tensor."""
    return tuple(map(fingerprint, as_tuple(tensors)))


def fingerprint(x: torch.Tensor) -> int:
    """A checksum of a tensor's bits and their order; a change of any single element changes it.

    The tensor is read as words: of eight bytes if its size and address allow, else of an element.
    Word i, as an integer, is multiplied by 2i + 1, and the products are summed modulo 2^64.
    """
    flat = x.flatten().contiguous()  # with one column, flatten may give a strided view
    aligned = flat.nbytes % 8 == 0 and flat.data_ptr() % 8 == 0
    whole = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    bits = flat.view(torch.int64 if aligned else whole[x.itemsize])
    total = torch.zeros((), dtype=torch.int64, device=x.device)
    for first in range(0, bits.numel(), CHUNK_ELEMENTS):
        part = bits[first : first + CHUNK_ELEMENTS]
        factors = torch.arange(2 * first + 1, 2 * (first + part.numel()), 2, device=x.device)
        total += factors.mul_(part).sum()
    return int(total)


def spacing(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The distance between neighbours of ``dtype`` at float64 ``values``, as a new tensor.

    A double with only its exponent bits is the power of two at or below its magnitude; for zero and
    subnormal doubles it is zero. Subnormals of ``dtype`` are included; integers have no spacing.
    """
    if not dtype.is_floating_point:
        return torch.zeros_like(values)
    info = torch.finfo(dtype)
    powers = values.contiguous().view(torch.int64).bitwise_and(EXPONENT).view(torch.float64)
    return powers.mul_(info.eps).clamp_(_subnormal_step(dtype), info.max * info.eps)


def _subnormal_step(dtype: torch.dtype) -> float:
    info = torch.finfo(dtype)
    return info.smallest_normal * info.eps
