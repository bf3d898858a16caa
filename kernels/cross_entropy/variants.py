"""The variants of cross-entropy, log-softmax and logsumexp: by tiles, chosen, and by PyTorch.

Passes:
- online, the streaming kernels of `rows`: the loss, and log-probability with entropy, MN, and the
  target's logit of each row again; the loss writes the row's logsumexp for a gradient too. The
  gradient from a known logsumexp 2MN. Loss and gradient in one call 2MN if N ≤ 16384, else 3MN in
  two launches. With few rows several programs share a row: each writes 8 bytes per chunk, which are
  read again; the formulas leave out these at most 16 chunks per row.
- logsumexp, MN. log-softmax, 2MN; by tiles 3MN if N > 16384, as loss and gradient.
- auto: MN, or 2MN with a gradient; 3MN if a row does not fit a cluster's registers. The public
  functions launch it too.
- The gradient of log-probability and entropy from a row's logsumexp and entropy is elementwise:
  2MN. Both numbers and the gradient are two launches, as an autograd function makes them: 3MN.
- naive, as a reader of source C writes it: softmax (MN, MN), log (MN, MN), the target's (M, M),
  the sign (M, M): 4MN + 4M. It takes a logarithm of what was rounded: in float16 a probability
  below 6e-8 is 0 and the loss infinite.
- torch, `F.cross_entropy`: log_softmax (MN, MN), nll_loss (M, M and a number): 2MN + 2M + 1.
- loss and gradient by torch: that and its backward, which fills a gradient of the log-probabilities
  with zeros (M, MN) and goes through log_softmax (2MN, MN).
- log-probability and entropy by torch: log_softmax, the target's, exp, product, sum, sign.
  `torch.logsumexp` is one function of five operations, each a pass of its own, counted as one.
- compiled: what Inductor makes of the formula, nominally the compulsory traffic. PyTorch has no
  function that takes a gradient from a kept logsumexp; compiled does so.
On chip: a tile, for loss and gradient in one call a row of up to 16384 elements, or a cluster's
row; of PyTorch's one element, or nominally the row.
Source: `rows`, which describes the algorithm; source C's "Fused Softmax + Cross-Entropy Loss";
`torch.nn.functional.cross_entropy`.
What auto chooses is in docs/kernels.md, and follows from `clustered` and `SHORT_ROW`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Annotated

import sympy
import torch
import torch.nn.functional as F
from typing_extensions import override

from ..cluster.cut import reading
from ..compiled import CompiledFormula
from ..device import Device, device_of
from ..kernel import Shape, TorchFunction, power_of_two, variant, with_gradient
from ..language import MOST_PROGRAMS
from ..traffic import M, N, Traffic, by_width, parts_of
from . import rows
from .cluster import A_NUMBER, MATRIX, NUMBERS, CeCluster, has_narrow
from .operation import (
    CROSS_ENTROPY,
    CROSS_ENTROPY_BACKWARD,
    CROSS_ENTROPY_GRAD,
    LOG_SOFTMAX,
    LOGPROB_ENTROPY,
    LOGPROB_ENTROPY_BACKWARD,
    LOGPROB_ENTROPY_GRAD,
    LOGSUMEXP,
)
from .rows import ELEMENTS, HELD, NARROW, PER_LANE, Call, RowVariant

# Columns up to which the gradient of a known logsumexp is by clusters: there tiles read the ends of
# unaligned rows element by element, and give a row's last columns a program of their own
SHORT_ROW = 5120
TILE, WARPS = 4096, 8  # elements of a tile of the gradient of numbers of rows, and its warps
WIDEST = 1 << 19  # elements of a row on chip; twice as many of 16 bit
Pair = tuple[torch.Tensor, torch.Tensor]
ROWS = 24 * M * parts_of(TILE)  # bytes of a row's numbers, for each tile


# --- by tiles ---


@dataclass(frozen=True)
class Streaming(RowVariant):
    """A program takes one row, or a few narrow rows, tile by tile.

    Attributes:
        block_size: Elements of a tile, for rows wider than 2048; None takes 32 per thread.
        num_warps: Warps per program; None decides by the width.
    """

    block_size: Annotated[int | None, power_of_two(1, 1 << 16)] = None
    num_warps: Annotated[int | None, power_of_two(1, 32)] = None

    @override
    def run(self, call: Call) -> None:
        rows.run(call._replace(block_size=self.block_size, num_warps=self.num_warps))

    @override
    def limits(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        if shape[0] * -(-shape[1] // (self.block_size or ELEMENTS)) > MOST_PROGRAMS:
            return f"starts up to a program a tile, and a launch takes {MOST_PROGRAMS}"
        return None

    @override
    def on_chip_elements(self) -> sympy.Expr:
        return sympy.Integer(self.block_size or 32 * (self.num_warps or 4) * PER_LANE)


CeOnline = variant(Streaming, CROSS_ENTROPY, moves=NUMBERS, beside=("lse",))
LogprobEntropyOnline = variant(Streaming, LOGPROB_ENTROPY, moves=NUMBERS)
LogSumExpOnline = variant(Streaming, LOGSUMEXP, moves=A_NUMBER)


class CeBackward(Streaming):
    """The gradient of a known logsumexp, see `run`; tiles have 2048 elements if not asked."""

    operation = CROSS_ENTROPY_BACKWARD

    @override
    def run(self, call: Call) -> None:
        run(call._replace(block_size=self.block_size, num_warps=self.num_warps))

    @override
    def traffic(self) -> Traffic:
        """See `Kernel`: of tiles, whose programs read a row's target, lse and dloss.

        A cluster reads the target's logit again in place of the lse, and writes its element twice.
        """
        return Traffic(M * N, M * N, read_bytes=16 * M * parts_of(self.block_size or ELEMENTS))

    @override
    def on_chip_elements(self) -> sympy.Expr:
        return sympy.Integer(self.block_size or ELEMENTS)


CeBackwardInPlace = variant(CeBackward, CROSS_ENTROPY_BACKWARD, overwrites="logits")


class CeGradOnline(Streaming):
    """Loss, logsumexp and gradient in one call, or log-softmax; see `Streaming`."""

    operation = CROSS_ENTROPY_GRAD
    beside = ("lse",)

    @override
    def traffic(self) -> Traffic:
        """See `Kernel`; for a wide row each writing program reads the target, m and the sum."""
        parts = M * parts_of(self.block_size or ELEMENTS)
        targets = M * (len(self.operation.inputs) - 1)  # none for log-softmax
        of_part = 16 if self.operation is CROSS_ENTROPY_GRAD else 8
        return Traffic(
            reads=by_width(HELD, M * N + targets, 2 * M * N + targets),
            writes=M * N,
            read_bytes=8 * targets + by_width(HELD, 0, of_part * parts),
            write_bytes=8 * targets + by_width(HELD, 0, 8 * M),
        )

    @override
    def on_chip_elements(self) -> sympy.Expr:
        return by_width(HELD, N, 32 * 4 * PER_LANE)


LogSoftmaxOnline = variant(CeGradOnline, LOG_SOFTMAX, beside=())
CeGradInPlace = variant(CeGradOnline, CROSS_ENTROPY_GRAD, overwrites="logits")


# --- chosen ---

CLUSTER, ONLINE = CeCluster(), CeOnline()  # for what all of their kind have in common


def run(call: Call) -> None:
    """Like `rows.run`, by clusters where they are faster; these read ignored rows too."""
    dloss = call.dloss
    if dloss is not None and dloss.numel() > 1 and dloss.stride(0) == 0:  # one number, expanded
        call = call._replace(dloss=dloss[:1])
    if clustered(call):
        CLUSTER.run(call)
    else:
        rows.run(call)


def clustered(call: Call) -> bool:
    """Whether `run` uses clusters; the answer does not depend on M.

    A cluster that holds a short row computes its known logsumexp anew.
    """
    x, written, dloss = call.x, call.matrix, call.dloss
    dense, asked = dloss is None or dloss.is_contiguous(), call.block_size or call.num_warps
    if x.numel() == 0 or call.weight is not None or asked or not dense:
        return False  # streaming alone takes these
    if call.known and (call.kind != "loss" or x.shape[1] > SHORT_ROW):
        return False
    (width, ends), shape = reading(x, written), (x.shape[0], x.shape[1])
    several, gradient = has_narrow(call, width, ends), call.dlogits is not None
    return _suits(shape, x.dtype, device_of(x), width, several, gradient)


@lru_cache(maxsize=4096)
def _suits(
    shape: Shape,
    dtype: torch.dtype,
    device: Device,
    width: int,
    several: bool,
    gradient: bool,
) -> bool:
    """The rule, as measured; ``several`` is `has_narrow` of rows read by vectors of ``width``."""
    if CLUSTER.unsupported(shape, dtype, device) is not None:
        return False
    plan, cols = CLUSTER.plan(shape, dtype, width, device), shape[1]
    return plan is not None and (gradient or cols > NARROW or several)


class Chooses(RowVariant):
    """One cluster per row where that is faster, else tiles. It has no tunables."""

    on_chip = by_width(WIDEST, N, ONLINE.on_chip_elements())

    @override
    def limits(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        by_cluster = CLUSTER.unsupported(shape, dtype, device) is None
        return None if by_cluster else ONLINE.unsupported(shape, dtype, device)

    @override
    def run(self, call: Call) -> None:
        run(call)


CeAuto = variant(Chooses, CROSS_ENTROPY, moves=NUMBERS, beside=("lse",))
LogprobEntropyAuto = variant(Chooses, LOGPROB_ENTROPY, moves=NUMBERS)
LogSumExpAuto = variant(Chooses, LOGSUMEXP, moves=A_NUMBER)
# By an H200, whose clusters hold `WIDEST` float32 elements. They write each target's element twice,
# M more in all.
CeGradAuto = variant(
    Chooses,
    CROSS_ENTROPY_GRAD,
    moves=Traffic(
        by_width(WIDEST, M * N + M, 2 * M * N + M), M * N, read_bytes=8 * M, write_bytes=4 * M
    ),
)
OF_AUTO = Traffic(by_width(WIDEST, M * N, 2 * M * N), M * N)
LogSoftmaxAuto = variant(Chooses, LOG_SOFTMAX, moves=OF_AUTO)


class LogprobEntropyBackwardAuto(RowVariant):
    """The gradient of both answers; of one alone where the other's is None."""

    operation = LOGPROB_ENTROPY_BACKWARD
    moves = Traffic(reads=M * N, writes=M * N, read_bytes=ROWS)
    on_chip = sympy.Integer(TILE)

    @override
    def run(self, call: Call) -> None:
        rows.run(call._replace(block_size=TILE, num_warps=WARPS))


