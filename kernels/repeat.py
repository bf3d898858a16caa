"""Repeating launches without Triton's overhead: the optional fast path of the public functions.

Triton takes 7–14 µs of host time for a launch. `repeatable` watches the launches of a first call,
and later calls use the C function behind Triton's launcher itself. Where anything is unusual (a
profiler's hook, an unknown Triton, memory that it does not know), they launch the ordinary way.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from copy import copy
from operator import itemgetter
from types import FunctionType
from typing import Any

import torch

from .launch import Launched, recording

TensorSpec = tuple[Sequence[int], Sequence[int], torch.dtype]  # shape, strides and dtype
Repeatable = Callable[..., list[torch.Tensor]]
ALIGNMENT = 16  # bytes; Triton compiles apart for pointers aligned to it and those that are not
# What Triton 3.6 and 3.7 hand to a launcher; another version may have another order
_KNOWN = (
    ["self", "gridX", "gridY", "gridZ", "stream", "function", "args"],
    ["self", "gridX", "gridY", "gridZ", "stream", "function", "kernel_metadata", "launch_metadata",
     "launch_enter_hook", "launch_exit_hook", "args"],
)  # fmt: skip


def alike(*tensors: torch.Tensor) -> Callable[..., bool | None]:
    """A function that tests in 0.1 µs whether other tensors are like these.

    Uses Dynamo's TensorGuards to compare type, dtype, device, shape, strides, ``requires_grad`` and
    the dispatch keys, with all modes, transforms, autocast, tracing and negation that they show. It
    does not look at addresses, forward-mode differentiation or Dynamo.
    """
    guards = getattr(torch._C._dynamo.guards, "TensorGuards", None)
    if guards is None:
        return unlike
    check: Callable[..., bool] = guards(
        *tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None
    ).check
    return check


def unlike(*_: Any) -> Any:
    """Stands for a test that is never true, or for work that does nothing."""


def dense(shape: Sequence[int], dtype: torch.dtype) -> TensorSpec:
    """The spec of contiguous memory."""
    return tuple(shape), torch.empty(shape, device="meta").stride(), dtype


def repeatable(work: Callable[..., None], index: int, *answers: TensorSpec) -> Repeatable:
    """A function whose answers are new memory, filled by launches that later calls repeat.

    All calls pass tensors of the same shapes, strides, dtypes and device: together with alignment,
    these are all that Triton specialises for. The function keeps no tensor alive.

    Args:
        work: Takes the inputs and then the answers; an input may always be None. It does nothing
            but call `launch`, on those tensors and on `workspace` alone.
        index: The CUDA device's index; −1 on a CPU, where no launch is repeated.
        answers: Their specs. Where one has no elements, nothing is launched.
    """
    if any(0 in shape for shape, *_ in answers):
        work = unlike
    # past the dispatcher, as Inductor does: a third of the time
    kind, name = ("cuda", f"cuda:{index}") if index >= 0 else ("cpu", "cpu")
    empty: Callable[..., torch.Tensor] = getattr(
        torch._C._dynamo.guards, f"_empty_strided_{kind}", None
    ) or (lambda *spec: torch.empty_strided(*spec[:2], dtype=spec[2], device=name))
    known: dict[object, Callable[[list[int]], bool | None]] = {}  # by alignment

    def call(*inputs: torch.Tensor | None) -> list[torch.Tensor]:
        if index >= 0 and torch._C._cuda_getDevice() != index:
            with torch.cuda.device(index):
                return call(*inputs)
        made: list[torch.Tensor] = []
        starts: list[int] = []
        together = 0
        for each in inputs:  # loops: a comprehension would be another frame
            if each is not None:
                start = each.data_ptr()
                starts.append(start)
                together |= start
        for spec in answers:
            answer = empty(*spec)
            start = answer.data_ptr()
            made.append(answer)
            starts.append(start)
            together |= start
        offsets = together % ALIGNMENT and tuple(start % ALIGNMENT for start in starts)
        again = known.get(offsets)
        if again is None or not again(starts):
            with recording() as seen:
                work(*inputs, *made)
            # of one tensor in two places, a launch does not tell which it was given
            if again is None and index >= 0 and len({*starts}) == len(starts):
                known[offsets] = _repeated(seen, starts, index)
        return made

    return call


def _repeated(seen: list[Any], starts: list[int], index: int) -> Callable[[list[int]], bool | None]:
    """A function that repeats launches on tensors at other addresses; returns whether it did.

    It adds to the list of addresses that it is given. It refuses if a launch received a tensor that
    is neither an argument nor a workspace.
    """
    empty = getattr(torch._C._dynamo.guards, "_empty_strided_cuda", None)
    spaces = [each for each in seen if isinstance(each, torch.Tensor)]
    specs = [(tuple(x.shape), x.stride(), x.dtype) for x in spaces]
    known = _extended([*starts, *(x.data_ptr() for x in spaces)])
    constants, found = list[Any](), list[tuple[Any, ...]]()
    shifted = False  # whether a launch is given where a vector begins
    for each in (each for each in seen if isinstance(each, Launched)):
        places = list[int]()
        for argument in each.arguments:
            if not isinstance(argument, torch.Tensor):
                places.append(-1 - len(constants))  # from the end, whatever stands before
                constants.insert(0, argument)
            elif argument.data_ptr() in known:
                places.append(known.index(argument.data_ptr()))
                shifted |= places[-1] >= len(known) // 2
            else:
                return unlike
        how = _launcher(each)
        tuples = (x for x in each.arguments if isinstance(x, tuple))
        if how is None or len(places) < 2 or any(hasattr(x, "data_ptr") for y in tuples for x in y):
            return unlike
        found.append((*how, itemgetter(*places)))
    if not found or empty is None:
        return unlike
    hooks, stream_of = found[0][0], torch._C._cuda_getCurrentRawStream

    def again(starts: list[int]) -> bool:
        if hooks.launch_enter_hook.calls or hooks.launch_exit_hook.calls:
            return False  # a profiler's: it is called the ordinary way
        space = []  # held until all is launched
        for spec in specs:
            space.append(empty(*spec))
            starts.append(space[-1].data_ptr())
        if shifted:
            starts = _extended(starts)
        starts += constants
        stream = stream_of(index)
        for _, run, before, between, grouped, pick in found:
            given = pick(starts)
            run(*before, stream, *between, *((given,) if grouped else given))
        return True

    return again


def _extended(starts: list[int]) -> list[int]:
    """The addresses of tensors and of the vector boundaries before them: launches receive both."""
    return [*starts, *[each - each % ALIGNMENT for each in starts]]


def _launcher(launched: Launched) -> tuple[Any, ...] | None:
    """The C function behind Triton's launcher and its arguments, found by observing one launch.

    Returns:
        Triton's hook settings; the function; its arguments before the stream, and between the
        stream and those of the kernel; whether those of the kernel are one tuple. None for an
        unknown launcher, or for one that needs scratch memory.
    """
    compiled, handed = launched.compiled, list[Any]()
    try:
        from triton import knobs

        settings, launcher = knobs.runtime, compiled.run
        known = list(inspect.signature(type(launcher).__call__).parameters) in _KNOWN
        plain = not isinstance(launcher.launch, FunctionType)  # that rewrites TMA descriptors
        scratch = launcher.global_scratch_size or launcher.profile_scratch_size
        hooks = settings.launch_enter_hook.calls, settings.launch_exit_hook.calls
        if not (known and plain) or scratch or not all(isinstance(calls, list) for calls in hooks):
            return None
        watched, stream, kernels = copy(launcher), object(), [object() for _ in launched.arguments]
        watched.launch = lambda *arguments: handed.extend(arguments)
        watched(*launched.grid, stream, compiled.function, compiled.packed_metadata,
                None, None, None, *kernels)  # fmt: skip
        first, grouped = handed.index(stream), handed[-1] == tuple(kernels)
    except (ImportError, AttributeError, TypeError, ValueError):
        return None
    last = len(handed) - (1 if grouped else len(kernels))
    if not grouped and handed[last:] != kernels:
        return None
    return settings, launcher.launch, handed[:first], handed[first + 1 : last], grouped
