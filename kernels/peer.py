"""Kernels of public libraries, called as they publish them.

A library is imported only where one of its functions is to run.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import torch
from typing_extensions import override

from .kernel import Kernel


class Peer(Kernel):
    """A public library's kernel; see `Kernel`."""

    @abstractmethod
    def function(self, x: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
        """The library's function for inputs like ``x``, of at least one element."""

    @override
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self.prepare(x)(x)

    @override
    def prepare(self, x: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
        """See `Kernel`: what the library looks up once is looked up now."""
        return self.function(x) if x.numel() > 0 else _empty


def _empty(x: torch.Tensor) -> torch.Tensor:
    return torch.empty(x.shape[-2:], dtype=x.dtype, device=x.device)
