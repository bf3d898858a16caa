"""Kernels that are wrong, slow, raise or kill their process, each on purpose; and a good one."""

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
    """A right softmax."""

    operation = SOFTMAX
    backend = "torch"
    moves = Traffic(M * N, M * N)
    on_chip = N

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, dim=-1)


@dataclass(frozen=True)
class Bad(Good):
    """A softmax with the fault ``how``, in each call or in the traffic that it declares."""

    how: str = ""

    def traffic(self) -> Traffic:
        reads = {"negative": M * N - 100, "vast": M**60}  # below zero for a small matrix
        return Traffic(reads.get(self.how, M * N), M * N)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        y = super().__call__(x)
        match self.how:
            case "slow":  # so that a test can interrupt it
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
            case "print":  # text, bytes that are no text, and more than a worker's log may hold
                print("from a kernel\nhalf a pair: \ud800", flush=True)
                for _ in range(60):
                    os.write(1, b"\xfe" * 99_999 + b"\n")
            case "meddle":  # writes to all open sockets of the process, the worker's too
                for descriptor in range(3, 64):
                    with contextlib.suppress(OSError):
                        if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                            os.write(descriptor, b"this is not a message\n")
            case "illegal":  # reads far outside: on CUDA the whole process loses its context
                y += x.flatten()[torch.full((x.shape[1],), 1 << 40, device=x.device)]
        return y


class Unsafe(Good):
    """Subtracts no maximum. Its backend is Triton's: without a card it is checked, not timed."""

    backend = "triton"

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        e = x.exp()
        return e / e.sum(-1, keepdim=True)


@dataclass(frozen=True)
class Moody(Good):
    """A softmax that misbehaves in some of its calls, by ``how`` and the number of the call."""

    how: str = ""
    after: int = 0  # the last call, counted from 1 since `prepare`, that is right

    def prepare(self, x: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:  # type: ignore[override]
        calls = count(1)
        return lambda x: self.nth(next(calls), x)

    def nth(self, n: int, x: torch.Tensor) -> torch.Tensor:
        late, y = n > self.after, self(x)
        if self.how == "spoils" and late:  # changes the input, and gives the right answer for that
            return self(x.zero_())
        if self.how == "wrong" and late:
            return torch.zeros_like(x)
        off = {"calls": n % 2 == 0, "rows": len(x) > 4}
        return torch.nextafter(y, torch.ones_like(y)) if off.get(self.how) else y


@dataclass(frozen=True)
class TwoOutputs(LogprobEntropyTorch):
    """Returns log-probability and entropy; with ``wrong`` the second is wrong."""

    wrong: bool = False

    def __call__(self, logits: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, ...]:
        logprob, entropy = super().__call__(logits, target)
        return logprob, entropy * 1.001 if self.wrong else entropy


class Grow(Operation):
    """y = 1000·x; a few calls in a row on its own answers give infinity."""

    name = "grow"

    def reference(self, x: torch.Tensor) -> torch.Tensor:
        return 1000 * x.double()


@dataclass(frozen=True)
class GrowInPlace(Kernel):
    """Overwrites its input with its answer, and declares that."""

    operation = Grow()
    backend = "torch"
    overwrites = "x"
    moves = Traffic(M * N, M * N)
    on_chip = N

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x.mul_(1000)
