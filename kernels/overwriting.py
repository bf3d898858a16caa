"""Gradients that overwrite the logits: ``inplace=True`` of a loss.

Overwritten logits must not be read again. PyTorch guards their memory, not one tensor: any tensor
that shares it (a view, its base, a tensor saved by autograd) raises an error that names the loss.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd import Function
from torch.utils import dlpack

from .calls import RowOp, transformed, watched

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
Steps = tuple[Callable[..., tuple[Any, Sequence[Any]]], Callable[..., Any]]

_guard: Callable[[int, str], None] | None = getattr(
    torch._C, "_set_storage_data_ptr_access_error_msg", None
)


def in_place(
    name: str, op: RowOp, tensors: tuple[Any, ...], options: tuple[Any, ...], steps: Any
) -> torch.Tensor | None:
    """A loss whose gradient overwrites the first of its tensors, the logits, which need one.

    Args:
        name: The public function, for messages.
        op: Computes the loss.
        tensors: As `RowOp.run` takes them.
        options: Likewise.
        steps: From a plan and its rows, two functions: the forward one takes the rows, logits
            first, and returns the loss and the tensors that the backward one takes between the
            logits, over which it writes the gradient, and the gradient of the loss. None where the
            logits must stay.

    Returns:
        The loss; None where nothing may be overwritten.

    Raises:
        RuntimeError: the logits are a leaf, or a view of one.
    """
    logits = tensors[0]
    if not torch.is_grad_enabled() or watched(logits):
        return None
    base = logits if logits._base is None else logits._base
    if logits.is_leaf or (base.is_leaf and base.requires_grad):
        raise RuntimeError(LEAF.format(name))
    plan = op.plan(tensors, options)
    if plan is None or _guard is None:
        return None
    rows = tensors if plan.direct else op.rows(tensors, options)
    overlap = rows[0].stride(0) < rows[0].shape[1] and len(rows[0]) > 1
    if overlap or (found := steps(plan, *rows)) is None:
        return None
    loss: torch.Tensor = _overwriting(name, *found, *rows)
    return loss if plan.shape is None or loss.dim() == 0 else loss.view(plan.shape)


class _Overwriting(Function):
    @staticmethod
    def forward(ctx: Any, name: str, forward: Any, backward: Any, *rows: torch.Tensor) -> Any:
        logits, *rest = rows
        # the same memory as a second storage; the storage of the logits can then refuse reads
        taken = dlpack.from_dlpack(torch._C._to_dlpack(logits.detach()))
        loss, saved = forward(taken, *rest)
        ctx.save_for_backward(taken, *saved)
        assert _guard is not None
        _guard(logits.untyped_storage()._cdata, OVERWRITTEN.format(name))
        ctx.backward, ctx.name, ctx.taken = backward, name, False
        return loss

    @staticmethod
    def backward(ctx: Any, dloss: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        batched = torch._C._functorch.is_legacy_batchedtensor(dloss)  # by autograd's own vmap
        if ctx.taken or torch.is_grad_enabled() or transformed() or batched:
            raise RuntimeError(TWICE.format(ctx.name))
        saved, ctx.taken = ctx.saved_tensors, True
        ctx.backward(*saved, dloss.resolve_neg().contiguous())
        return None, None, None, saved[0], None, None


# see `kernels.calls`
_overwriting: Callable[..., torch.Tensor] = super(Function, _Overwriting).apply
