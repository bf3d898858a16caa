"""The steps between a public function and its kernels.

A call takes one of three ways, as in `kernels.functions`: a plain call launches kernels, a tracing
compiler sees an operator, and anything else that observes the call gets PyTorch's operations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import itemgetter, or_
from typing import Any

import torch

from . import functions
from .functions import below_autograd, transformed
from .language import tl
from .launch import ALIGNMENT, Launched, launcher, launches, workspaces

NAMESPACE = "softmax_roofline"
AUTOGRAD = torch._C.DispatchKey.AutogradFunctionality
_LIBRARIES: list[torch.library.Library] = []  # an operator lives as long as its library

Tensors = tuple[torch.Tensor, ...]


def runs_on(x: torch.Tensor) -> bool:
    """Whether a kernel can run on the device of ``x``."""
    kind = x.device.type
    return tl is not None and (kind == "cuda" or (kind == "cpu" and functions.INTERPRETED))


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


def aligned(x: torch.Tensor) -> torch.Tensor:
    """``x``, contiguous and at a 16-byte boundary, as a repeated launch needs it."""
    x = x.contiguous()
    return x.clone() if x.data_ptr() % ALIGNMENT else x


def like_rows(x: torch.Tensor) -> torch.Tensor:
    """Memory for the gradient of ``x``, padded like ``x`` if the padding is small.

    Then rows of both start at the same offset within a vector, and both use 16-byte accesses.
    """
    rows, cols = x.shape
    stride = x.stride(0)
    gaps = stride if cols <= stride <= cols + cols // 8 else cols
    return torch.empty_strided((rows, cols), (gaps, 1), dtype=x.dtype, device=x.device)


def allocator(index: int) -> Callable[..., torch.Tensor]:
    """A function that allocates (shape, strides, dtype) on a CUDA device; −1 is the CPU.

    On the current device it bypasses the dispatcher, as Inductor does: a third of the time.
    """
    name = "_empty_strided_cuda" if index >= 0 else "_empty_strided_cpu"
    fast = getattr(torch._C._dynamo.guards, name, None)
    device = f"cuda:{index}" if index >= 0 else "cpu"

    def empty(shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        if fast is None or (index >= 0 and torch._C._cuda_getDevice() != index):
            return torch.empty_strided(shape, strides, dtype=dtype, device=device)
        made: torch.Tensor = fast(shape, strides, dtype)
        return made

    return empty


class Repeatable:
    """Records the launches of the first call and repeats them in later calls.

    Unlike a `Plan` it may launch several kernels, and the caller passes the outputs. All calls pass
    tensors of the same shapes, strides, dtypes and device: together with alignment, these are all
    that Triton specialises for. A `Repeatable` keeps no tensor alive.

    Args:
        work: Takes tensors; a place may always be None. It does nothing but call `launch`, on those
            tensors and on `workspace` alone.
        index: The CUDA device's index; −1 on a CPU, where no launch is repeated.
    """

    __slots__ = ("_index", "_known", "_work")

    def __init__(self, work: Callable[..., None], index: int) -> None:
        self._work, self._index = work, index
        self._known: dict[object, Callable[[list[int]], bool]] = {}  # by alignment

    def __call__(self, *tensors: torch.Tensor | None) -> None:
        """Does the work."""
        if self._index < 0:
            return self._work(*tensors)
        if torch._C._cuda_getDevice() != self._index:
            with torch.cuda.device(self._index):
                return self(*tensors)
        starts = [0 if each is None else each.data_ptr() for each in tensors]
        offsets = reduce(or_, starts) % ALIGNMENT and tuple(each % ALIGNMENT for each in starts)
        again = self._known.get(offsets)
        if again is None:
            self._first(offsets, tensors)
        elif not again(starts):
            self._work(*tensors)
        return None

    def _first(self, offsets: object, tensors: Sequence[torch.Tensor | None]) -> None:
        with launches() as seen, workspaces() as made:
            self._work(*tensors)
        self._known[offsets] = _repeated(seen, tensors, made, self._index)


def _repeated(
    seen: Sequence[Launched],
    tensors: Sequence[torch.Tensor | None],
    made: Sequence[torch.Tensor],
    index: int,
) -> Callable[[list[int]], bool]:
    """A function that repeats launches on tensors at other addresses; returns whether it did.

    It refuses if a launch received a tensor that is neither an argument nor a workspace.
    """
    empty = getattr(torch._C._dynamo.guards, "_empty_strided_cuda", None)
    starts = [-1 if each is None else each.data_ptr() for each in (*tensors, *made)]
    known, constants = _extended(starts), list[Any]()
    found: list[tuple[tuple[Any, ...], Callable[..., Any]]] = []
    shifted = False  # whether a launch is given where a vector begins
    for each in seen:
        given = each.arguments
        count = max((i + 1 for i, x in enumerate(given) if isinstance(x, torch.Tensor)), default=0)
        places = []
        for argument in given[:count]:
            if not isinstance(argument, torch.Tensor):
                places.append(-1 - len(constants))  # from the end, whatever stands before
                constants.insert(0, argument)
            elif argument.data_ptr() in known:
                places.append(known.index(argument.data_ptr()))
                shifted |= places[-1] >= len(starts)
            else:
                return _never
        how = launcher(each, count, given[count:])
        nested = any(hasattr(x, "data_ptr") for y in given if isinstance(y, tuple) for x in y)
        if how is None or nested or count < 2:
            return _never
        found.append((how, itemgetter(*places)))
    if not found or empty is None:
        return _never
    hooks, stream_of = found[0][0][-1], torch._C._cuda_getCurrentRawStream
    layouts = [(tuple(x.shape), x.stride(), x.dtype) for x in made]

    def again(starts: list[int]) -> bool:
        if hooks.launch_enter_hook.calls or hooks.launch_exit_hook.calls:
            return False  # a profiler's: it is called the ordinary way
        if layouts:
            space = [empty(*layout) for layout in layouts]  # held until all is launched
            starts = [*starts, *[x.data_ptr() for x in space]]
        numbers = [*(_extended(starts) if shifted else starts), *constants]
        stream = stream_of(index)
        for (run, before, between, after, grouped, _), pick in found:
            if grouped:
                run(*before, stream, *between, (*pick(numbers), *after))
            else:
                run(*before, stream, *between, *pick(numbers), *after)
        return True

    return again


def _never(_: list[int]) -> bool:
    return False


def _extended(starts: list[int]) -> list[int]:
    """The addresses of tensors and of the vector boundaries before them: launches receive both."""
    return [*starts, *[each - each % ALIGNMENT for each in starts]]
