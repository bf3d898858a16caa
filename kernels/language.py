"""Triton, and Gluon, its language of explicit layouts, where they are installed; else stand-ins.

A variant's module can then still be imported: it is described like any other and says through
`unsupported` why it cannot run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_type_hints

try:
    import triton
    import triton.language as tl
except ModuleNotFoundError:
    triton = tl = None
try:
    from triton.experimental import gluon
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon.language.nvidia.ampere import async_copy
except ImportError:
    gluon = gl = async_copy = None

# Triton 3.7 gave the barrier of a program's threads a shorter name
barrier: Any = getattr(gl, "barrier", None) or getattr(gl, "thread_barrier", None)

LARGEST_BLOCK = 1 << 20  # elements of a tensor, Triton's own limit
MOST_PROGRAMS = (1 << 31) - 1  # along a CUDA grid's first axis


def jit(function: Callable[..., Any]) -> Any:
    """`triton.jit`: compiled for the GPU, or interpreted where ``TRITON_INTERPRET`` is set."""
    return function if triton is None else triton.jit(function)


def gluon_jit(function: Callable[..., Any]) -> Any:
    """`gluon.jit`; it has no interpreter."""
    return function if gluon is None else gluon.jit(function)


def aggregate(kind: type[Any]) -> Any:
    """A class of values that device code passes around as one, as in Gluon's own examples."""
    if gl is None:
        return kind
    kind.__annotations__ = get_type_hints(kind, {"gl": gl})
    return tl.core._aggregate(kind)


def constexpr_function(function: Callable[..., Any]) -> Any:
    """`gluon.constexpr_function`: run while a kernel is compiled."""
    return function if gluon is None else gluon.constexpr_function(function)


def constant(value: Any) -> Any:
    """A constant that kernels may read, in Triton or in Gluon."""
    return value if tl is None else tl.constexpr(value)


LOG2E = constant(1.4426950408889634)


@jit
def exp(x: tl.tensor) -> tl.tensor:
    """exp; in float32 by exp2, as exp takes three instructions more for subnormal results."""
    if x.dtype == tl.float64:
        return tl.exp(x)
    return tl.exp2(x * LOG2E)


def next_power_of_two(n: int) -> int:
    """The least power of two that is at least ``n``, and 1 for ``n`` = 0."""
    return 1 << max(n - 1, 0).bit_length()


__all__ = ["async_copy", "barrier", "constexpr_function", "gl", "tl"]
