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
from functools import lru_cache
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch.autograd import Function, forward_ad
from torch.compiler import is_dynamo_compiling
from torch.utils import dlpack

from ..calls import (
    DTYPES,
    KEPT,
    LEAST,
    MOST,
    PLAIN,
    below_autograd,
    define,
    gradient_of,
    like_rows,
    plain_gradient,
    runs_on,
    transformed,
    watched,
)
from ..log_softmax.functions import numbers_by_torch, numbers_operator, row_numbers
from ..repeat import ALIGNMENT, Repeatable, aligned, alike, allocator
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
# ignore_index, reduction, label_smoothing, z_loss, softcap, temperature, dtype of the loss
Settings = tuple[int, str, float, float, float, float, torch.dtype]
_overwritten: Callable[[int, str], None] | None = getattr(
    torch._C, "_set_storage_data_ptr_access_error_msg", None
)


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
    options = z_loss, softcap, temperature
    call = None
    if not inplace and not is_dynamo_compiling() and type(input) in PLAIN:
        try:
            given, differentiated = input.dtype, input.requires_grad and torch.is_grad_enabled()
            if given in SMALL and torch.is_autocast_enabled("cuda" if input.is_cuda else "cpu"):
                given = torch.float32
            # types, for as keys True, 1 and 1.0 are one
            call = (
                *(input.shape, given, dtype, differentiated, weight is None, reduction),
                *(ignore_index, label_smoothing, z_loss, softcap, temperature),
                *(type(ignore_index), type(label_smoothing), type(z_loss), type(softcap)),
                type(temperature),
            )
            recent = _RECENT.get(call)
        except (RuntimeError, TypeError):  # nested tensors have no shape, lists no hash
            call = recent = None
        if (
            recent is not None
            and forward_ad._current_level < 0
            and (recent[0](input, target) if weight is None else recent[0](input, target, weight))
        ):
            if differentiated:
                return _differentiable(input, target, weight, recent[1])
            return recent[1].alone(input, target, weight)
    dtype = _dtype_of_loss(input, dtype)
    if (
        watched(input)
        or type(target) not in PLAIN
        or (weight is not None and (type(weight) not in PLAIN or weight.requires_grad))
    ):
        return _observed(
            input, target, weight, ignore_index, reduction, label_smoothing, *options, dtype
        )
    settings = ignore_index, reduction, label_smoothing, *options, dtype
    plan = _plan_of(input, target, weight, settings)
    training = input.requires_grad and torch.is_grad_enabled()
    if training and inplace:
        base = input if input._base is None else input._base
        if input.is_leaf or (base.is_leaf and base.requires_grad):
            raise RuntimeError(LEAF)
    if plan is None:
        return by_torch(input, target, weight, *settings)
    if plan is False:
        loss = cross_entropy(
            *_rearranged(input, target, weight),
            ignore_index,
            reduction,
            label_smoothing,
            z_loss=z_loss,
            softcap=softcap,
            temperature=temperature,
            dtype=dtype,
            inplace=inplace and training,
        )
        return loss.view(target.shape) if reduction == "none" else loss
    if call is not None:
        if len(_RECENT) >= KEPT:
            _RECENT.clear()
        tensors = (input, target) if weight is None else (input, target, weight)
        _RECENT[call] = alike(*tensors), plan
    if not training:
        return plan.alone(input, target, weight)
    if inplace and plan.apart and _overwritten is not None:
        return _overwriting(input, target, weight, plan)
    return _differentiable(input, target, weight, plan)


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
    for name, value in (("logits", logits), ("target", target)):
        if not isinstance(value, torch.Tensor):
            given = type(value).__name__
            raise TypeError(f"logprob_entropy(): argument '{name}' must be Tensor, not {given}")
    _option("temperature", temperature, LEAST, MOST, False)
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
    compiled = torch.compiler.is_compiling()
    kernels = compiled or not (watched(logits) or type(target) not in PLAIN)
    if not kernels or 0 in logits.shape or logits.dtype not in DTYPES or not runs_on(logits):
        logprob, entropy, _ = numbers_by_torch(logits, target, temperature)
        return logprob, entropy
    rows = logits.reshape(-1, logits.shape[-1])
    if rows.stride(1) != 1 and rows.shape[1] > 1:
        rows = rows.contiguous()
    compute = numbers_operator if compiled else row_numbers
    logprob, entropy, *_ = compute(rows, target.reshape(-1).contiguous(), float(temperature))
    return logprob.view(target.shape), entropy.view(target.shape)