class LogprobEntropyGradAuto(Chooses):
    """Both answers and the gradient of their sum, by two launches."""

    operation = LOGPROB_ENTROPY_GRAD
    moves = Traffic(reads=2 * M * N + M, writes=M * N, read_bytes=8 * M + ROWS, write_bytes=16 * M)
    beside = ("lse",)

    @override
    def run(self, call: Call) -> None:
        run(call._replace(dlogits=None))
        ones = torch.ones(len(call.x), device=call.x.device)
        LogprobEntropyBackwardAuto().run(call._replace(dlogprob=ones, dentropy=ones))


# --- by PyTorch ---


def _naive(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    p = torch.softmax(logits, dim=1)
    return -torch.log(p).gather(1, target[:, None]).squeeze(1)


def _logprob_entropy(logits: torch.Tensor, target: torch.Tensor) -> Pair:
    logp = torch.log_softmax(logits, 1)
    return logp.gather(1, target[:, None]).squeeze(1), -(logp.exp() * logp).sum(1)


CeNaive = variant(
    TorchFunction,
    CROSS_ENTROPY,
    function=_naive,
    backend="eager",
    moves=Traffic(reads=2 * M * N + 2 * M, writes=2 * M * N + 2 * M, read_bytes=8 * M),
    on_chip=sympy.Integer(1),
)
CeTorch = variant(
    TorchFunction,
    CROSS_ENTROPY,
    function=partial(F.cross_entropy, reduction="none"),
    moves=Traffic(reads=M * N + M, writes=M * N + M + 1, read_bytes=8 * M),
    on_chip=N,
)
CeGradTorch = variant(
    CeTorch,
    CROSS_ENTROPY_GRAD,
    function=partial(with_gradient, CeTorch.function),
    backend="eager",  # log-probabilities are rounded to the dtype before the gradient is taken
    moves=Traffic(reads=3 * M * N + 2 * M + 1, writes=3 * M * N + 2 * M + 1, read_bytes=16 * M),
)
LogprobEntropyTorch = variant(
    CeNaive,
    LOGPROB_ENTROPY,
    function=_logprob_entropy,
    moves=Traffic(reads=5 * M * N + 2 * M, writes=3 * M * N + 3 * M, read_bytes=8 * M),
)


def _loss(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits.float(), target, reduction="none")


def _backward(
    logits: torch.Tensor, target: torch.Tensor, lse: torch.Tensor, dloss: torch.Tensor
) -> torch.Tensor:
    chosen = torch.arange(logits.shape[1], device=logits.device) == target[:, None]
    p = (logits.float() - lse[:, None]).exp()
    return ((p - chosen.float()) * dloss[:, None]).to(logits.dtype)


def _loss_and_gradient(logits: torch.Tensor, target: torch.Tensor) -> Pair:
    lse = logits.float().logsumexp(1)
    loss = lse - logits.gather(1, target[:, None]).squeeze(1)
    return loss, _backward(logits, target, lse, torch.ones_like(lse))


CeCompiled = variant(CompiledFormula, CROSS_ENTROPY, formula=_loss)
CeBackwardCompiled = variant(CompiledFormula, CROSS_ENTROPY_BACKWARD, formula=_backward)
CeGradCompiled = variant(CompiledFormula, CROSS_ENTROPY_GRAD, formula=_loss_and_gradient)
LogprobEntropyCompiled = variant(
    CompiledFormula,
    LOGPROB_ENTROPY,
    formula=lambda logits, target: _logprob_entropy(logits.float(), target),
)
LogSoftmaxTorch = variant(
    TorchFunction,
    LOG_SOFTMAX,
    function=lambda x: torch.log_softmax(x, dim=1),
    moves=MATRIX,
    on_chip=N,
)
LogSumExpTorch = variant(
    TorchFunction,
    LOGSUMEXP,
    function=lambda x: torch.logsumexp(x, dim=1),
    moves=Traffic(reads=M * N, writes=M),
    on_chip=N,
)
LogSoftmaxCompiled = variant(
    CompiledFormula, LOG_SOFTMAX, formula=lambda x: torch.log_softmax(x, 1)
)
LogSumExpCompiled = variant(CompiledFormula, LOGSUMEXP, formula=lambda x: x.float().logsumexp(1))


def _backward_of_numbers(
    logits: torch.Tensor, target: torch.Tensor, *rows: torch.Tensor
) -> torch.Tensor:
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
    return logprob, entropy, _backward_of_numbers(logits, target, lse, ones, entropy, ones)


LogprobEntropyGradTorch = variant(
    LogprobEntropyTorch,
    LOGPROB_ENTROPY_GRAD,
    function=partial(with_gradient, LogprobEntropyTorch.function),
    moves=Traffic(reads=16 * M * N + 6 * M, writes=11 * M * N + 5 * M, read_bytes=16 * M),
)
LogprobEntropyBackwardCompiled = variant(
    CompiledFormula, LOGPROB_ENTROPY_BACKWARD, formula=_backward_of_numbers
)
LogprobEntropyGradCompiled = variant(CompiledFormula, LOGPROB_ENTROPY_GRAD, formula=_with_gradient)
