"""Softmax variants that take their process with them, or its time, or its memory."""

from __future__ import annotations

import ctypes
import resource
import time
from dataclasses import dataclass
from pathlib import Path

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


@dataclass(frozen=True)
class Starve(Double):
    """Runs out of the host's memory where the system refuses more."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), hard))
        try:
            bytearray(1 << 30)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        return super().__call__(x)
