"""What stands between a function that other programs import and its kernels.

A call goes one of three ways, as `kernels.functions` says of softmax: kernels for a plain call, an
operator where a compiler traces, and PyTorch's operations for whatever else watches it.
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
    """Whether a kernel can run where ``x`` is."""
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
        function: The same answers by PyTorch's operations; computed anew.
        x: Its input.
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
    """An operator of PyTorch's, for torch.compile and torch.export.

    PyTorch takes one definition of a name: imported again, as `kernels` of a checkout beside the
    installed package or by a reload, an operator is that of the first import.

    Args:
        signature: In PyTorch's own language, from the name on.
        kernel: Computes it on a CPU or GPU; its answers share no memory with its inputs.
        fake: Makes answers without their numbers.
        by_torch: Computes it by PyTorch's operations, for what transforms it.
        differentiable: Computes it where the first tensor needs a gradient; else ``by_torch`` does.
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
    """``x``, contiguous and at an address that a repeated launch may be given."""
    x = x.contiguous()
    return x.clone() if x.data_ptr() % ALIGNMENT else x


def like_rows(x: torch.Tensor) -> torch.Tensor:
    """Memory for the gradient of rows: with gaps between them as in ``x``, if they are small.

    Where rows of both begin at the same places of a vector, both are moved by whole ones.
    """
    rows, cols = x.shape
    stride = x.stride(0)
    gaps = stride if cols <= stride <= cols + cols // 8 else cols
    return torch.empty_strided((rows, cols), (gaps, 1), dtype=x.dtype, device=x.device)


def allocator(index: int) -> Callable[..., torch.Tensor]:
    """What allocates (shape, strides, dtype) on a CUDA device, or with −1 on the CPU.

    Past the dispatcher, as Inductor does, in a third of the time, where that device is the current.
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
    """Work on tensors: launched the ordinary way the first time, its launches repeated after that.

    Unlike a `Plan` it may launch several kernels, and what they write is given to it. It is called
    with tensors that share shapes, strides, dtypes and device from call to call; with their
    alignment that is all that Triton compiles apart for. It holds none of them.

    Args:
        work: Takes tensors, or None in a place where there is never one. All that it does is
            launched by `launch`, on those tensors and on `workspace` alone.
        index: The CUDA device's; −1 on a CPU, where nothing is launched again.
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
    """What repeats launches on tensors that begin elsewhere, and says whether it did.

    It does not where one of them was given a tensor that is neither known nor a workspace.
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
    """With where the vectors begin that tensors begin in: launches may be given those."""
    return [*starts, *[each - each % ALIGNMENT for each in starts]]
