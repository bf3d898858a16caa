"""Softmax variants that take their process with them, or its time, or its memory."""

from __future__ import annotations

import ctypes
import time
from dataclasses import dataclass

import torch

from tests.doubles.kernels import Double


@dataclass(frozen=True)
class Segfault(Double):
    """Reads address zero, in rows of an even length only."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[1] % 2 == 0:
            ctypes.string_at(0)
        return super().__call__(x)


@dataclass(frozen=True)
class Hang(Double):
    """Never comes back."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        while True:
            time.sleep(3600)


@dataclass(frozen=True)
class Exhaust(Double):
    """Asks for a petabyte."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return torch.empty(1 << 50, dtype=torch.uint8, device=x.device)


@dataclass(frozen=True)
class Illegal(Double):
    """Reads far outside its input: on CUDA that loses the context for the whole process."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        y = super().__call__(x)
        where = torch.full((x.shape[1],), 1 << 40, device=x.device)
        return y + x.flatten()[where]
