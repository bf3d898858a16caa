"""Cross-entropy by public libraries, peers: QuACK's, Liger-Kernel's, fla's, TRL's, FlagGems'.

Each forward writes something else, and is compared with other kernels:
- QuACK's writes loss and logsumexp, M each, from one reading, MN: as ours. Its backward takes that
  logsumexp, 2MN. Asked for the gradient too (`return_dx`), its forward writes it from the same
  reading, 2MN: compare with the other gradients in one call.
- Liger's, where logits want a gradient, writes it over the logits, from a second reading: 3MN, L2
  may serve part of it. Its users run this once for the loss and the gradient; compare its loss
  with other gradients. Its function asks the device how many rows count, and whether targets
  are in range, and waits for the answer at every call: no timer of the device can tell that wait
  from the kernel, and no CUDA graph can hold it. So its kernel is launched here as the function
  launches it, once the function has answered for these shapes: it is Liger without its checks.
- Liger's in CuTe DSL is the kernel that its fused linear loss picks from sm_90 on; its loss alone
  prefers Triton. The function is the one that the former calls for each chunk of logits, which
  asks the device nothing. It writes the loss from one reading, MN, and asked for the gradient too
  writes that over the logits from a second one, 3MN. Rows are whole 16-byte vectors.
- fla's writes the loss, a z-loss and the logsumexp from one reading, MN, in tiles of 8192 where
  rows have more than 16384 elements; autograd then calls its gradient, which reads again, 2MN.
- TRL's writes log-probability and entropy, and two numbers more for its gradient, from one reading
  by tiles: MN. Its gradient is elementwise, 2MN, and called as autograd calls it.
- Logsumexp: what QuACK's loss writes beside it, MN, of any targets; fla's writes that of each 65536
  columns, which PyTorch then adds up, MN.
- FlagGems' writes loss and the weight of each target in float32, then the loss in the dtype of the
  logits: MN. Its tuner times twelve tiles when it first meets a width.
- Log-softmax: FlagGems' reads rows twice, eight at once by tiles of 256 columns: 3MN.
  TileOPs' is as its softmax, and its logsumexp reads a row once, MN.
On chip: QuACK's row, in a cluster of up to sixteen blocks; else a tile.
Reductions are none: a loss for each row, gradients of their sum.
Source: `quack/cross_entropy.py` (`cross_entropy_fwd`, `cross_entropy_bwd`),
`liger_kernel/ops/cross_entropy.py` (`cross_entropy_forward`),
`liger_kernel/ops/backends/_cutedsl/cross_entropy.py` (`cross_entropy_loss_and_grad_cutedsl`),
`flag_gems/fused/cross_entropy_loss.py` (`cross_entropy_loss`) and `flag_gems/ops/log_softmax.py`
(`log_softmax`), of the packages that `kernels.softmax.peers` names;
`fla/modules/fused_cross_entropy` and `fla/ops/utils/logsumexp.py` (`logsumexp_fwd`) of fla-core;
`trl/kernels/logprob_entropy.py` (`selective_log_softmax_and_entropy`) of trl.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from unittest.mock import patch

import sympy
import torch
from typing_extensions import override

from ..device import Device
from ..kernel import Shape, Tensors, variant, with_gradient
from ..peer import FLA, FLAG_GEMS, LIGER, LIGER_CUTE, QUACK, TRL, VECTOR_BYTES, Peer, row_of_quack
from ..softmax.peers import TileOps
from ..traffic import M, N, Traffic, by_width, parts_of
from .operation import (
    CROSS_ENTROPY,
    CROSS_ENTROPY_BACKWARD,
    CROSS_ENTROPY_GRAD,
    LOG_SOFTMAX,
    LOGPROB_ENTROPY,
    LOGPROB_ENTROPY_GRAD,
    LOGSUMEXP,
)

Call = Callable[..., Any]
WIDEST_CHUNK = 16384  # of a row, that a block of QuACK's backward takes
LIGER_TILE = TILEOPS_TILE = 32768  # in CuTe DSL four tiles of 16 KB on their way
FLA_TILE, FLA_MOVED, TRL_TILE = 16384, 4096, 1024
FLA_LOGSUMEXP_TILE = 65536
# of wider rows the loss and logsumexp of each 8192 columns, which a second kernel adds up
FLA_PARTS = by_width(FLA_TILE, 0, 8 * M * parts_of(8192))
FLAG_GEMS_TILE = 1024  # about: tune_configs.yaml, cross_entropy_loss
FLAG_GEMS_COLUMNS = 256  # of its log-softmax's tile


CeQuack = variant(  # it chooses cluster and threads itself
    Peer,
    CROSS_ENTROPY,
    library=QUACK,
    refused=partial(row_of_quack, 1),
    published="quack.cross_entropy:cross_entropy_fwd",
    called=lambda function, *inputs: function(*inputs, return_lse=True)[0],
    moves=Traffic(reads=M * N + M, read_bytes=8 * M, write_bytes=8 * M),
    on_chip=N,
)
CeGradQuack = variant(
    CeQuack,
    CROSS_ENTROPY_GRAD,
    called=lambda function, *inputs: function(*inputs, return_dx=True),
    moves=Traffic(reads=M * N + M, writes=M * N, read_bytes=8 * M, write_bytes=4 * M),
)


def _chunk_of_row(shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
    """The limit of QuACK's backward, whose block holds a part of a row: any width fits."""
    rows, cols = shape
    part = cols if cols <= WIDEST_CHUNK else WIDEST_CHUNK + cols % VECTOR_BYTES
    return row_of_quack(1, (rows, part), dtype, device)


