"""Gradients that overwrite the logits: ``inplace=True`` of a loss.

Overwritten logits must not be read again. PyTorch guards their memory, not one tensor: any tensor
that shares it (a view, its base, a tensor saved by autograd) raises an error that names the loss.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import torch
from torch.autograd import Function
from torch.utils import dlpack

from .calls import MOST_PLANS, CallPlan, RowOp, transformed, watched
from .device import device_of
from .language import jit, tl
from .launch import launch
from .repeat import repeatable

OVERWRITTEN = (
    "these logits were overwritten by {}(..., inplace=True): neither they nor what shares their "
    "memory can be used again; inplace=False leaves them"
)
TWICE = (
    "the gradient of {}(..., inplace=True) can be taken once, and not be differentiated in its "
    "turn: its buffer was the logits'; inplace=False allows both"
)
LEAF = (
    "{}(..., inplace=True) would overwrite a leaf tensor that requires grad, or a view of one; it "
    "takes logits that an operation computed"
)
PROGRAMS_PER_SM, TILE = 8, 4096  # of `multiply`; elements

_guard: Callable[[int, str], None] | None = getattr(
    torch._C, "_set_storage_data_ptr_access_error_msg", None
)


def in_place(
    name: str,
    op: RowOp,
    tensors: tuple[Any, ...],
    options: tuple[Any, ...],
    both: Callable[..., None] | None,
    finish: Callable[[torch.Tensor], torch.Tensor] | None = None,
) -> torch.Tensor:
    """A loss whose gradient, if one is needed, overwrites the first of its tensors, the logits.

    Args:
        name: The public function, for messages.
        op: Computes the loss.
        tensors: As `RowOp.run` takes them.
        options: Likewise.
        both: If one number scales the gradients of all rows: launches the loss, and the gradient of
            an incoming gradient of 1 over the logits, from a plan, its rows and memory for the
            loss. The backward pass then multiplies by that number. Else, and for float16, which
            would be rounded twice, it computes the gradient.
        finish: Reduces what ``both`` wrote, (M,).

    Returns:
        The loss, by `RowOp.run` where nothing may be overwritten.

    Raises:
        RuntimeError: the logits are a leaf, or a view of one.
    """
    logits, plan = tensors[0], None
    needed = isinstance(logits, torch.Tensor) and logits.requires_grad and torch.is_grad_enabled()
    if needed and not watched(logits):
        base = logits if logits._base is None else logits._base
        if logits.is_leaf or (base.is_leaf and base.requires_grad):
            raise RuntimeError(LEAF.format(name))
        plan = None if _guard is None else op.plan(tensors, options)
    if plan is not None:
        logits, *rest = tensors if plan.direct else op.rows(tensors, options)
        memory = logits.untyped_storage()._cdata
        overlap = logits.stride(0) < logits.shape[1] and len(logits) > 1
        if overlap or any(each.untyped_storage()._cdata == memory for each in rest):
            plan = None
    if plan is None:
        return op.run(tensors, options)  # type: ignore[no-any-return]
    both = None if logits.dtype is torch.float16 else both
    loss: torch.Tensor = _overwriting(name, plan, both, finish, logits, *rest)
    return loss if plan.shape is None or loss.dim() == 0 else loss.view(plan.shape)


@lru_cache(maxsize=MOST_PLANS)
def _steps(
    plan: CallPlan, both: Any, index: int, shape: torch.Size, dtype: torch.dtype
) -> tuple[Callable[..., Any], ...]:
    """What the forward pass and the backward pass launch, repeatable."""
    op = plan.op
    if both is not None:
        rows = op._padded([torch.empty(shape, dtype=dtype, device="meta")])
        answer = op.answers(*rows, *plan.options)[0]
        return repeatable(partial(both, plan), index, answer), repeatable(multiply, index)

    def gradient(*given: Any) -> None:
        op.gradient.work(*given, *plan.options)(*given, given[0])  # type: ignore[union-attr]

    return plan.call, repeatable(gradient, index)


class _Overwriting(Function):
    @staticmethod
    def forward(ctx: Any, name: str, plan: CallPlan, both: Any, finish: Any, *rows: Any) -> Any:
        logits, *rest = rows
        index, kind = logits.get_device(), (logits.shape, logits.dtype)
        forward, ctx.backward = _steps(plan, both, index, *kind)
        # the same memory as a second storage; the storage of the logits can then refuse reads
        taken = dlpack.from_dlpack(torch._C._to_dlpack(logits.detach()))
        made = forward(taken, *rest)
        saved = (taken,) if both else plan.op.saved((taken, *rest), made)
        ctx.save_for_backward(*saved)
        assert _guard is not None
        _guard(logits.untyped_storage()._cdata, OVERWRITTEN.format(name))
        ctx.name, ctx.taken = name, False
        return finish(made[0]) if both and finish else made[0]

    @staticmethod
    def backward(ctx: Any, dloss: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        batched = torch._C._functorch.is_legacy_batchedtensor(dloss)  # by autograd's own vmap
        if ctx.taken or torch.is_grad_enabled() or transformed() or batched:
            raise RuntimeError(TWICE.format(ctx.name))
        saved, ctx.taken = ctx.saved_tensors, True
        ctx.backward(*saved, dloss.resolve_neg().contiguous())
        return None, None, None, None, saved[0], None, None


# see `kernels.calls`
_overwriting: Callable[..., torch.Tensor] = super(Function, _Overwriting).apply


def multiply(x: torch.Tensor, factor: torch.Tensor) -> None:
    """Multiplies each element of ``x`` (M, N), with contiguous rows, by ``factor`` (1,).

    The number is read on the device. If it is 1, a few programs per SM return at once.
    """
    rows, cols = x.shape
    if x.stride(0) == cols:
        rows, cols = 1, rows * cols  # one row, of whole vectors wherever rows begin
    programs = min(rows * -(-cols // TILE), PROGRAMS_PER_SM * (device_of(x).sms or 1))
    statistics = tl.float64 if x.dtype == torch.float64 else tl.float32
    launch(
        _multiply,
        (programs,),
        (x, factor, rows, cols, x.stride(0)),
        {"BLOCK": TILE, "STATISTICS": statistics},
        num_warps=8,
    )


@jit
def _multiply(
    x: tl.tensor,
    factor: tl.tensor,
    rows: tl.tensor,
    cols: tl.tensor,
    stride: tl.tensor,
    BLOCK: tl.constexpr,
    STATISTICS: tl.constexpr,
) -> None:
    by = tl.load(factor).to(STATISTICS)
    if by != 1:
        columns = tl.cdiv(cols, BLOCK)
        for tile in range(tl.program_id(0), rows * columns, tl.num_programs(0)):
            start = tl.cast(tile % columns, tl.int64) * BLOCK
            inside = tl.arange(0, BLOCK) < cols - start
            places = x + tl.cast(tile // columns, tl.int64) * stride + start + tl.arange(0, BLOCK)
            values = tl.load(places, mask=inside).to(STATISTICS) * by
            tl.store(places, values.to(x.dtype.element_ty), mask=inside)
