"""Softmax variants that lie, raise, slow down or take their process along, and one that behaves."""

import contextlib
import ctypes
import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import torch

from kernels.cross_entropy.variants import LogprobEntropyTorch
from kernels.kernel import Kernel, Operation
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


@dataclass(frozen=True)
class Bad(Good):
    """Misbehaves at each call, or declares what cannot be, as ``how`` says."""

    how: str = ""

    def traffic(self) -> Traffic:
        reads = {"negative": M * N - 100, "vast": M**60}  # less than nothing in a small matrix
        return Traffic(reads.get(self.how, M * N), M * N)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        y = super().__call__(x)
        match self.how:
            case "slow":  # enough to be met at work
                time.sleep(0.03)
            case "hang":
                time.sleep(1e6)
            case "wrong":
                y[:, -1] = 0
            case "raise":
                raise RuntimeError("first line\nsecond line of /home/someone/secret/file.py")
            case "segfault" if x.shape[1] % 2 == 0:
                ctypes.string_at(0)
            case "exhaust":  # a petabyte
                y = torch.empty(1 << 50, dtype=torch.uint8, device=x.device)
            case "print":  # text, bytes that are no text, and more than any log should take
                print("from a kernel\nhalf a pair: \ud800", flush=True)
                for _ in range(60):
                    os.write(1, b"\xfe" * 99_999 + b"\n")
            case "meddle":  # on every pipe that its process has open, its worker's too
                for descriptor in range(3, 64):
                    with contextlib.suppress(OSError):
                        if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                            os.write(descriptor, b"this is not a message\n")
            case "illegal":  # far outside: on CUDA that loses the context for the whole process
                y += x.flatten()[torch.full((x.shape[1],), 1 << 40, device=x.device)]
        return y


class Unsafe(Good):
    """Takes no maximum; as Triton's, it is judged and not timed where there is no card."""

    backend = "triton"

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        e = x.exp()
        return e / e.sum(-1, keepdim=True)


@dataclass(frozen=True)
class Moody(Good):
    """Is another at some of its calls, by their number since it was prepared, from 1."""

    how: str = ""
    after: int = 0

    def prepare(self, x: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:  # type: ignore[override]
        calls = count(1)
        return lambda x: self.nth(next(calls), x)

    def nth(self, n: int, x: torch.Tensor) -> torch.Tensor:
        late, y = n > self.after, self(x)
        if self.how == "spoils" and late:  # for the input that it leaves, its answer is right
            return self(x.zero_())
        if self.how == "wrong" and late:
            return torch.zeros_like(x)
        off = {"calls": n % 2 == 0, "rows": len(x) > 4}
        return torch.nextafter(y, torch.ones_like(y)) if off.get(self.how) else y


@dataclass(frozen=True)
class TwoOutputs(LogprobEntropyTorch):
    """Two numbers of each row; ``wrong`` spoils the second."""

    wrong: bool = False

    def __call__(self, logits: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, ...]:
        logprob, entropy = super().__call__(logits, target)
        return logprob, entropy * 1.001 if self.wrong else entropy


class Grow(Operation):
    """y = 1000·x, which a few calls on its own answers make infinite."""

    name = "grow"

    def reference(self, x: torch.Tensor) -> torch.Tensor:
        return 1000 * x.double()


@dataclass(frozen=True)
class GrowInPlace(Kernel):
    """Leaves its answer in its input, as it says."""

    operation = Grow()
    backend = "torch"
    overwrites = "x"
    moves = Traffic(M * N, M * N)
    on_chip = N

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x.mul_(1000)
