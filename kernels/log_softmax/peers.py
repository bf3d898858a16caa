"""Logsumexp and the gradient of log-probability and entropy by public libraries, peers.

- QuACK's loss writes its logsumexp too: MN for both, of any targets.
- fla's writes the logsumexp of each 65536 columns, which PyTorch's then adds up: MN.
- TRL's gradient is elementwise, 2MN after its numbers' MN. It is called as autograd calls it.
On chip: QuACK's row, in a cluster; up to 65536 elements of a row; a tile.
Source: `fla/ops/utils/logsumexp.py` (`logsumexp_fwd`) of the package fla-core; the others' are in
`kernels.cross_entropy.peers`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy
import torch
from typing_extensions import override

from ..cross_entropy.peers import TRL_TILE, CeQuack, LogprobEntropyTrl
from ..kernel import variant, with_gradient
from ..peer import FLA, Peer
from ..traffic import M, N, Traffic
from .operation import LOGPROB_ENTROPY_GRAD, LOGSUMEXP

FLA_TILE = 65536


class LogSumExpQuack(CeQuack):  # type: ignore[misc,valid-type]
    """What QuACK's loss writes beside it; the targets are the first column."""

    operation = LOGSUMEXP
    called = staticmethod(lambda function, *inputs: function(*inputs, return_lse=True)[1])

    @override
    def function(self, *inputs: torch.Tensor) -> Callable[..., Any]:
        target = torch.zeros(len(inputs[0]), dtype=torch.int64, device=inputs[0].device)
        call = super().function()
        return lambda x: call(x, target)


LogSumExpFla = variant(
    Peer,
    LOGSUMEXP,
    library=FLA,
    published="fla.ops.utils.logsumexp:logsumexp_fwd",
    moves=Traffic(
        reads=M * N,
        read_bytes=4 * M * sympy.ceiling(N / sympy.Integer(FLA_TILE)),
        write_bytes=4 * M + 4 * M * sympy.ceiling(N / sympy.Integer(FLA_TILE)),
    ),
    on_chip=sympy.Min(N, FLA_TILE),
)
LogprobEntropyGradTrl = variant(  # by its backward pass
    LogprobEntropyTrl,
    LOGPROB_ENTROPY_GRAD,
    called=staticmethod(with_gradient),
    moves=Traffic(
        reads=2 * M * N + M,
        writes=M * N,
        read_bytes=8 * M + 24 * M * sympy.ceiling(N / sympy.Integer(TRL_TILE)),
        write_bytes=24 * M,
    ),
)
