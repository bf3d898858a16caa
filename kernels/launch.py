"""Launching a Triton kernel: the ordinary way, again without the ceremony, and with what options.

`launch` is ``function[grid](*arguments, **constants, **options)``: Triton binds the arguments,
looks at each one's type, value and alignment, finds the compiled kernel and launches it, in 7–14 µs
of host time. What it did can be listened to (`launches`), and `replay` makes of it a call that
hands other memory to the same compiled kernel. Whoever replays answers for what Triton looked at:
shapes, strides, dtypes, device and each address modulo 16 must be those of the launch.

Programmatic dependent launch (`dependent`): of two kernels in one stream the second is by default
not started before the first has ended and its writes are seen: about a microsecond in which the
memory rests. Launched as a dependent, the second's programs take the places that the first's leave
free, and wait there, `await_previous`, until all before is done. They touch no memory before, so
that nothing but the start is earlier. That pays only behind a kernel that lets its dependents start
early, as these do: in CUDA graphs on an H200 it takes 0.1 to 0.8 µs off, while behind an ordinary
kernel, which is what a program has, it costs 0.2 to 0.6 µs (docs/lab_book.md). So it is an option,
off by default.

Eviction hints (`load_hint`, `store_hint`): what is read once and what is written pass through L2
together, and by default the oldest line gives way, of either kind. Loads and stores may ask for
`evict_last`: such lines give way last. On an H200 (docs/lab_book.md), by the bytes of the input:

- from once L2 on loads ask for it. A smaller matrix would take 0.3 to 0.6 µs less too, but leave L2
  full of an input that nobody reads again: who reads from L2 next waits 2 to 4 µs for DRAM.
- from once to eight times L2 stores ask too. The next kernel, which reads the output, finds more
  of it: both together take 1 to 4 % less. Of a larger output nothing stays, and a kernel by itself
  is up to 1 % faster if its stores do not ask.

Why the hints help a kernel by itself was not measured; no counter was read that would show it.
Source: PTX ISA, ``griddepcontrol`` (sm_90 and up) and cache eviction priority hints; CUDA C++
Programming Guide, "Programmatic Dependent Launch and Synchronization".
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch

from .device import Device, device_of
from .language import constant, jit, tl

ALIGNMENT = 16  # bytes; Triton compiles apart for pointers aligned to it and those that are not

# What Triton 3.6 and 3.7 hand to a launcher; another version may have another order
_KNOWN = (
    ["self", "gridX", "gridY", "gridZ", "stream", "function", "args"],
    ["self", "gridX", "gridY", "gridZ", "stream", "function", "kernel_metadata", "launch_metadata",
     "launch_enter_hook", "launch_exit_hook", "args"],
)  # fmt: skip

DEPENDENT_FROM = (9, 0)  # compute capability
# The wait comes first: whoever depends on this kernel may then take for done what was before it
WAIT = constant("griddepcontrol.wait; griddepcontrol.launch_dependents; // $0")
LARGE, HUGE = 1, 8  # times L2
LAST = "evict_last"


@dataclass(frozen=True)
class Launched:
    """One launch as it was made.

    Attributes:
        compiled: Triton's compiled kernel, None under its interpreter.
        grid: Programs along each of three axes.
        arguments: All of the kernel's parameters in its own order, constants included.
    """

    compiled: Any
    grid: tuple[int, int, int]
    arguments: tuple[Any, ...]


_listening: ContextVar[list[Launched] | None] = ContextVar("_listening", default=None)


def launch(
    function: Any,
    grid: tuple[int, ...],
    arguments: Sequence[Any],
    constants: Mapping[str, Any],
    **options: Any,
) -> None:
    """Launches a kernel the ordinary way, and records it where `launches` asks for it.

    Args:
        function: What ``@triton.jit`` or ``@gluon.jit`` made.
        grid: One to three numbers of programs.
        arguments: Those given by place, the first parameters of the kernel.
        constants: Those given by name.
        options: Triton's own, as ``num_warps``.
    """
    compiled = function[grid](*arguments, **constants, **options)
    seen = _listening.get()
    names = function.arg_names[len(arguments) :] if seen is not None else ()
    if seen is not None and all(name in constants for name in names):
        x, y, z, *_ = *grid, 1, 1
        seen.append(Launched(compiled, (x, y, z), (*arguments, *(constants[n] for n in names))))


@contextmanager
def launches() -> Iterator[list[Launched]]:
    """Collects the launches made through `launch` by this thread inside the block."""
    seen: list[Launched] = []
    token = _listening.set(seen)
    try:
        yield seen
    finally:
        _listening.reset(token)


def replay(launched: Launched, tensors: Sequence[torch.Tensor]) -> Callable[..., None] | None:
    """A call that makes a launch again on other memory, or None where that would not be right.

    Args:
        launched: The launch to make again.
        tensors: What it was given and made: its first arguments, in order, and its only tensors.

    Returns:
        ``again(stream, *pointers)``: a raw CUDA stream of the current device, then the address of
        each tensor. It keeps no tensor alive.
    """
    given, rest = launched.arguments[: len(tensors)], launched.arguments[len(tensors) :]
    same = len(given) == len(tensors) and all(
        isinstance(a, torch.Tensor) and a.data_ptr() == t.data_ptr() and a.dtype == t.dtype
        for a, t in zip(given, tensors, strict=True)
    )
    if not same or any(hasattr(argument, "data_ptr") for argument in rest):
        return None
    if not (hasattr(launched.compiled, "__getitem__") and hasattr(launched.compiled, "run")):
        return None  # the interpreter, or a Triton that keeps it elsewhere
    return _direct(launched, rest) or _by_runner(launched, rest)


def _by_runner(launched: Launched, rest: tuple[Any, ...]) -> Callable[..., None]:
    """By the call that Triton itself offers on a compiled kernel: about 2 µs dearer."""
    runner = launched.compiled[launched.grid]

    def again(stream: int, *pointers: int) -> None:
        runner(*pointers, *rest, stream=stream)

    return again


def _direct(launched: Launched, rest: tuple[Any, ...]) -> Callable[..., None] | None:
    """By the launcher behind it, without the hooks of profilers as long as there are none."""
    compiled, (programs_x, programs_y, programs_z) = launched.compiled, launched.grid
    run = compiled.run
    try:
        from triton import knobs

        runtime = knobs.runtime
        enter, leave = runtime.launch_enter_hook, runtime.launch_exit_hook
        known = list(inspect.signature(type(run).__call__).parameters) in _KNOWN
        function, metadata = compiled.function, compiled.packed_metadata
        calls = enter.calls, leave.calls
    except (ImportError, AttributeError, TypeError, ValueError):
        return None
    if not known or not all(isinstance(hooks, list) for hooks in calls):
        return None
    hooked = _by_runner(launched, rest)

    def again(stream: int, *pointers: int) -> None:
        if (
            runtime.launch_enter_hook is not enter
            or runtime.launch_exit_hook is not leave
            or enter.calls
            or leave.calls
        ):
            return hooked(stream, *pointers)
        run(programs_x, programs_y, programs_z, stream, function, metadata, None, None, None,
            *pointers, *rest)  # fmt: skip
        return None

    return again


def dependent(device: Device, wanted: bool) -> bool:
    """Whether a kernel is launched as a dependent of the one before it: if wanted, where it can."""
    return wanted and device.capability is not None and device.capability >= DEPENDENT_FROM


def launch_option(depends: bool) -> dict[str, bool]:
    """Triton's option for it; none where it is not asked for: the interpreter knows none."""
    return {"launch_pdl": True} if depends else {}


