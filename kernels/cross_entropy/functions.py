"""`cross_entropy(input, target)`, like PyTorch's own, and `logprob_entropy(logits, target)`.

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

Overwritten logits must not be read again. PyTorch guards their memory, not one tensor: any tensor
that shares it (a view, its base, a tensor saved by autograd) raises an error that names this
function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch.autograd import Function
from torch.compiler import is_dynamo_compiling
from torch.utils import dlpack

from ..calls import (
    DTYPES,
    MOST,
    PLAIN,
    Plan,
    RowOp,
    Tensors,
    define,
    gradient_of,
    like_rows,
    number,
    padded_like,
    run,
    runs_on,
    same_layouts,
    transformed,
    watched,
)
from ..log_softmax.functions import NUMBERS, numbers_by_torch, row_numbers
from ..repeat import ALIGNMENT, Layout, Repeatable, aligned
from . import auto
from . import rows as by_kernels
from .gradients import multiply

SMALL = (torch.float16, torch.bfloat16)
OVERWRITTEN = (
    "these logits were overwritten by cross_entropy(..., inplace=True): neither they nor what "
    "shares their memory can be used again; inplace=False leaves them"
)
TWICE = (
    "the gradient of cross_entropy(..., inplace=True) can be taken once, and not be differentiated "
    "in its turn: its buffer was the logits'; inplace=False allows both"
)
LEAF = (
    "cross_entropy(..., inplace=True) would overwrite a leaf tensor that requires grad, or a view "
    "of one; it takes logits that an operation computed"
)

Pair = tuple[torch.Tensor, torch.Tensor]
_overwritten: Callable[[int, str], None] | None = getattr(
    torch._C, "_set_storage_data_ptr_access_error_msg", None
)


class Settings(NamedTuple):
    """The options of a loss, checked; see `cross_entropy`. ``dtype`` is the loss's own."""

    ignore_index: int
    reduction: str
    label_smoothing: float
    z_loss: float
    softcap: float
    temperature: float
    dtype: torch.dtype


EXACT = (int, str, float, float, float, float, torch.dtype)  # as keys, True, 1 and 1.0 are one


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
    numbers = label_smoothing, z_loss, softcap, temperature
    settings = ignore_index, reduction, *numbers, _dtype_of_loss(input, dtype)
    tensors = (input, target) if weight is None else (input, target, weight)
    if not is_dynamo_compiling() and (*map(type, settings),) != EXACT:
        settings = _exact(settings)
    plan = LOSS.recall(tensors, settings)
    if plan is None and (
        watched(input) or any(type(x) not in PLAIN or x.requires_grad for x in tensors[1:])
    ):
        return _observed(input, target, weight, *settings)
    training = inplace and input.requires_grad and torch.is_grad_enabled()
    if training:
        base = input if input._base is None else input._base
        if input.is_leaf or (base.is_leaf and base.requires_grad):
            raise RuntimeError(LEAF)
    if plan is None and (plan := LOSS.plan(tensors, settings)) is None:
        return by_torch(input, target, weight, *settings)
    if training and plan.apart and _overwritten is not None:
        loss = _overwriting(plan, *(tensors if plan.direct else _arranged(*tensors)))
    else:
        loss = run(plan, *tensors)
    return loss if plan.direct or reduction != "none" else loss.view(target.shape)


