"""Log-softmax, logsumexp, and the gradient of log-probability and entropy of each row.

By the kernels of cross-entropy, by PyTorch, compiled.

Passes:
- logsumexp: one, MN.
- log-softmax by a cluster that keeps the row on chip (Gluon, sm_90 and up): one, 2MN.
- log-softmax by tiles: one, 2MN, where N ≤ 16384, else two, 3MN.
- auto is the cluster where it is faster, else tiles; the rule is in `cross_entropy/variants`.
- The gradient of log-probability and entropy from a row's logsumexp and entropy is elementwise:
  2MN. Both numbers and the gradient are two launches, as an autograd function makes them: 3MN.
- PyTorch and Inductor: nominally the compulsory ones. `torch.logsumexp` is one function of five
  operations, each a pass of its own. Hardware counters show their traffic.
On chip: the row of a cluster; a tile, or of log-softmax a row of up to 16384 elements.
Source: `kernels.cross_entropy.cluster`, `kernels.cross_entropy.rows`; `torch.log_softmax`,
`torch.logsumexp`.
"""

from __future__ import annotations

from functools import partial

import sympy
import torch
from typing_extensions import override

from ..calls import Maybe
from ..compiled import CompiledFormula
from ..cross_entropy.cluster import RowCluster
from ..cross_entropy.rows import HELD, MOVED
from ..cross_entropy.variants import HELD_OR_TILE, WIDEST, Chooses, LogprobEntropyTorch, Streaming
from ..kernel import Kernel, Tensors, TorchFunction, variant, with_gradient
from ..traffic import M, N, Traffic
from .functions import GRADIENT, NUMBERS, TILE
from .operation import LOG_SOFTMAX, LOGPROB_ENTROPY_BACKWARD, LOGPROB_ENTROPY_GRAD, LOGSUMEXP

MATRIX = Traffic(reads=M * N, writes=M * N)
A_NUMBER = Traffic(reads=M * N, write_bytes=4 * M)
ROWS = 24 * M * sympy.ceiling(N / sympy.Integer(TILE))  # bytes of a row's numbers, for each tile


LogSumExpOnline = variant(Streaming, LOGSUMEXP, moves=A_NUMBER)
LogSumExpCluster = variant(RowCluster, LOGSUMEXP, moves=A_NUMBER)
LogSumExpAuto = variant(Chooses, LOGSUMEXP, moves=A_NUMBER)


class LogSoftmaxOnline(Streaming):
    """Log-softmax of each row; see `Streaming`."""

    operation = LOG_SOFTMAX

    @override
    def traffic(self) -> Traffic:
        """See `Kernel`; of a wide row a program that writes reads the row's m and sum."""
        held, parts = N <= HELD, M * sympy.ceiling(N / sympy.Integer(self.block_size or MOVED))
        return Traffic(
            reads=sympy.Piecewise((M * N, held), (2 * M * N, True)),
            writes=M * N,
            read_bytes=sympy.Piecewise((0, held), (8 * parts, True)),
            write_bytes=sympy.Piecewise((0, held), (8 * M, True)),
        )

    @override
    def on_chip_elements(self) -> sympy.Expr:
        return HELD_OR_TILE


LogSoftmaxCluster = variant(RowCluster, LOG_SOFTMAX, moves=MATRIX)
# by an H200's clusters
OF_AUTO = Traffic(reads=sympy.Piecewise((M * N, N <= WIDEST), (2 * M * N, True)), writes=M * N)
LogSoftmaxAuto = variant(Chooses, LOG_SOFTMAX, moves=OF_AUTO)


LogSoftmaxTorch = variant(
    TorchFunction,
    LOG_SOFTMAX,
    function=staticmethod(lambda x: torch.log_softmax(x, dim=1)),
    moves=MATRIX,
    on_chip=N,
)
LogSumExpTorch = variant(
    TorchFunction,
    LOGSUMEXP,
    function=staticmethod(lambda x: torch.logsumexp(x, dim=1)),
    moves=Traffic(reads=M * N, writes=M),
    on_chip=N,
)
LogSoftmaxCompiled = variant(
    CompiledFormula, LOG_SOFTMAX, formula=staticmethod(lambda x: torch.log_softmax(x, 1))
)
LogSumExpCompiled = variant(
    CompiledFormula, LOGSUMEXP, formula=staticmethod(lambda x: x.float().logsumexp(1))
)


class LogprobEntropyBackwardAuto(Kernel):
    """The gradient of both answers; of one alone where the other's is None."""

    operation = LOGPROB_ENTROPY_BACKWARD
    backend = "triton"
    moves = Traffic(reads=M * N, writes=M * N, read_bytes=ROWS)
    on_chip = sympy.Integer(TILE)

    @override
    def __call__(self, logits: torch.Tensor, target: torch.Tensor, *rows: Maybe) -> torch.Tensor:
        lse, dlogprob, entropy, dentropy = rows
        logits, target = NUMBERS.rows((logits, target), (1.0,))
        given = logits, target, entropy, lse, dlogprob, dentropy
        dlogits = torch.empty(logits.shape, dtype=logits.dtype, device=logits.device)
        GRADIENT.work(*given, 1.0)(*given, dlogits)
        return dlogits


class LogprobEntropyGradAuto(Kernel):
    """Both answers and the gradient of their sum, by two launches."""

    operation = LOGPROB_ENTROPY_GRAD
    backend = "triton"
    moves = Traffic(reads=2 * M * N + M, writes=M * N, read_bytes=8 * M + ROWS, write_bytes=16 * M)
    on_chip = Chooses.on_chip

    @override
    def __call__(self, logits: torch.Tensor, target: torch.Tensor) -> Tensors:
        rows = NUMBERS.rows((logits, target), (1.0,))
        logprob, entropy, lse = torch.empty((3, len(logits)), device=logits.device)
        NUMBERS.work(*rows, 1.0)(*rows, logprob, entropy, lse)
        ones = torch.ones_like(lse)
        call = LogprobEntropyBackwardAuto()
        return logprob, entropy, call(*rows, lse, ones, entropy, ones)


def _backward(logits: torch.Tensor, target: torch.Tensor, *rows: torch.Tensor) -> torch.Tensor:
    lse, dlogprob, entropy, dentropy = (each[:, None] for each in rows)
    logp = logits.float() - lse
    chosen = torch.arange(logits.shape[1], device=logits.device) == target[:, None]
    share = logp.exp() * (dlogprob + dentropy * (logp + entropy))
    return (torch.where(chosen, dlogprob, 0.0) - share).to(logits.dtype)


def _with_gradient(logits: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, ...]:
    lse = logits.float().logsumexp(1)
    logp = logits.float() - lse[:, None]
    entropy, ones = -(logp.exp() * logp).sum(1), torch.ones_like(lse)
    logprob = logp.gather(1, target[:, None]).squeeze(1)
    return logprob, entropy, _backward(logits, target, lse, ones, entropy, ones)


LogprobEntropyGradTorch = variant(
    LogprobEntropyTorch,
    LOGPROB_ENTROPY_GRAD,
    function=staticmethod(partial(with_gradient, LogprobEntropyTorch.function)),
    moves=Traffic(reads=16 * M * N + 6 * M, writes=11 * M * N + 5 * M, read_bytes=16 * M),
)
LogprobEntropyBackwardCompiled = variant(
    CompiledFormula, LOGPROB_ENTROPY_BACKWARD, formula=staticmethod(_backward)
)
LogprobEntropyGradCompiled = variant(
    CompiledFormula, LOGPROB_ENTROPY_GRAD, formula=staticmethod(_with_gradient)
)
