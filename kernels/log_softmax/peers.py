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
from functools import partial
from typing import Any

import sympy
import torch
from typing_extensions import override

from ..cross_entropy.peers import TRL_TILE, CeQuack, LogprobEntropyTrl
from ..kernel import with_gradient
from ..peer import FLA, Peer
from ..traffic import M, N, Traffic
from .operation import LOGPROB_ENTROPY_GRAD, LOGSUMEXP

FLA_TILE = 65536


class LogSumExpQuack(CeQuack):
    """What QuACK's loss writes beside it; the targets are the first column."""

    operation = LOGSUMEXP

    @override
    def function(self, *inputs: torch.Tensor) -> Callable[..., Any]:
        from quack.cross_entropy import cross_entropy_fwd

        target = torch.zeros(len(inputs[0]), dtype=torch.int64, device=inputs[0].device)
        return lambda x: cross_entropy_fwd(x, target, return_lse=True)[1]


class LogSumExpFla(Peer):
    """The logsumexp of each row, of the package fla-core."""

    operation = LOGSUMEXP
    library = FLA
    moves = Traffic(
        reads=M * N,
        read_bytes=4 * M * sympy.ceiling(N / sympy.Integer(FLA_TILE)),
        write_bytes=4 * M + 4 * M * sympy.ceiling(N / sympy.Integer(FLA_TILE)),
    )
    on_chip = sympy.Min(N, FLA_TILE)

    @override
    def function(self, *inputs: torch.Tensor) -> Callable[..., Any]:
        from fla.ops.utils.logsumexp import logsumexp_fwd

        return lambda x: logsumexp_fwd(x)


class LogprobEntropyGradTrl(LogprobEntropyTrl):
    """TRL's log-probability and entropy, and by its backward pass the gradient of their sum."""

    operation = LOGPROB_ENTROPY_GRAD
    moves = Traffic(
        reads=2 * M * N + M,
        writes=M * N,
        read_bytes=8 * M + 24 * M * sympy.ceiling(N / sympy.Integer(TRL_TILE)),
        write_bytes=24 * M,
    )

    @override
    def function(self, *inputs: torch.Tensor) -> Callable[..., Any]:
        return partial(with_gradient, super().function(*inputs))