CeBackwardQuack = variant(
    Peer,
    CROSS_ENTROPY_BACKWARD,
    library=QUACK,
    refused=_chunk_of_row,
    published="quack.cross_entropy:cross_entropy_bwd",
    called=lambda function, x, target, lse, dloss: function(x, target, dloss, lse),
    moves=Traffic(reads=M * N, writes=M * N, read_bytes=16 * M * parts_of(WIDEST_CHUNK)),
    on_chip=sympy.Min(N, WIDEST_CHUNK),
)


class CeLiger(Peer):
    """The loss, and its gradient over the logits, by the kernel of the package liger-kernel."""

    operation = CROSS_ENTROPY
    library = LIGER
    overwrites = "logits"
    moves = Traffic(reads=2 * M * N + M, writes=M * N + 3 * M, read_bytes=8 * M)
    on_chip = sympy.Min(N, LIGER_TILE)

    @override
    def function(self, logits: torch.Tensor, target: torch.Tensor) -> Call:
        """See `Peer`: launches Liger's kernel as its function does for inputs like these."""
        from liger_kernel.ops import cross_entropy as liger

        kernel = liger.liger_cross_entropy_kernel
        leaf = logits.detach().requires_grad_()  # asks for the gradient, in the same memory
        with patch.object(liger, "liger_cross_entropy_kernel") as recorder:
            liger.cross_entropy_forward(leaf, target, None, -100, 0.0, 0.0, "none", None, False)
        given = recorder.__getitem__.return_value.call_args.kwargs

        def call(logits: torch.Tensor, target: torch.Tensor) -> Tensors:
            loss = torch.zeros(len(logits), dtype=logits.dtype, device=logits.device)
            own = {"X_ptr": logits, "X_stride": logits.stride(0), "Y_ptr": target, "loss_ptr": loss}
            kernel[(len(logits),)](**(given | own))
            return loss if self.operation is CROSS_ENTROPY else (loss, logits)

        return call


CeGradLiger = variant(CeLiger, CROSS_ENTROPY_GRAD)  # of the same call the gradient is looked at too


def _in_cute(gradient: bool, function: Call, logits: torch.Tensor, target: torch.Tensor) -> Any:
    neutral = (None, -100, 0.0, 0.0, "none", None, len(logits), 0.0, 0.0, False, False, False)
    loss, *_, dlogits = function(logits, target, *neutral, gradient)
    return (loss, dlogits) if gradient else loss


CeLigerCute = variant(
    Peer,
    CROSS_ENTROPY,
    library=LIGER_CUTE,
    published="liger_kernel.ops.backends._cutedsl.cross_entropy:"
    "cross_entropy_loss_and_grad_cutedsl",
    called=partial(_in_cute, False),
    moves=Traffic(reads=M * N + M, read_bytes=8 * M, write_bytes=8 * M),
    on_chip=sympy.Min(N, LIGER_TILE),
)
CeGradLigerCute = variant(
    CeLigerCute,
    CROSS_ENTROPY_GRAD,
    overwrites="logits",
    called=partial(_in_cute, True),
    moves=Traffic(reads=2 * M * N + M, writes=M * N + M, read_bytes=8 * M, write_bytes=8 * M),
)


