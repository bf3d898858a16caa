"""Launching a Triton kernel, and its options.

`launch` is ``function[grid](*arguments, **constants, **options)``: Triton binds the arguments,
inspects the type, value and alignment of each, finds the compiled kernel and launches it, in
7–14 µs of host time. `launches` collects these launches, for `kernels.repeat` to repeat them.

Programmatic dependent launch (`dependent`): by default the second of two kernels in one stream
starts after the first has ended and its writes are visible. Memory idles for about a microsecond.
As a dependent launch, the second kernel's programs take the places that the first kernel leaves
free, and wait in `await_previous` until all earlier work is done. They touch no memory before that.
This pays only behind a kernel that lets its dependents start early, as ours do: in CUDA graphs on
an H200 it saves 0.1 to 0.8 µs. Behind an ordinary kernel, the usual case in a program, it costs
0.2 to 0.6 µs (docs/lab_book.md). So it is an option, off by default.

Eviction hints (`load_hint`, `store_hint`): inputs and outputs pass through L2 together, and by
default the oldest line is evicted. Loads and stores may ask for `evict_last`: such lines are
evicted last. The rules on an H200 (docs/lab_book.md), by the bytes of the input:

- Loads ask from 1× L2 on. A smaller matrix would gain 0.3 to 0.6 µs too, but would fill L2 with an
  input that nobody reads again: the next reader of L2 then waits 2 to 4 µs for DRAM.
- Stores ask from 1× to 8× L2. The next kernel, which reads the output, finds more of it in L2: both
  kernels together take 1 to 4 % less. Of a larger output nothing stays, and a kernel by itself is
  up to 1 % faster without the hint.

It was not measured why the hints help a kernel by itself.
Source: PTX ISA, ``griddepcontrol`` (sm_90 and up) and cache eviction priority hints; CUDA C++
Programming Guide, "Programmatic Dependent Launch and Synchronization".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch

from .device import Device, device_of
from .language import constant, jit, tl

DEPENDENT_FROM = (9, 0)  # compute capability
# The wait comes first: whoever depends on this kernel may then take for done what was before it
WAIT = constant("griddepcontrol.wait; griddepcontrol.launch_dependents; // $0")
LARGE, HUGE = 1, 8  # times L2
LAST = "evict_last"


@dataclass(frozen=True)
class Launched:
    """A recorded launch.

    Attributes:
        compiled: Triton's compiled kernel, None under its interpreter.
        grid: Programs along each of three axes.
        arguments: All arguments in the order of the kernel's parameters, constants included.
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
    """Launches a kernel the ordinary way, and records the launch inside a `launches` block.

    Args:
        function: A function decorated with ``@triton.jit`` or ``@gluon.jit``.
        grid: One to three numbers of programs.
        arguments: Positional arguments.
        constants: Keyword arguments.
        options: Triton's own options, such as ``num_warps``.
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


_lending: ContextVar[list[torch.Tensor] | None] = ContextVar("_lending", default=None)


def workspace(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Scratch memory: launches write it before they read it, and nobody reads it afterwards."""
    made = torch.empty(shape, dtype=dtype, device=device)
    lent = _lending.get()
    if lent is not None:
        lent.append(made)
    return made


@contextmanager
def workspaces() -> Iterator[list[torch.Tensor]]:
    """Collects the memory that `workspace` returned to this thread inside the block."""
    lent: list[torch.Tensor] = []
    token = _lending.set(lent)
    try:
        yield lent
    finally:
        _lending.reset(token)


def dependent(device: Device, wanted: bool) -> bool:
    """Whether to launch a kernel as a dependent of its predecessor: wanted, and supported."""
    return wanted and device.capability is not None and device.capability >= DEPENDENT_FROM


def launch_option(depends: bool) -> dict[str, bool]:
    """Triton's option for a dependent launch; empty otherwise, because the interpreter has none."""
    return {"launch_pdl": True} if depends else {}


@jit
def await_previous(DEPENDENT: tl.constexpr) -> None:
    """Waits for all earlier kernels, then lets the next kernel start its programs."""
    if DEPENDENT:
        tl.inline_asm_elementwise(WAIT, "=r", [], tl.int32, is_pure=False, pack=1)


def load_hint(x: torch.Tensor, keep: bool | None) -> str:
    """Triton's eviction policy for the loads of ``x``, ``"evict_last"`` or none.

    Args:
        x: The input.
        keep: Whether loads ask for it; None asks from 1× L2 on.
    """
    wanted = beyond_l2(x) if keep is None else keep
    return LAST if wanted else ""


def store_hint(x: torch.Tensor, keep: bool | None) -> str:
    """Triton's eviction policy for the stores of an output as large as ``x``.

    Args:
        x: The input.
        keep: Whether stores ask for it; None asks from 1× to 8× L2.
    """
    wanted = LARGE <= _times_l2(x) < HUGE if keep is None else keep
    return LAST if wanted else ""


def beyond_l2(x: torch.Tensor) -> bool:
    """Whether a matrix is too large to stay in its device's L2."""
    return _times_l2(x) >= LARGE


def _times_l2(x: torch.Tensor) -> float:
    """Bytes of a matrix divided by the bytes of its device's L2; 0 where the L2 is unknown."""
    l2_bytes = device_of(x).l2_bytes
    return x.numel() * x.element_size() / l2_bytes if l2_bytes else 0.0