def _observed(
    input: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None, *settings: Any
) -> torch.Tensor:
    """The loss in all cases in which `watched` is true."""
    if (
        torch.compiler.is_compiling()
        and runs_on(input)
        and not (weight is not None and weight.requires_grad)
        and _takes(input, target, weight, settings)
    ):
        logits, rows_target, rows_weight = _rearranged(input, target, weight)
        loss: torch.Tensor = loss_operator(logits, rows_target, rows_weight, *settings)[0]
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


def _option(name: str, value: Any, least: float, most: float, none: bool) -> None:
    # where a call is compiled the value may be symbolic, and no text can be made of it
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(_must_be(name, value, least, most, none))
    if not (least <= value <= most or (none and value == 0)):
        raise ValueError(_must_be(name, value, least, most, none))


def _must_be(name: str, value: Any, least: float, most: float, none: bool) -> str:
    wanted = f"{'0 for none, or ' if none else ''}a number from {least:g} to {most:g}"
    return f"{name} must be {wanted}, not {value!r}"


def _check_options(z_loss: float, softcap: float, temperature: float) -> None:
    """Checks the options that PyTorch does not have."""
    _option("z_loss", z_loss, -MOST, MOST, False)
    _option("softcap", softcap, LEAST, MOST, True)
    _option("temperature", temperature, LEAST, MOST, False)


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