CeFla = variant(  # its dispatcher picks Gluon or Triton
    Peer,
    CROSS_ENTROPY,
    library=FLA,
    published="fla.modules.fused_cross_entropy:cross_entropy_loss",
    called=lambda function, *inputs: function(*inputs)[0],
    moves=Traffic(reads=M * N + M, read_bytes=8 * M + FLA_PARTS, write_bytes=12 * M + FLA_PARTS),
    on_chip=sympy.Min(N, FLA_TILE),
)
CeGradFla = variant(
    CeFla,
    CROSS_ENTROPY_GRAD,
    called=lambda function, *inputs: with_gradient(partial(CeFla.called, function), *inputs),
    moves=Traffic(
        reads=2 * M * N + M,
        writes=M * N,
        read_bytes=8 * M + FLA_PARTS + 16 * M * parts_of(FLA_MOVED),
        write_bytes=16 * M + FLA_PARTS,
    ),
)
LogprobEntropyTrl = variant(
    Peer,
    LOGPROB_ENTROPY,
    library=TRL,
    published="trl.kernels:selective_log_softmax_and_entropy",
    moves=Traffic(reads=M * N + M, read_bytes=8 * M, write_bytes=16 * M),
    on_chip=sympy.Integer(TRL_TILE),
)
CeFlagGems = variant(  # it tunes its tile itself
    Peer,
    CROSS_ENTROPY,
    library=FLAG_GEMS,
    published="flag_gems.fused.cross_entropy_loss:cross_entropy_loss",
    called=lambda function, *inputs: function(*inputs, reduction="none"),
    # the loss goes out in float32, and from there to the dtype of the logits
    moves=Traffic(reads=M * N + M, writes=M, read_bytes=12 * M, write_bytes=8 * M),
    on_chip=sympy.Integer(FLAG_GEMS_TILE),
)


def _in_32_bit(shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
    """The limit of FlagGems' log-softmax."""
    if shape[0] * shape[1] > 1 << 31:
        return f"FlagGems counts elements in 32 bit, and {shape[0]}×{shape[1]} has more"
    return None


LogSoftmaxFlagGems = variant(
    Peer,
    LOG_SOFTMAX,
    library=FLAG_GEMS,
    refused=_in_32_bit,
    published="flag_gems.ops:log_softmax",
    called=lambda function, x: function(x, dim=1),
    moves=Traffic(reads=2 * M * N, writes=M * N),
    on_chip=sympy.Integer(FLAG_GEMS_COLUMNS),
)
LogSoftmaxTileOps = variant(TileOps, LOG_SOFTMAX, published="tileops.reduction:LogSoftmaxFwdOp")
LogSumExpTileOps = variant(
    TileOps,
    LOGSUMEXP,
    published="tileops.reduction:LogSumExpFwdOp",
    moves=Traffic(reads=M * N, writes=M),
    on_chip=sympy.Min(N, TILEOPS_TILE),
)


class LogSumExpQuack(CeQuack):  # type: ignore[misc,valid-type]
    """What QuACK's loss writes beside it; the targets are the first column."""

    operation = LOGSUMEXP
    called = staticmethod(lambda function, *inputs: function(*inputs, return_lse=True)[1])

    @override
    def function(self, *inputs: torch.Tensor) -> Call:
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
        read_bytes=4 * M * parts_of(FLA_LOGSUMEXP_TILE),
        write_bytes=4 * M + 4 * M * parts_of(FLA_LOGSUMEXP_TILE),
    ),
    on_chip=sympy.Min(N, FLA_LOGSUMEXP_TILE),
)
LogprobEntropyGradTrl = variant(
    LogprobEntropyTrl,
    LOGPROB_ENTROPY_GRAD,
    called=with_gradient,
    moves=Traffic(
        reads=2 * M * N + M,
        writes=M * N,
        read_bytes=8 * M + 24 * M * parts_of(TRL_TILE),
        write_bytes=24 * M,
    ),
)
