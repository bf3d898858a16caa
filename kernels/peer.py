"""Kernels of public libraries, called as they publish them.

A library is imported only where one of its functions is to run.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from typing_extensions import override

from .kernel import Kernel


class Peer(Kernel):
    """A public library's kernel; see `Kernel`."""

    @abstractmethod
    def function(self, *inputs: Any, **_: Any) -> Callable[..., Any]:
        """The library's function for inputs like these, of at least one element."""

    @override
    def __call__(self, *inputs: torch.Tensor) -> Any:
        return self.prepare(*inputs)(*inputs)

    @override
    def prepare(self, *inputs: torch.Tensor) -> Callable[..., Any]:
        """See `Kernel`: the library does its one-time lookups now."""
        if all(x.numel() > 0 for x in inputs):
            return self.function(*inputs)
        return self._empty

    def _empty(self, *inputs: torch.Tensor) -> Any:
        shape, dtype = self.operation.point_of(inputs)
        layout = self.operation.layout(self.operation.outputs, shape, dtype)
        made = [torch.empty(size, dtype=own, device=inputs[0].device) for size, own in layout]
        return made[0] if len(made) == 1 else tuple(made)
