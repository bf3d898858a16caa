"""The steps between a public function and its kernels.

A call takes one of three ways, as in `kernels.functions`: a plain call launches kernels, a tracing
compiler sees an operator, and anything else that observes the call gets PyTorch's operations.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._C import _are_functorch_transforms_active as _transforms_active
from torch._C import _is_tracing
from torch._C import _len_torch_dispatch_stack as _dispatch_modes
from torch.autograd import forward_ad
from torch.compiler import is_dynamo_compiling

from .language import tl

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
LEAST, MOST = 1e-30, 1e30  # temperatures that leave float32 neither zero nor infinity
KEPT = 4096  # layouts of each direction, the least recently used makes room; some 2 kB each
# Triton decides so as it decorates, once
INTERPRETED = os.environ.get("TRITON_INTERPRET", "0") not in ("", "0")
PLAIN = (torch.Tensor, torch.nn.Parameter)  # a subclass may mean something else by its elements
NAMESPACE = "softmax_roofline"
AUTOGRAD = torch._C.DispatchKey.AutogradFunctionality
_LIBRARIES: list[torch.library.Library] = []  # an operator lives as long as its library

Tensors = tuple[torch.Tensor, ...]


def watched(x: Any) -> bool:
    """Whether a call on ``x`` must not simply launch a kernel.

    True under compilation, tracing, transforms, dispatch modes and forward-mode differentiation;
    also for a subclass, a device without kernels, and a conjugated or negated view.
    """
    return (
        is_dynamo_compiling()  # first: Dynamo follows none of what comes after
        or type(x) not in PLAIN
        or not (x.is_cuda or (INTERPRETED and x.is_cpu))
        or x.is_neg()
        or forward_ad._current_level >= 0
        or _dispatch_modes() > 0
        or _transforms_active()
        or _is_tracing()
    )


def transformed() -> bool:
    """Whether forward-mode differentiation or a functorch transform is active."""
    return forward_ad._current_level >= 0 or _transforms_active()


def below_autograd(operator: Callable[..., Any], *arguments: Any) -> Any:
    """Calls an operator below autograd."""
    with torch._C._AutoDispatchBelowAutograd():
        return operator(*arguments)


def runs_on(x: torch.Tensor) -> bool:
    """Whether a kernel can run on the device of ``x``."""
    kind = x.device.type
    return tl is not None and (kind == "cuda" or (kind == "cpu" and INTERPRETED))


def plain_gradient(*grads: torch.Tensor | None) -> bool:
    """Whether a backward pass given these gradients may launch kernels on them."""
    return not (
        torch.is_grad_enabled()  # the gradient is to be differentiated in its turn
        or torch._C._len_torch_dispatch_stack() > 0
        or transformed()
        or any(
            type(grad) is not torch.Tensor
            or grad.is_neg()
            or torch._C._functorch.is_legacy_batchedtensor(grad)  # autograd's own vmap
            for grad in grads
            if grad is not None
        )
    )


def gradient_of(
    function: Callable[[torch.Tensor], Tensors], x: torch.Tensor, grads: Sequence[torch.Tensor]
) -> torch.Tensor:
    """The gradient of ``x`` by PyTorch's operations, which can be differentiated again.

    Args:
        function: Computes the same answers by PyTorch's operations.
        x: The input of ``function``.
        grads: The gradient of each answer.
    """
    if torch._C._are_functorch_transforms_active():
        (dx,) = torch.func.vjp(function, x)[1](tuple(grads))
        return dx  # type: ignore[no-any-return]
    again = torch.is_grad_enabled()
    # an operator that has no kernel for its tensors asks from below autograd
    with torch._C._SetExcludeDispatchKeyGuard(AUTOGRAD, False), torch.enable_grad():
        x = x if x.requires_grad else x.detach().requires_grad_()
        (dx,) = torch.autograd.grad(function(x), x, tuple(grads), create_graph=again)
    return dx


def define(
    signature: str,
    kernel: Callable[..., Any],
    fake: Callable[..., Any],
    by_torch: Callable[..., Any],
    differentiable: Callable[..., Any] | None = None,
) -> Any:
    """Registers a PyTorch operator, for torch.compile and torch.export.

    PyTorch accepts one definition per name. If the module is imported twice (a checkout beside the
    installed package, or a reload), the operator of the first import stays.

    Args:
        signature: The operator's schema, from its name on.
        kernel: Computes the answers on a CPU or GPU; they share no memory with the inputs.
        fake: Returns empty answers of the right shape and dtype.
        by_torch: Computes the answers by PyTorch's operations, for transforms such as vmap.
        differentiable: Computes the answers where the first tensor needs a gradient; without it,
            ``by_torch`` does.
    """
    name = signature.partition("(")[0]
    operators = getattr(torch.ops, NAMESPACE)

    def autograd(*arguments: Any) -> Any:
        tensors = [each for each in arguments if isinstance(each, torch.Tensor)]
        if transformed():
            return by_torch(*arguments)
        if torch.is_grad_enabled() and any(each.requires_grad for each in tensors):
            alone = differentiable is not None and not any(t.requires_grad for t in tensors[1:])
            return differentiable(*arguments) if alone else by_torch(*arguments)  # type: ignore[misc]
        return below_autograd(getattr(operators, name).default, *arguments)

    if not hasattr(operators, name):
        library = torch.library.Library(NAMESPACE, "FRAGMENT")
        library.define(signature, tags=torch.Tag.pt2_compliant_tag)
        for key in ("CPU", "CUDA"):
            library.impl(name, kernel, key)
        library.impl(name, autograd, "Autograd")
        library.impl(name, by_torch, "FuncTorchBatched")
        torch.library.register_fake(f"{NAMESPACE}::{name}", fake, lib=library)
        _LIBRARIES.append(library)
    return getattr(operators, name).default


def like_rows(x: torch.Tensor) -> torch.Tensor:
    """Memory for the gradient of ``x``, padded like ``x`` if the padding is small.

    Then rows of both start at the same offset within a vector, and both use 16-byte accesses.
    """
    rows, cols = x.shape
    stride = x.stride(0)
    gaps = stride if cols <= stride <= cols + cols // 8 else cols
    return torch.empty_strided((rows, cols), (gaps, 1), dtype=x.dtype, device=x.device)
