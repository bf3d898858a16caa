"""The sum of q, k and v: three tensors of attention are read and one is written."""

from __future__ import annotations

import torch
from typing_extensions import override

from ..attention.operation import OfHeads


class AttentionIo(OfHeads):
    """y = q + k + v, of the shapes that attention has at D = 128."""

    name = "attention_io"
    roof = "attention_io"

    @override
    def reference(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return q.double() + k.double() + v.double()

    @override
    def magnitude(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """See `Operation`: |q| + |k| + |v|."""
        return q.double().abs() + k.double().abs() + v.double().abs()


ATTENTION_IO = AttentionIo()
