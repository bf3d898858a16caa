"""Softmax variants that lie, raise or slow down, and one that behaves."""

from __future__ import annotations

import time
from dataclasses import dataclass

import sympy
import torch

from kernels.kernel import Kernel
from kernels.softmax.operation import SOFTMAX
from kernels.traffic import M, N, Traffic


class Double(Kernel):
    """PyTorch's softmax, for the doubles to spoil."""

    operation = SOFTMAX
    backend = "torch"

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, dim=-1)

    def traffic(self) -> Traffic:
        return Traffic(M * N, M * N)

    def on_chip_elements(self) -> sympy.Expr:
        return N


@dataclass(frozen=True)
class Good(Double):
    """Behaves."""


@dataclass(frozen=True)
class Slow(Double):
    """Takes long enough to be met at work."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        time.sleep(0.03)
        return super().__call__(x)


@dataclass(frozen=True)
class Wrong(Double):
    """Forgets the last column."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        y = super().__call__(x)
        y[:, -1] = 0
        return y


@dataclass(frozen=True)
class Spoil(Double):
    """Sets its input to zero, for which its answer is right."""

    after: int = 0

    def prepare(self, x: torch.Tensor):  # type: ignore[no-untyped-def]
        calls = 0

        def call(x: torch.Tensor) -> torch.Tensor:
            nonlocal calls
            calls += 1
            return torch.softmax(x.zero_() if calls > self.after else x, -1)

        return call


@dataclass(frozen=True)
class WrongLater(Double):
    """Right when checked first, wrong once it has been called often."""

    def prepare(self, x: torch.Tensor):  # type: ignore[no-untyped-def]
        calls = 0

        def call(x: torch.Tensor) -> torch.Tensor:
            nonlocal calls
            calls += 1
            return torch.softmax(x, -1) if calls < 10 else torch.zeros_like(x)

        return call


@dataclass(frozen=True)
class Raise(Double):
    """Raises an error that spans lines and names a path."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("first line\nsecond line of /home/someone/secret/file.py")


class NoKernel:
    """Not a Kernel at all."""


@dataclass(frozen=True)
class Negative(Double):
    """Says that it reads less than nothing where the matrix is small."""

    def traffic(self) -> Traffic:
        return Traffic(M * N - 100, M * N)


@dataclass(frozen=True)
class Vast(Double):
    """Says that it reads more than any number in a row."""

    def traffic(self) -> Traffic:
        return Traffic(M**60, M * N)


@dataclass(frozen=True)
class Unsafe(Double):
    """Takes no maximum; as Triton's, it is judged and not timed where there is no card."""

    backend = "triton"

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        e = x.exp()
        return e / e.sum(-1, keepdim=True)
