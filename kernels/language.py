"""Triton where it is installed; where it is not, stand-ins.

A variant's module can then still be imported: it is described like any other and says through
`unsupported` why it cannot run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

try:
    import triton
    import triton.language as tl
except ModuleNotFoundError:
    triton = tl = None

LARGEST_BLOCK = 1 << 20  # elements of a tensor, Triton's own limit
MOST_PROGRAMS = (1 << 31) - 1  # along a CUDA grid's first axis


def jit(function: Callable[..., Any]) -> Any:
    """`triton.jit`: compiled for the GPU, or interpreted where ``TRITON_INTERPRET`` is set."""
    return function if triton is None else triton.jit(function)


def constant(value: Any) -> Any:
    """A constant that kernels may read, in Triton or in Gluon."""
    return value if tl is None else tl.constexpr(value)


def next_power_of_two(n: int) -> int:
    """The least power of two that is at least ``n``, and 1 for ``n`` = 0."""
    return 1 << max(n - 1, 0).bit_length()


__all__ = ["LARGEST_BLOCK", "MOST_PROGRAMS", "constant", "jit", "next_power_of_two", "tl"]
