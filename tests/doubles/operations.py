"""Operations of other forms than softmax's: several inputs and outputs, other dtypes, in place."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kernels.kernel import Array, Kernel, Operation, Shape
from kernels.traffic import M, N, Traffic


class Loss(Operation):
    """The cross-entropy of each row with its target, and its log-sum-exp, both float32."""

    name = "loss"
    inputs = (Array("x"), Array("target", (M,), torch.int64))
    outputs = (Array("loss", (M,), torch.float32), Array("lse", (M,), torch.float32))
    flops = 4 * M * N
    exponentials = M * N

    def make_inputs(
        self, shape: Shape, dtype: torch.dtype, device: torch.device | str, seed: int
    ) -> tuple[torch.Tensor, ...]:
        generator = torch.Generator(device).manual_seed(seed)
        x = torch.randn(shape, dtype=dtype, device=device, generator=generator)
        return x, torch.randint(shape[1], shape[:1], device=device, generator=generator)

    def reference(self, x: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        lse = torch.logsumexp(x.double(), 1)
        return lse - x.double().gather(1, target[:, None])[:, 0], lse

    def magnitude(self, x: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        loss, lse = self.reference(x, target)
        return loss.abs() + 2 * lse.abs(), lse.abs() + x.double().abs().amax(1)


LOSS = Loss()


@dataclass(frozen=True)
class TorchLoss(Kernel):
    """By PyTorch's operations; ``wrong`` spoils one of the outputs."""

    operation = LOSS
    backend = "torch"
    moves = Traffic(M * N, 0 * M, read_bytes=8 * M, write_bytes=8 * M)
    on_chip = N

    wrong: str = ""

    def __call__(self, x: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        lse = torch.logsumexp(x.float(), 1)
        loss = torch.nn.functional.cross_entropy(x.float(), target, reduction="none")
        return loss, lse * 1.001 if self.wrong == "lse" else lse


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


class GrowInSilence(GrowInPlace):
    """Does not say so."""

    overwrites = None
