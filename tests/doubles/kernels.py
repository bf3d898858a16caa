"""Softmax variants that lie, raise, slow down or take their process along, and one that behaves."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import torch

from kernels.kernel import Kernel
from kernels.softmax.operation import SOFTMAX
from kernels.traffic import M, N, Traffic


@dataclass(frozen=True)
class Good(Kernel):
    """Behaves."""

    operation = SOFTMAX
    backend = "torch"
    moves = Traffic(M * N, M * N)
    on_chip = N

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, dim=-1)


class Slow(Good):
    """Takes long enough to be met at work."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        time.sleep(0.03)
        return super().__call__(x)


class Hang(Good):
    """Never comes back."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        while True:
            time.sleep(3600)


class Wrong(Good):
    """Forgets the last column."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        y = super().__call__(x)
        y[:, -1] = 0
        return y


class Unsafe(Good):
    """Takes no maximum; as Triton's, it is judged and not timed where there is no card."""

    backend = "triton"

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        e = x.exp()
        return e / e.sum(-1, keepdim=True)


class Raise(Good):
    """Raises an error that spans lines and names a path."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("first line\nsecond line of /home/someone/secret/file.py")


class Segfault(Good):
    """Reads address zero, in rows of an even length only."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[1] % 2 == 0:
            ctypes.string_at(0)
        return super().__call__(x)


class Exhaust(Good):
    """Asks for a petabyte."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return torch.empty(1 << 50, dtype=torch.uint8, device=x.device)


class Illegal(Good):
    """Reads far outside its input: on CUDA that loses the context for the whole process."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        where = torch.full((x.shape[1],), 1 << 40, device=x.device)
        return super().__call__(x) + x.flatten()[where]


class Negative(Good):
    """Says that it reads less than nothing where the matrix is small."""

    moves = Traffic(M * N - 100, M * N)


class Vast(Good):
    """Says that it reads more than any number in a row."""

    moves = Traffic(M**60, M * N)


class NoKernel:
    """Not a Kernel at all."""


class Counted(Good):
    """Calls `nth` with the number of the call since it was prepared, from 1."""

    def prepare(self, x: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:  # type: ignore[override]
        calls = count(1)
        return lambda x: self.nth(next(calls), x)

    def nth(self, n: int, x: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError


@dataclass(frozen=True)
class Spoil(Counted):
    """Sets its input to zero, for which its answer is right."""

    after: int = 0

    def nth(self, n: int, x: torch.Tensor) -> torch.Tensor:
        return self(x.zero_() if n > self.after else x)


class WrongLater(Counted):
    """Right when checked first, wrong once it has been called often."""

    def nth(self, n: int, x: torch.Tensor) -> torch.Tensor:
        return self(x) if n < 10 else torch.zeros_like(x)


@dataclass(frozen=True)
class Moody(Counted):
    """A last bit differs at every other call, or in matrices of more than four rows."""

    at: str = "calls"

    def nth(self, n: int, x: torch.Tensor) -> torch.Tensor:
        y = self(x)
        off = n % 2 == 0 if self.at == "calls" else self.at == "rows" and len(x) > 4
        return torch.nextafter(y, torch.ones_like(y)) if off else y