def logprob_entropy(
    logits: torch.Tensor, target: torch.Tensor, *, temperature: float = 1.0
) -> Pair:
    """log p[target] and the entropy −Σ p·log p in one read; p = softmax(logits / temperature).

    Both are float32 (float64 for float64) and differentiable in ``logits``; their gradient moves
    2MN more. A target that is not a class makes the log-probability and gradient of its row NaN.

    Args:
        logits: (…, N), of a floating dtype; read in place if its classes are adjacent and its
            other dimensions can be merged into one, else copied first.
        target: (…), int64.
        temperature: From 1e-30 to 1e30.

    Raises:
        RuntimeError: the target has a wrong dtype or device, or the logits no floating dtype.
        TypeError: an argument has a wrong type.
        ValueError: shapes differ, or the temperature is out of range.
    """
    if type(temperature) is float:
        plan = NUMBERS.recall((logits, target), (temperature,))
        if plan is not None and plan.direct:
            return run(plan, logits, target)  # type: ignore[no-any-return]
    for name, value in (("logits", logits), ("target", target)):
        if not isinstance(value, torch.Tensor):
            given = type(value).__name__
            raise TypeError(f"logprob_entropy(): argument '{name}' must be Tensor, not {given}")
    temperature = number("temperature", temperature)
    if logits.dim() == 0 or target.shape != logits.shape[:-1]:
        raise ValueError(
            f"logprob_entropy(): of logits (…, N) there is a target (…) for each row, "
            f"not {tuple(target.shape)} of {tuple(logits.shape)}"
        )
    if not logits.is_floating_point() or target.dtype is not torch.int64:
        raise RuntimeError(
            "logprob_entropy(): logits are of a floating dtype and targets int64, "
            f"not {logits.dtype} and {target.dtype}"
        )
    if target.device != logits.device:
        raise RuntimeError(
            f"logprob_entropy(): targets are on {target.device}, logits on {logits.device}"
        )
    plain = torch.compiler.is_compiling() or not (watched(logits) or type(target) not in PLAIN)
    if not plain or 0 in logits.shape or logits.dtype not in DTYPES or not runs_on(logits):
        logprob, entropy, _ = numbers_by_torch(logits, target, temperature)
        return logprob, entropy
    logprob, entropy = row_numbers(temperature, logits, target)
    return logprob.view(target.shape), entropy.view(target.shape)


def _observed(input: Any, target: Any, weight: Any, *settings: Any) -> torch.Tensor:
    """The loss in all cases in which `watched` is true."""
    if (
        torch.compiler.is_compiling()
        and runs_on(input)
        and not (weight is not None and weight.requires_grad)
        and _takes(input, target, weight, settings)
    ):
        rows = _arranged(*((input, target) if weight is None else (input, target, weight)))
        loss: torch.Tensor = loss_operator(*_three(rows), *settings)[0]
        return loss.view(target.shape) if settings[1] == "none" else loss
    return by_torch(input, target, weight, *settings)


# --- arguments ---


def _dtype_of_loss(input: torch.Tensor, wanted: torch.dtype | None) -> torch.dtype:
    if not isinstance(input, torch.Tensor):
        name = type(input).__name__
        raise TypeError(f"cross_entropy(): argument 'input' must be Tensor, not {name}")
    if wanted is not None:
        if wanted not in DTYPES:
            names = ", ".join(str(dtype).removeprefix("torch.") for dtype in DTYPES)
            raise TypeError(f"cross_entropy(): argument 'dtype' must be {names}, not {wanted!r}")
        return wanted
    small = input.dtype in SMALL and torch.is_autocast_enabled(input.device.type)
    return torch.float32 if small else input.dtype


def _exact(settings: tuple[Any, ...]) -> tuple[Any, ...]:
    """The settings in the types of `EXACT`; errors are PyTorch's own for its own options."""
    ignored, reduction, smoothing, *numbers, dtype = settings
    if not (
        (type(ignored), type(reduction)) == (int, str)
        and (type(smoothing) is float or (type(smoothing) is int and smoothing in (0, 1)))
    ):
        F.cross_entropy(
            *(torch.zeros(1, 1, device="cpu"), torch.zeros(1, dtype=torch.int64, device="cpu")),
            ignore_index=ignored,
            reduction=reduction,
            label_smoothing=smoothing,
        )
    _check_options(*numbers)
    z_loss, softcap, temperature = map(float, numbers)
    return Settings(int(ignored), reduction, float(smoothing), z_loss, softcap, temperature, dtype)


def _check_options(z_loss: float, softcap: float, temperature: float) -> None:
    """Checks the options that PyTorch does not have."""
    number("z_loss", z_loss, -MOST)
    number("softcap", softcap, zero=True)
    number("temperature", temperature)