def _rearranged(
    input: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Logits as rows of adjacent classes, their targets, and weights in the form of the kernels."""
    logits = input.unsqueeze(0) if input.dim() == 1 else input
    if logits.dim() > 2:
        logits = logits.movedim(1, -1).reshape(-1, input.shape[1])
    if logits.stride(1) != 1 and logits.shape[1] > 1:
        logits = logits.contiguous()
    wide = torch.promote_types(input.dtype, torch.float32)
    if weight is not None:
        weight = weight.to(wide).contiguous()
    return logits, target.reshape(-1).contiguous(), weight


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


class Plan:
    """Computes losses and gradients for logits of one layout.

    The forward pass keeps the logsumexp of each row, (M,); under "mean" followed by the common
    factor of all gradients, (M + 1,).

    Args:
        logits: Logits of this layout, (M, N), without data.
        index: The CUDA device's index; −1 on a CPU.
        settings: The options of the loss.

    Attributes:
        alike: The test that `alike` made from an incoming gradient that the kernels took, or None.
    """

    def __init__(self, logits: torch.Tensor, index: int, *settings: Any) -> None:
        self.settings = settings
        ignore_index, self.reduction, label_smoothing, *options, self.dtype = settings
        z_loss, softcap, temperature = (float(option) for option in options)
        self.options = by_kernels.Options(
            ignore_index=ignore_index,
            label_smoothing=float(label_smoothing),
            softcap=softcap,
            temperature=temperature,
            z_loss=z_loss,
        )
        rows, (stride, _) = len(logits), logits.stride()
        none, self.mean = self.reduction == "none", self.reduction == "mean"
        self.wide = torch.promote_types(logits.dtype, torch.float32)
        self.apart = stride >= logits.shape[1] or rows == 1  # no two rows overlap
        # one number scales all rows, and is known before the backward pass unless rounded twice
        self.fused = not none and logits.dtype is not torch.float16
        self.alike: Callable[..., bool | None] = lambda _: None
        self._empty = allocator(index)
        # layouts of the rows' losses, their sum or mean, the tensor kept, and the gradient
        self._losses = (rows,), (1,), self.dtype if none else self.wide
        self._reduced = None if none else ((), (), self.dtype)
        self._kept = (rows + self.mean,), (1,), self.wide
        gradient = like_rows(logits)
        self._gradient = tuple(gradient.shape), gradient.stride(), gradient.dtype
        self._alone = Repeatable(self._launch_forward, index)  # keeps nothing
        self._forward = Repeatable(self._launch_forward, index)
        self._both = Repeatable(self._launch_both, index)
        self._multiply = Repeatable(multiply, index)
        # apart for a gradient of the loss for all rows, and for one for each row
        self._backward = [Repeatable(self._launch_backward, index) for _ in range(2)]
        self._over = [Repeatable(self._launch_over, index) for _ in range(2)]

    def alone(
        self, logits: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None
    ) -> torch.Tensor:
        """The loss without a gradient."""
        losses = self._empty(*self._losses)
        out = None if self._reduced is None else self._empty(*self._reduced)
        self._alone(logits, target, weight, losses, None, out)
        return losses if out is None else out

    def loss(self, logits: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None) -> Pair:
        """The loss, and the tensor kept for the gradient."""
        losses, kept = self._empty(*self._losses), self._empty(*self._kept)
        out = None if self._reduced is None else self._empty(*self._reduced)
        self._forward(logits, target, weight, losses, kept, out)
        return losses if out is None else out, kept

    def loss_and_gradient(
        self, logits: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None
    ) -> torch.Tensor:
        """The loss; writes its gradient over the logits. Only if `fused`."""
        assert self._reduced is not None
        losses, out = self._empty(*self._losses), self._empty(*self._reduced)
        kept, scale = self._empty(*self._kept), self._empty((1,), (1,), self.wide)
        self._both(logits, target, weight, losses, kept, scale, out)
        return out

    def gradient(
        self,
        logits: torch.Tensor,
        target: torch.Tensor,
        weight: torch.Tensor | None,
        kept: torch.Tensor,
        dloss: torch.Tensor,
        over: bool = False,
    ) -> torch.Tensor:
        """The gradient of the logits, in place or in new memory."""
        each, dloss = self._of_rows(dloss)
        if over:
            self._over[each](logits, target, weight, kept, dloss)
            return logits
        dlogits = self._empty(*self._gradient)
        self._backward[each](logits, target, weight, kept, dloss, dlogits)
        return dlogits

    def multiply(self, gradient: torch.Tensor, dloss: torch.Tensor) -> None:
        """Multiplies a gradient in place by the gradient of the loss, one number."""
        self._multiply(gradient, self._of_rows(dloss)[1])

    def _of_rows(self, dloss: torch.Tensor) -> tuple[bool, torch.Tensor]:
        """Whether each row has its own incoming gradient; and these, or the one number for all."""
        if dloss.dtype is not self.dtype:
            dloss = dloss.to(self.dtype)
        if dloss.dim() > 0 and dloss.stride(0) != 0:
            return True, aligned(dloss)
        if dloss.data_ptr() % ALIGNMENT:
            dloss = dloss.as_strided((1,), (0,)).clone()
        return False, dloss

    def _launch_forward(self, logits: Any, target: Any, weight: Any, *outputs: Any) -> None:
        losses, kept, out = outputs
        given = {"target": target, "weight": weight, "loss": losses, "lse": kept}
        auto.run(logits, self.options, **given)
        self._reduce(losses, target, weight, out, kept)

    def _launch_both(self, logits: Any, target: Any, weight: Any, *outputs: Any) -> None:
        losses, kept, scale, out = outputs
        if self.mean:
            by_kernels.scale_of_mean(target, self.options, weight, scale=scale)
        given = {"target": target, "weight": weight, "dloss": scale if self.mean else None}
        auto.run(logits, self.options, **given, loss=losses, lse=kept, dlogits=logits)
        self._reduce(losses, target, weight, out, None)

    def _reduce(self, losses: Any, target: Any, weight: Any, out: Any, kept: Any) -> None:
        if out is not None:
            by_kernels.reduce_losses(
                losses, target, self.options, weight, self.mean, out=out, kept=kept
            )

    def _launch_backward(
        self, logits: Any, target: Any, weight: Any, kept: Any, dloss: Any, dlogits: Any
    ) -> None:
        by_kernels.backward(
            logits, target, kept, dloss, self.options, weight, dlogits=dlogits, mean=self.mean
        )

    def _launch_over(self, logits: Any, target: Any, weight: Any, kept: Any, dloss: Any) -> None:
        self._launch_backward(logits, target, weight, kept, dloss, logits)


# Recent calls, by the facts that are cheapest to read; `alike` compares the rest
_RECENT: dict[tuple[Any, ...], tuple[Callable[..., bool | None], Plan]] = {}


def _plan_of(
    input: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None, settings: Any
) -> Plan | Literal[False] | None:
    """The plan; None if PyTorch computes the loss, False if tensors must be rearranged first."""
    return _plan(
        *(input.shape, input.stride(), input.dtype, input.get_device()),
        *(target.shape, target.stride(), target.dtype, target.get_device()),
        None
        if weight is None
        else (weight.shape, weight.stride(), weight.dtype, weight.get_device()),
        *settings,
    )


@lru_cache(maxsize=KEPT, typed=True)
def _plan(
    shape: Any, strides: Any, dtype: Any, index: int, target_shape: Any, target_strides: Any,
    target_dtype: Any, target_index: int, weight_layout: Any, *settings: Any,
) -> Plan | Literal[False] | None:  # fmt: skip
    def meta(shape: Any, strides: Any, dtype: Any, place: int) -> torch.Tensor:
        device = "meta" if place == index else "cpu"
        return torch.empty_strided(shape, strides, dtype=dtype, device=device)

    ignore_index, reduction, label_smoothing, *_ = settings
    F.cross_entropy(  # PyTorch's own errors for its own options
        *(torch.zeros(1, 1, device="cpu"), torch.zeros(1, dtype=torch.int64, device="cpu")),
        ignore_index=ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )
    input = meta(shape, strides, dtype, index)
    target = meta(target_shape, target_strides, target_dtype, target_index)
    weight = None if weight_layout is None else meta(*weight_layout)
    if not _takes(input, target, weight, settings):
        return None
    same = all(
        a is b
        or (b is not None and (a.shape, a.stride(), a.dtype) == (b.shape, b.stride(), b.dtype))
        for a, b in zip((input, target, weight), _rearranged(input, target, weight), strict=True)
        if a is not None
    )
    return Plan(input, index, *settings) if same else False


# --- the operators, for torch.compile and torch.export ---

_SETTINGS = (
    "int ignore_index, str reduction, float label_smoothing, float z_loss, float softcap, "
    "float temperature, ScalarType dtype"
)


def _loss_kernel(
    logits: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None, *settings: Any
) -> Pair:
    logits, target, weight = _rearranged(logits, target, weight)
    plan = _plan_of(logits, target, weight, settings) if runs_on(logits) else None
    return (
        plan.loss(logits, target, weight)
        if plan
        else _both_by_torch(logits, target, weight, *settings)
    )


def _both_by_torch(
    logits: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None, *settings: Any
) -> Pair:
    kept = _capped(logits.detach(), *settings[4:6]).logsumexp(-1)
    if settings[1] == "mean":
        kept = F.pad(kept, (0, 1), value=float("nan"))  # not read by PyTorch's gradient
    return by_torch(logits, target, weight, *settings), kept


def _loss_fake(
    logits: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None, *settings: Any
) -> Pair:
    rows, _ = logits.shape
    wide = torch.promote_types(logits.dtype, torch.float32)
    loss = logits.new_empty(rows if settings[1] == "none" else (), dtype=settings[-1])
    return loss, logits.new_empty(rows + int(settings[1] == "mean"), dtype=wide)


def _gradient_kernel(
    logits: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    kept: torch.Tensor,
    dloss: torch.Tensor,
    *settings: Any,
) -> torch.Tensor:
    rows = _rearranged(logits, target, weight)
    plan = _plan_of(*rows, settings) if runs_on(logits) else None
    if plan:
        return plan.gradient(*rows, kept, dloss)
    return _gradient_by_torch(*rows, kept, dloss, *settings)


def _gradient_by_torch(
    logits: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    kept: torch.Tensor,
    dloss: torch.Tensor,
    *settings: Any,
) -> torch.Tensor:
    def loss(x: torch.Tensor) -> tuple[torch.Tensor]:
        return (by_torch(x, target, weight, *settings),)

    return gradient_of(loss, logits, [dloss])


def _gradient_fake(logits: torch.Tensor, *_: Any) -> torch.Tensor:
    return like_rows(logits)


loss_operator = define(
    f"cross_entropy(Tensor logits, Tensor target, Tensor? weight, {_SETTINGS}) -> (Tensor, Tensor)",
    *(_loss_kernel, _loss_fake, _both_by_torch),
    differentiable=lambda *arguments: _differentiable(*arguments[:3], arguments[3:]),
)
gradient_operator = define(
    "cross_entropy_backward(Tensor logits, Tensor target, Tensor? weight, Tensor kept, "
    f"Tensor dloss, {_SETTINGS}) -> Tensor",
    *(_gradient_kernel, _gradient_fake, _gradient_by_torch),
)


# --- reverse-mode differentiation ---


class _Loss(Function):
    """The loss and its gradient by kernels; by the operators if there are only settings."""

    @staticmethod
    def forward(
        ctx: Any,
        logits: torch.Tensor,
        target: torch.Tensor,
        weight: torch.Tensor | None,
        how: Plan | Settings,
    ) -> torch.Tensor | Pair:
        ctx.how = how
        if isinstance(how, Plan):
            loss, kept = how.loss(logits, target, weight)
            ctx.save_for_backward(logits, target, weight, kept)
            return loss
        loss, kept = below_autograd(loss_operator, logits, target, weight, *how)
        ctx.mark_non_differentiable(kept)
        ctx.save_for_backward(logits, target, weight, kept)
        return loss, kept

    @staticmethod
    def backward(ctx: Any, dloss: torch.Tensor, *_: Any) -> tuple[torch.Tensor | None, ...]:
        how, (logits, target, weight, kept) = ctx.how, ctx.saved_tensors
        plan = how if isinstance(how, Plan) else None
        if plan is None or torch.compiler.is_compiling():
            settings = how if plan is None else plan.settings
            dx = gradient_operator(logits, target, weight, kept, dloss, *settings)
            return dx, None, None, None
        # where gradients are enabled, this one is to be differentiated in its turn
        if torch.is_grad_enabled() or forward_ad._current_level >= 0 or not plan.alike(dloss):
            if not plain_gradient(dloss):
                dx = _gradient_by_torch(logits, target, weight, kept, dloss, *plan.settings)
                return dx, None, None, None
            plan.alike = alike(dloss)
        return plan.gradient(logits, target, weight, kept, dloss), None, None, None


class _Overwriting(Function):
    """The loss, whose gradient takes the memory of the logits."""

    @staticmethod
    def forward(
        ctx: Any,
        logits: torch.Tensor,
        target: torch.Tensor,
        weight: torch.Tensor | None,
        plan: Plan,
    ) -> torch.Tensor:
        # the same memory as a second storage; the storage of the logits can then refuse reads
        taken = dlpack.from_dlpack(torch._C._to_dlpack(logits.detach()))
        if plan.fused:
            loss = plan.loss_and_gradient(taken, target, weight)
            ctx.save_for_backward(taken)
        else:
            loss, kept = plan.loss(taken, target, weight)
            ctx.save_for_backward(taken, target, weight, kept)
        assert _overwritten is not None
        _overwritten(logits.untyped_storage()._cdata, OVERWRITTEN)
        ctx.plan, ctx.taken = plan, False
        return loss

    @staticmethod
    def backward(ctx: Any, dloss: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        batched = torch._C._functorch.is_legacy_batchedtensor(dloss)  # by autograd's own vmap
        if ctx.taken or torch.is_grad_enabled() or transformed() or batched:
            raise RuntimeError(TWICE)
        gradient, *rest = ctx.saved_tensors
        ctx.taken, dloss = True, dloss.resolve_neg()
        if ctx.plan.fused:
            ctx.plan.multiply(gradient, dloss)
        else:
            ctx.plan.gradient(gradient, *rest, dloss, over=True)
        return gradient, None, None, None


# Past PyTorch's own layers in Python: one looks for functorch's wrappers, 2 µs, which `watched` has
# ruled out, the other for the function that computes the gradient, which is known
_differentiable: Callable[..., torch.Tensor] = super(Function, _Loss).apply
_overwriting: Callable[..., torch.Tensor] = super(Function, _Overwriting).apply
_Loss._backward_cls.apply = _Loss.backward  # type: ignore[attr-defined]
