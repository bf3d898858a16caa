"""Row-wise softmax, with the row's maximum subtracted first. `softmax(x)` is it as a function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernels.softmax.function.softmax import softmax

__all__ = ["softmax"]


def __getattr__(name: str) -> Any:
    # The function imports variants, and importing a variant runs this file first: one that is
    # measured would load, and depend on, all the others.
    if name == "softmax":
        from kernels.softmax.function.softmax import softmax

        return softmax
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