def _takes(input: Any, target: Any, weight: Any, settings: tuple[Any, ...]) -> bool:
    """Whether kernels compute this loss, whatever the strides of the tensors."""
    _, reduction, label_smoothing, *options, dtype = settings
    z_loss, softcap, temperature = options
    _check_options(z_loss, softcap, temperature)
    shape = tuple(input.shape)
    return (
        reduction in ("none", "mean", "sum")
        and 0 <= label_smoothing <= 1
        and input.dtype in DTYPES
        and dtype in (input.dtype, torch.promote_types(input.dtype, torch.float32))
        and target.dtype is torch.int64
        and target.device == input.device
        and len(shape) > 0
        and 0 not in shape
        and tuple(target.shape) == (shape[:1] + shape[2:] if len(shape) > 1 else ())
        and (
            weight is None
            or (
                tuple(weight.shape) == shape[min(len(shape) - 1, 1) :][:1]
                and not weight.dtype.is_complex
                and weight.device == input.device
                and not (z_loss and reduction == "mean")
            )
        )
    )


def _arranged(input: torch.Tensor, target: torch.Tensor, *weight: torch.Tensor) -> Tensors:
    """Logits as rows of adjacent classes, their targets, and weights in the form of the kernels."""
    logits = input.unsqueeze(0) if input.dim() == 1 else input
    if logits.dim() > 2:
        logits = logits.movedim(1, -1).reshape(-1, input.shape[1])
    if logits.stride(1) != 1 and logits.shape[1] > 1:
        logits = logits.contiguous()
    wide = torch.promote_types(input.dtype, torch.float32)
    return logits, target.reshape(-1).contiguous(), *(w.to(wide).contiguous() for w in weight)


def _three(tensors: Tensors) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Logits, targets, and weights or None."""
    return tensors[0], tensors[1], tensors[2] if len(tensors) > 2 else None


# --- by PyTorch's operations ---


def by_torch(
    input: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    ignore_index: int,
    reduction: str,
    label_smoothing: float,
    z_loss: float,
    softcap: float,
    temperature: float,
    dtype: torch.dtype,
) -> torch.Tensor:
    """The loss by PyTorch's operations, for any input that they accept."""
    _check_options(z_loss, softcap, temperature)
    # PyTorch refuses anything that is no logits
    z = _capped(input, softcap, temperature) if input.is_floating_point() else input
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


def _capped(logits: torch.Tensor, softcap: float, temperature: float) -> torch.Tensor:
    z = logits.to(torch.promote_types(logits.dtype, torch.float32))
    if softcap:
        z = softcap * torch.tanh(z / softcap)
    return z if temperature == 1 else z / temperature


# --- by kernels ---


