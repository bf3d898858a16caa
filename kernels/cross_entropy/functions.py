"""`cross_entropy(input, target)`, like PyTorch's own.

Traffic in elements, for M rows of N logits:

- The loss alone moves MN.
- A training step moves 3MN: the loss reads MN and keeps one number per row; the backward pass moves
  2MN more and writes the gradient into a new buffer.
- A training step with ``inplace=True`` writes the gradient over the logits. One call computes loss
  and gradient, 2MN (3MN if a row is too wide to stay on chip). The backward pass multiplies by the
  incoming gradient: it reads that number on the device and moves nothing if it is 1, else 2MN. So a
  loss that is scaled later (a gradient scaler, accumulated steps) costs more than without
  ``inplace``, and False is the default. float16 gradients would be rounded before a scaler's factor
  reaches them, and the incoming gradients of ``reduction="none"`` are not known yet. In both cases
  the logits are kept, and the backward pass overwrites them, 3MN.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from ..calls import (
    DTYPES,
    MOST_OPTION,
    CallPlan,
    Maybe,
    RowOp,
    as_rows,
    gradient_of,
    number,
    padded_like,
)
from ..launch import workspace
from ..overwriting import in_place
from ..repeat import TensorSpec, dense
from . import variants
from .rows import Call, Options, reduce_losses

SMALL = (torch.float16, torch.bfloat16)
NUMBER_TYPES = (int, float, float, float, float)  # of those among the options


def cross_entropy(
    input: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    z_loss: float = 0.0,
    softcap: float = 0.0,
    temperature: float = 1.0,
    dim: int = 1,
    dtype: torch.dtype | None = None,
    inplace: bool = False,
) -> torch.Tensor:
    """`torch.nn.functional.cross_entropy` with more options, differentiable in ``input``.

    With z = cap(input) / temperature and cap(x) = softcap·tanh(x / softcap), the loss of a row is
    PyTorch's loss of z plus z_loss·logsumexp(z)². "mean" divides PyTorch's part by the sum of the
    weights of the targets that are not ignored, and the z-loss part by the number of these targets.

    The loss is computed in float32 (float64 for float64) and rounded once, to ``dtype``. A target
    that is neither a class nor ``ignore_index`` makes the loss and gradient of its row NaN, because
    an error would have to wait for the GPU. The call never waits for the GPU. Results are bitwise
    repeatable, and the loss and gradient of a row do not depend on other rows.

    Kernels take class indices (int64). Logits with adjacent classes whose other dimensions can be
    merged into one are read in place, also a slice of a padded vocabulary; others are copied first.
    PyTorch's operations compute the other cases: class probabilities, empty input, ``weight`` and
    ``z_loss`` under "mean", the CPU, and calls that a transform or dispatch mode observes.

    Args:
        input: Logits: (C), (N, C) or (N, C, d1, …); with another ``dim``, classes are there.
        target: Class indices, in the shape of ``input`` without its classes; or probabilities, in
            the shape of ``input``.
        weight: (C), one weight per class, of any real dtype.
        ignore_index: Rows with this target do not count.
        reduction: "none", "mean" or "sum". The mean of no rows is NaN.
        label_smoothing: From 0 to 1.
        z_loss: A finite number.
        softcap: A positive number, or 0 for none.
        temperature: From 1e-30 to 1e30.
        dim: The dimension of the classes where ``input`` has two or more: −1 for the logits of a
            language model, (…, C).
        dtype: The dtype of the loss: float16, bfloat16, float32 or float64. None takes
            the input's dtype, or float32 under autocast. A bfloat16 loss has three digits.
        inplace: Lets the gradient overwrite ``input`` if a gradient is needed and a kernel computes
            it, but not under `torch.compile`; O(N) memory beside the inputs. Later use of
            ``input``, or of a tensor that shares its memory, is an error. The gradient cannot be
            taken twice or differentiated. ``input`` must not be a leaf.

    Raises:
        IndexError, NotImplementedError, RuntimeError, TypeError, ValueError: as PyTorch's.
    """
    if dim != 1 and isinstance(input, torch.Tensor) and input.dim() > 1:
        input = input.movedim(dim, 1)
        if isinstance(target, torch.Tensor) and target.dim() == input.dim():
            target = target.movedim(dim, 1)  # probabilities
    numbers = ignore_index, label_smoothing, softcap, temperature, z_loss
    if tuple(map(type, numbers)) != NUMBER_TYPES:  # as keys, True, 1 and 1.0 are one
        if type(label_smoothing) is int:
            label_smoothing = float(label_smoothing)
        numbers = ignore_index, label_smoothing, *_numbers(softcap, temperature, z_loss)
        if tuple(map(type, numbers)) != NUMBER_TYPES:
            return by_torch(input, target, weight, reduction, dtype, *numbers)
    settings = reduction, dtype, *numbers
    tensors = (input, target) if weight is None else (input, target, weight)
    if inplace:
        both = None if reduction == "none" else _both
        return in_place("cross_entropy", CROSS_ENTROPY_OP, tensors, settings, both)
    return CROSS_ENTROPY_OP.run(tensors, settings)  # type: ignore[no-any-return]


# --- arguments: input, target and weight, then reduction, dtype and the fields of `Options` ---


def _numbers(softcap: Any, temperature: Any, z_loss: Any) -> tuple[float, float, float]:
    """Checks the options that PyTorch does not have."""
    return (
        number("softcap", softcap, zero=True),
        number("temperature", temperature),
        number("z_loss", z_loss, -MOST_OPTION),
    )


def _dtype_of_loss(input: torch.Tensor, wanted: Any) -> torch.dtype:
    if wanted is None:
        small = input.dtype in SMALL and torch.is_autocast_enabled(input.device.type)
        return torch.float32 if small else input.dtype
    if wanted not in DTYPES:
        names = ", ".join(str(dtype).removeprefix("torch.") for dtype in DTYPES)
        raise TypeError(f"cross_entropy(): argument 'dtype' must be {names}, not {wanted!r}")
    return wanted  # type: ignore[no-any-return]


def _checked(
    input: Any, target: Any, weight: Any, reduction: str, dtype: Any, *numbers: Any
) -> tuple[Any, ...] | None:
    """The options if kernels compute this loss, whatever the strides of the tensors."""
    dtype, shape = _dtype_of_loss(input, dtype), tuple(input.shape)
    _, smoothing, *others = numbers
    *_, z_loss = _numbers(*others)
    by_kernels = (
        reduction in ("none", "mean", "sum")
        and 0 <= smoothing <= 1
        and input.dtype in DTYPES
        and dtype in (input.dtype, torch.promote_types(input.dtype, torch.float32))
        and isinstance(target, torch.Tensor)
        and target.dtype is torch.int64
        and target.device == input.device
        and len(shape) > 0
        and 0 not in shape
        and tuple(target.shape) == (shape[:1] + shape[2:] if len(shape) > 1 else ())
    )
    if by_kernels and weight is not None:
        by_kernels = (
            tuple(weight.shape) == shape[min(len(shape) - 1, 1) :][:1]
            and not weight.dtype.is_complex
            and weight.device == input.device
            and not (z_loss and reduction == "mean")
        )
    return (reduction, dtype, *numbers) if by_kernels else None


def _arranged(input: torch.Tensor, target: torch.Tensor, weight: Maybe, *_: Any) -> Sequence[Maybe]:
    """Logits as rows of adjacent classes, their targets, and weights in the form of the kernels."""
    logits = as_rows(input.movedim(1, -1) if input.dim() > 2 else input)
    if weight is not None:
        weight = weight.to(torch.promote_types(input.dtype, torch.float32)).contiguous()
    return logits, target.reshape(-1).contiguous(), weight


# --- by PyTorch's operations ---


def by_torch(input: Any, target: Any, weight: Any, *options: Any) -> torch.Tensor:
    """The loss by PyTorch's operations, for any input that they accept; errors are PyTorch's."""
    reduction, dtype, ignore_index, label_smoothing, *numbers = options
    softcap, temperature, z_loss = _numbers(*numbers)
    z = input  # PyTorch refuses anything that is no logits
    if isinstance(input, torch.Tensor):
        dtype = _dtype_of_loss(input, dtype)
        if input.is_floating_point():
            z = input.to(torch.promote_types(input.dtype, torch.float32))
            z = softcap * torch.tanh(z / softcap) if softcap else z
            z = z if temperature == 1 else z / temperature
    if isinstance(weight, torch.Tensor):
        weight = weight.to(z.dtype)
    if isinstance(target, torch.Tensor) and target.is_floating_point():
        target = target.to(z.dtype)
    loss = F.cross_entropy(
        *(z, target, weight),
        ignore_index=ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )
    if z_loss:
        squares = z.logsumexp(min(z.dim() - 1, 1)).square()
        counts = torch.ones_like(squares, dtype=torch.bool)
        if not target.is_floating_point():
            counts = target != ignore_index
            squares = torch.where(counts, squares, 0.0)
        if reduction != "none":
            squares = squares.sum() / (counts.sum() if reduction == "mean" else 1)
        loss = loss + z_loss * squares
    return loss.to(dtype)


def _gradient_by_torch(
    logits: Any, target: Any, weight: Any, kept: Any, dloss: Any, *settings: Any
) -> torch.Tensor:
    def loss(x: torch.Tensor) -> tuple[torch.Tensor]:
        return (by_torch(x, target, weight, *settings),)

    return gradient_of(loss, logits, [dloss])


# --- by kernels ---


class _Loss:
    """Launches the loss and gradient of rows of logits.

    The forward pass keeps the logsumexp of each row, (M,); under "mean" followed by the common
    factor of all gradients, (M + 1,).
    """

    def __init__(self, reduction: str, *numbers: Any) -> None:
        self.options = Options(*numbers)
        self.reduced, self.mean = reduction != "none", reduction == "mean"

    def _call(self, logits: Any, target: Any, weight: Maybe = None) -> Call:
        return Call(logits, target, self.options, weight, mean=self.mean)

    def __call__(
        self, logits: Any, target: Any, weight: Maybe, loss: Any, kept: Maybe = None
    ) -> None:
        losses = _one_per_row(logits) if self.reduced else loss
        call = self._call(logits, target, weight)._replace(loss=losses, lse=kept)
        variants.run(call)
        if self.reduced:
            reduce_losses(call, loss)

    def both(self, logits: Any, target: Any, *rest: Any) -> None:
        """The loss, and over the logits the gradient for an incoming gradient of 1."""
        *weight, loss = rest  # there may be no weight
        call = self._call(logits, target, *weight)
        if self.mean:
            scale = workspace((1,), _wide(logits), logits.device)
            reduce_losses(call, scale)
            call = call._replace(dloss=scale)
        call = call._replace(loss=_one_per_row(logits), dlogits=logits)
        variants.run(call)
        reduce_losses(call, loss)

    def backward(self, *given: Any) -> None:
        *rows, kept, dloss, dlogits = given
        variants.run(self._call(*rows)._replace(lse=kept, dloss=dloss, dlogits=dlogits))


def _both(plan: CallPlan, *rows: Any) -> None:
    plan.work.both(*rows)


def _wide(x: torch.Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)


def _one_per_row(logits: torch.Tensor) -> torch.Tensor:
    return workspace(logits.shape[:1], _wide(logits), logits.device)


def _answers(
    logits: torch.Tensor, target: Any, weight: Any, reduction: str, dtype: torch.dtype, *_: Any
) -> Sequence[TensorSpec]:
    rows, loss = logits.shape[0], dense((), dtype)
    if reduction == "none":
        loss = dense((rows,), dtype)
    return [loss, dense((rows + int(reduction == "mean"),), _wide(logits))]


# --- the operation ---


_OPTIONS = (
    "str reduction, ScalarType dtype, int ignore_index, float label_smoothing, float softcap, "
    "float temperature, float z_loss"
)
GRADIENT_OP = RowOp(
    schema="cross_entropy_backward(Tensor logits, Tensor target, Tensor? weight, Tensor kept, "
    f"Tensor dloss, {_OPTIONS}) -> Tensor",
    checked=lambda logits, target, weight, _, dloss, *options: _checked(
        logits, target, weight, *options
    ),
    answers=lambda logits, *_: [padded_like(logits)],
    work=lambda *given: _Loss(given[5], *given[7:]).backward,
    by_torch=_gradient_by_torch,
)
CROSS_ENTROPY_OP = RowOp(
    schema=f"cross_entropy(Tensor logits, Tensor target, Tensor? weight, {_OPTIONS}) "
    "-> (Tensor, Tensor)",
    checked=_checked,
    answers=_answers,
    work=lambda *given: _Loss(given[3], *given[5:]),
    by_torch=by_torch,
    arranged=_arranged,
    shape=lambda _, target, weight, reduction, *rest: target.shape if reduction == "none" else None,
    gradient=GRADIENT_OP,
    saved=lambda tensors, answers: (*tensors, *(None,) * (3 - len(tensors)), answers[1]),
)
