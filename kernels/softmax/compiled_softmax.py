"""`torch.softmax` through `torch.compile`, as a compiled program runs it.

Passes: nominally one, 2MN. Inductor takes softmax apart by rules of its own, other than the five
operations of `compiled`, and gets other kernels of it: the faster of the two depends on the shape.
On chip: nominally the row, N elements.
Source: `torch.compile` with `dynamic=False`, one static graph a shape, as `compiled`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import torch
from typing_extensions import override

from ..kernel import Kernel, one_of
from ..traffic import M, N, Traffic
from .compiled import MODES, compile_once
from .operation import SOFTMAX


@dataclass(frozen=True)
class CompiledSoftmax(Kernel):
    """`torch.softmax` along the rows, compiled afresh for each shape.

    Attributes:
        mode: Inductor's, ``"default"`` or ``"max-autotune-no-cudagraphs"``.
    """

    operation = SOFTMAX
    backend = "inductor"
    dtypes = (*Kernel.dtypes, torch.float64)
    moves = Traffic(reads=M * N, writes=M * N)
    on_chip = N

    mode: Annotated[str, one_of(*MODES)] = "default"

    @override
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """See `Kernel`. It compiles at every call; `prepare` does so once.

        Raises:
            NotCompiled: see `compile_once`.
        """
        return self.prepare(x)(x)

    @override
    def prepare(self, x: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
        """The function compiled for inputs with the shape, strides and dtype of ``x``."""
        return compile_once(_softmax, self.mode, x)


def _softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, dim=1)