class _Loss(Plan):
    """The loss and gradient of logits of one layout.

    The forward pass keeps the logsumexp of each row, (M,); under "mean" followed by the common
    factor of all gradients, (M + 1,).

    Attributes:
        apart: Whether no two rows overlap.
        fused: Whether one number scales the gradients of all rows, and is known before the backward
            pass. A float16 gradient would be rounded twice.
    """

    def __init__(self, logits: torch.Tensor, settings: Settings) -> None:
        self.losses = by_kernels.Options(
            ignore_index=settings.ignore_index,
            label_smoothing=settings.label_smoothing,
            softcap=settings.softcap,
            temperature=settings.temperature,
            z_loss=settings.z_loss,
        )
        rows, index = len(logits), logits.get_device()
        none, self.mean = settings.reduction == "none", settings.reduction == "mean"
        wide = torch.promote_types(logits.dtype, torch.float32)
        self.dtype, self.apart = settings.dtype, logits.stride(0) >= logits.shape[1] or rows == 1
        self.fused = not none and logits.dtype is not torch.float16

        # the answer, what is kept, and what is reduced to the answer
        loss: Layout = ((rows,), (1,), self.dtype)
        losses: Layout | None = None
        if not none:
            loss, losses = ((), (), self.dtype), ((rows,), (1,), wide)
        kept = (rows + self.mean,), (1,), wide
        super().__init__(
            LOSS,
            settings,
            Repeatable(self._launch_forward, index, loss, kept, losses),
            self._gradient,
            alone=Repeatable(self._launch_forward, index, loss, None, losses),
        )
        self.both = Repeatable(self._launch_both, index, loss, kept, losses, ((1,), (1,), wide))
        self._multiply = Repeatable(multiply, index)
        # apart for a gradient of the loss for all rows, and for one for each row
        dlogits = padded_like(logits)
        self._backward = [Repeatable(self._launch_backward, index, dlogits) for _ in range(2)]
        self._over = [Repeatable(self._launch_over, index) for _ in range(2)]

    def _gradient(self, *saved_and_grad: Any) -> torch.Tensor:
        *saved, dloss = saved_and_grad
        each, dloss = self._of_rows(dloss)
        dlogits: torch.Tensor = self._backward[each](*saved, dloss)[0]
        return dlogits

    def overwrite(self, logits: torch.Tensor, *rest: Any) -> None:
        """Writes over the logits their gradient, or what follows from the gradient there."""
        *saved, dloss = rest
        each, dloss = self._of_rows(dloss)
        if saved:
            self._over[each](logits, *saved, dloss)
        else:
            self._multiply(logits, dloss)

    def _of_rows(self, dloss: torch.Tensor) -> tuple[bool, torch.Tensor]:
        """Whether each row has its own incoming gradient; and these, or the one number for all."""
        if dloss.dtype is not self.dtype:
            dloss = dloss.to(self.dtype)
        if dloss.dim() > 0 and dloss.stride(0) != 0:
            return True, aligned(dloss)
        if dloss.data_ptr() % ALIGNMENT:
            dloss = dloss.as_strided((1,), (0,)).clone()
        return False, dloss

    def _launch_forward(self, logits: Any, target: Any, *rest: Any) -> None:
        *weights, loss, kept, losses = rest
        (weight,) = weights or (None,)
        each = loss if losses is None else losses
        auto.run(logits, self.losses, target=target, weight=weight, loss=each, lse=kept)
        self._reduce(losses, target, weight, loss, kept)

    def _launch_both(self, logits: Any, target: Any, *rest: Any) -> None:
        *weights, loss, kept, losses, scale = rest
        (weight,) = weights or (None,)
        if self.mean:
            by_kernels.scale_of_mean(target, self.losses, weight, scale=scale)
        given = {"target": target, "weight": weight, "dloss": scale if self.mean else None}
        auto.run(logits, self.losses, **given, loss=losses, lse=kept, dlogits=logits)
        self._reduce(losses, target, weight, loss, None)

    def _reduce(self, losses: Any, target: Any, weight: Any, out: Any, kept: Any) -> None:
        if losses is not None:
            by_kernels.reduce_losses(
                losses, target, self.losses, weight, self.mean, out=out, kept=kept
            )

    def _launch_backward(
        self, logits: Any, target: Any, weight: Any, kept: Any, dloss: Any, dlogits: Any
    ) -> None:
        by_kernels.backward(
            logits, target, kept, dloss, self.losses, weight, dlogits=dlogits, mean=self.mean
        )

    def _launch_over(self, *given: Any) -> None:
        self._launch_backward(*given, given[0])  # type: ignore[call-arg]


# --- the operation ---


def _both_by_torch(input: Any, target: Any, weight: Any, *settings: Any) -> Pair:
    kept = _capped(input.detach(), *settings[4:6]).logsumexp(-1)
    if settings[1] == "mean":
        kept = F.pad(kept, (0, 1), value=float("nan"))  # not read by PyTorch's gradient
    return by_torch(input, target, weight, *settings), kept


