"""Gluon, Triton's language of explicit layouts, where it is installed; else stand-ins.

As in `kernels.language`: a module that uses them can be imported and described anywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

try:
    from triton.experimental import gluon
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon.language.nvidia.ampere import async_copy
except ImportError:
    gluon = gl = async_copy = None

# Triton 3.7 gave the barrier of a program's threads a shorter name
barrier: Any = getattr(gl, "barrier", None) or getattr(gl, "thread_barrier", None)


def gluon_jit(function: Callable[..., Any]) -> Any:
    """`gluon.jit`; it has no interpreter."""
    return function if gluon is None else gluon.jit(function)


def constexpr_function(function: Callable[..., Any]) -> Any:
    """`gluon.constexpr_function`: run while a kernel is compiled."""
    return function if gluon is None else gluon.constexpr_function(function)


__all__ = ["async_copy", "barrier", "constexpr_function", "gl", "gluon_jit"]
