"""Launching a Triton kernel, and its options.

`launch` is ``function[grid](*arguments, **constants, **options)``: Triton binds the arguments,
inspects the type, value and alignment of each, finds the compiled kernel and launches it, in
7–14 µs of host time. `recording` keeps these launches, for `kernels.repeat` to repeat them.

Eviction hints (`load_hint`, `store_hint`): inputs and outputs pass through L2 together, and by
default the oldest line is evicted. Loads and stores may ask for `evict_last`: such lines are
evicted last. The rules on an H200 (docs/lab_book.md), by the bytes of the input:

- Loads ask from 1× L2 on. A smaller matrix would gain 0.3 to 0.6 µs too, but would fill L2 with an
  input that nobody reads again: the next reader of L2 then waits 2 to 4 µs for DRAM.
- Stores ask from 1× to 8× L2. The next kernel, which reads the output, finds more of it in L2: both
  kernels together take 1 to 4 % less. Of a larger output nothing stays, and a kernel by itself is
  up to 1 % faster without the hint.

Source: PTX ISA, cache eviction priority hints.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch

from .device import device_of

LARGE, HUGE = 1, 8  # times L2
LAST = "evict_last"


@dataclass(frozen=True)
class Launched:
    """A recorded launch."""

    compiled: Any  # by Triton; None under its interpreter
    grid: tuple[int, int, int]
    arguments: tuple[Any, ...]  # in the order of the kernel's parameters, constants included


# In order, of the thread: launches, and the memory that `workspace` returned
_recording: ContextVar[list[Launched | torch.Tensor] | None] = ContextVar(
    "_recording", default=None
)


@contextmanager
def recording() -> Iterator[list[Launched | torch.Tensor]]:
    """Records the launches and workspaces of this thread inside the block."""
    seen: list[Launched | torch.Tensor] = []
    token = _recording.set(seen)
    try:
        yield seen
    finally:
        _recording.reset(token)


def launch(
    function: Any,
    grid: tuple[int, ...],
    arguments: Sequence[Any],
    constants: Mapping[str, Any],
    **options: Any,
) -> None:
    """Launches a kernel the ordinary way, and records the launch inside a `recording` block.

    ``constants`` are its keyword arguments, ``options`` Triton's own, such as ``num_warps``.
    """
    compiled = function[grid](*arguments, **constants, **options)
    seen = _recording.get()
    names = function.arg_names[len(arguments) :] if seen is not None else ()
    if seen is not None and all(name in constants for name in names):
        x, y, z, *_ = *grid, 1, 1
        given = (*arguments, *(constants[n] for n in names))
        seen.append(Launched(compiled, (x, y, z), given))


def workspace(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Scratch memory: launches write it before they read it, and nobody reads it afterwards."""
    made = torch.empty(shape, dtype=dtype, device=device)
    if (seen := _recording.get()) is not None:
        seen.append(made)
    return made


def load_hint(x: torch.Tensor, keep: bool | None = None) -> str:
    """Triton's eviction policy for the loads of ``x``, ``"evict_last"`` or none.

    ``keep`` says whether loads ask for it; None asks from 1× L2 on.
    """
    wanted = beyond_l2(x) if keep is None else keep
    return LAST if wanted else ""


def store_hint(x: torch.Tensor, keep: bool | None = None) -> str:
    """Triton's eviction policy for the stores of an output as large as ``x``.

    ``keep`` says whether stores ask for it; None asks from 1× to 8× L2.
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