def _fake(logits: torch.Tensor, target: Any, weight: Any, *settings: Any) -> Pair:
    rows, _ = logits.shape
    wide = torch.promote_types(logits.dtype, torch.float32)
    loss = logits.new_empty(rows if settings[1] == "none" else (), dtype=settings[-1])
    return loss, logits.new_empty(rows + int(settings[1] == "mean"), dtype=wide)


def _gradient_kernel(
    logits: Any, target: Any, weight: Any, kept: Any, dloss: Any, *settings: Any
) -> torch.Tensor:
    tensors = (logits, target) if weight is None else (logits, target, weight)
    plan = LOSS.plan(tensors, settings) if runs_on(logits) else None
    if plan is None:
        return _gradient_by_torch(logits, target, weight, kept, dloss, *settings)
    return plan.gradient(*_three(_arranged(*tensors)), kept, dloss)


def _gradient_by_torch(
    logits: Any, target: Any, weight: Any, kept: Any, dloss: Any, *settings: Any
) -> torch.Tensor:
    def loss(x: torch.Tensor) -> tuple[torch.Tensor]:
        return (by_torch(x, target, weight, *settings),)

    return gradient_of(loss, logits, [dloss])


_SETTINGS = (
    "int ignore_index, str reduction, float label_smoothing, float z_loss, float softcap, "
    "float temperature, ScalarType dtype"
)
gradient_operator = define(
    "cross_entropy_backward(Tensor logits, Tensor target, Tensor? weight, Tensor kept, "
    f"Tensor dloss, {_SETTINGS}) -> Tensor",
    *(_gradient_kernel, lambda logits, *_: like_rows(logits), _gradient_by_torch),
)


def _plan_of(*arguments: Any) -> _Loss | None:
    count = len(arguments) - len(Settings._fields)
    tensors, settings = arguments[:count], Settings(*arguments[count:])
    if not _takes(*_three(tensors), settings):
        return None
    rows = _arranged(*tensors)
    plan = _Loss(rows[0], settings)
    plan.direct = same_layouts(rows, tensors)
    return plan


LOSS: RowOp[_Loss] = RowOp(
    schema=f"cross_entropy(Tensor logits, Tensor target, Tensor? weight, {_SETTINGS}) "
    "-> (Tensor, Tensor)",
    plan_of=_plan_of,
    fake=_fake,
    by_torch=_both_by_torch,
    saved=lambda tensors, answers: (*_three(tensors), answers[1]),
    gradient=gradient_operator,
    gradient_by_torch=_gradient_by_torch,
    arranged=_arranged,
)
loss_operator = LOSS.operator


# --- in place ---


class _Overwriting(Function):
    """The loss, whose gradient takes the memory of the logits."""

    @staticmethod
    def forward(ctx: Any, plan: _Loss, *tensors: torch.Tensor) -> torch.Tensor:
        logits, *rest = tensors
        # the same memory as a second storage; the storage of the logits can then refuse reads
        taken = dlpack.from_dlpack(torch._C._to_dlpack(logits.detach()))
        if plan.fused:
            loss: torch.Tensor = plan.both(taken, *rest)[0]
            ctx.save_for_backward(taken)
        else:
            loss, kept, *_ = plan.call(taken, *rest)
            ctx.save_for_backward(*_three((taken, *rest)), kept)
        assert _overwritten is not None
        _overwritten(logits.untyped_storage()._cdata, OVERWRITTEN)
        ctx.plan, ctx.taken, ctx.rest = plan, False, (None,) * len(rest)
        return loss

    @staticmethod
    def backward(ctx: Any, dloss: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        batched = torch._C._functorch.is_legacy_batchedtensor(dloss)  # by autograd's own vmap
        if ctx.taken or torch.is_grad_enabled() or transformed() or batched:
            raise RuntimeError(TWICE)
        gradient, *rest = ctx.saved_tensors
        ctx.taken, dloss = True, dloss.resolve_neg()
        ctx.plan.overwrite(gradient, *rest, dloss)
        return None, gradient, *ctx.rest


_overwriting: Callable[..., torch.Tensor] = super(
    Function, _Overwriting
).apply  # see `kernels.calls`