@jit
def await_previous(DEPENDENT: tl.constexpr) -> None:
    """Waits for all kernels before this one, then lets the next be placed."""
    if DEPENDENT:
        tl.inline_asm_elementwise(WAIT, "=r", [], tl.int32, is_pure=False, pack=1)


def load_hint(x: torch.Tensor, keep: bool | None) -> str:
    """Triton's eviction policy for the loads of ``x``, ``"evict_last"`` or none.

    Args:
        x: The input.
        keep: Whether loads are to ask for it; None asks from once L2 on.
    """
    wanted = _times_l2(x) >= LARGE if keep is None else keep
    return LAST if wanted else ""


def store_hint(x: torch.Tensor, keep: bool | None) -> str:
    """Triton's eviction policy for the stores of an output as large as ``x``.

    Args:
        x: The input.
        keep: Whether stores are to ask for it; None asks from once to eight times L2.
    """
    wanted = LARGE <= _times_l2(x) < HUGE if keep is None else keep
    return LAST if wanted else ""


def _times_l2(x: torch.Tensor) -> float:
    """Bytes of a matrix over those of its device's L2, 0 where that is not known."""
    l2_bytes = device_of(x).l2_bytes
    return x.numel() * x.element_size() / l2_bytes if l2_bytes else 0.0
