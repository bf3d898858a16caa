"""The gradients of softmax and log-softmax by PyTorch, torch.compile and public libraries, peers.

Passes: PyTorch's nominally one, 3MN: as in its softmax, narrow rows stay in registers, wider ones
are read twice. QuACK's and Liger's one, 3MN: rows of y and dy are held whole, by a cluster of up to
sixteen blocks or by one program. FlagGems' one where N ≤ 1024, the widest tile that its tuner
tries, else two, 5MN: the sum, then the answer. A narrower tile, if the tuner prefers one, reads
twice as well. Its gradient of log-softmax always takes two, and the sum reads dy alone: 4MN.
On chip: one row each of y and dy, 2N elements; of FlagGems' wider rows two tiles.
Each library's function behind its backward pass is called, without autograd. FlagGems' tuner times
its tiles when it first meets a shape, which is before any sample is taken.
Source: `torch.ops.aten._softmax_backward_data` and `torch._log_softmax_backward_data`, which
autograd calls; `quack/softmax.py` (`softmax_bwd`), `liger_kernel/ops/softmax.py`
(`_softmax_backward`), `flag_gems/ops/softmax.py` (`softmax_backward`) and
`flag_gems/ops/log_softmax.py` (`log_softmax_backward`), of the packages that
`kernels.softmax.peers` names.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from typing_extensions import override

from ..compiled import CompiledFormula
from ..cross_entropy.peers import LogSoftmaxFlagGems
from ..kernel import Kernel, TorchFunction, variant
from ..peer import FLAG_GEMS, LIGER, QUACK, Peer, row_of_liger, row_of_quack
from ..traffic import M, N, Traffic, by_width
from .operation import LOG_SOFTMAX_BACKWARD, SOFTMAX_BACKWARD

WIDEST_TILE = 1024  # of FlagGems: tune_configs.yaml, softmax_inner


BackwardTorch = variant(
    TorchFunction,
    SOFTMAX_BACKWARD,
    function=lambda y, dy: torch.ops.aten._softmax_backward_data(dy, y, 1, y.dtype),
    dtypes=(*Kernel.dtypes, torch.float64),
    moves=Traffic(reads=2 * M * N, writes=M * N),
    on_chip=2 * N,
)
LogSoftmaxBackwardTorch = variant(
    BackwardTorch,
    LOG_SOFTMAX_BACKWARD,
    function=lambda y, dy: torch._log_softmax_backward_data(dy, y, 1, y.dtype),
)


def _of_log_softmax(y: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
    g = dy.float()
    return (g - y.float().exp() * g.sum(1, keepdim=True)).to(y.dtype)


LogSoftmaxBackwardCompiled = variant(
    CompiledFormula, LOG_SOFTMAX_BACKWARD, formula=_of_log_softmax, on_chip=2 * N
)


BackwardQuack = variant(  # it chooses cluster and threads itself
    Peer,
    SOFTMAX_BACKWARD,
    library=QUACK,
    refused=partial(row_of_quack, 2),
    published="quack.softmax:softmax_bwd",
    called=lambda function, y, dy: function(dy, y),
    moves=Traffic(reads=2 * M * N, writes=M * N),
    on_chip=2 * N,
)


class BackwardLiger(Peer):
    """Of the package liger-kernel. It chooses its warps itself."""

    operation = SOFTMAX_BACKWARD
    library = LIGER
    refused = staticmethod(row_of_liger)
    dtypes = (*Kernel.dtypes, torch.float64)
    moves = Traffic(reads=2 * M * N, writes=M * N)
    on_chip = 2 * N

    @override
    def function(self, y: torch.Tensor, dy: torch.Tensor) -> Callable[..., torch.Tensor]:
        from liger_kernel.ops.softmax import _softmax_backward
        from liger_kernel.ops.utils import calculate_settings

        block, warps = calculate_settings(y.shape[-1])
        return lambda y, dy: _softmax_backward(dy, y, block, warps, False)


BackwardFlagGems = variant(  # it tunes its tile itself
    Peer,
    SOFTMAX_BACKWARD,
    library=FLAG_GEMS,
    published="flag_gems.ops:softmax_backward",
    called=lambda function, y, dy: function(dy, y, 1, y.dtype),
    moves=Traffic(reads=by_width(WIDEST_TILE, 2 * M * N, 4 * M * N), writes=M * N),
    on_chip=by_width(WIDEST_TILE, 2 * N, 2 * WIDEST_TILE),
)
LogSoftmaxBackwardFlagGems = variant(  # it tunes its tile itself
    LogSoftmaxFlagGems,
    LOG_SOFTMAX_BACKWARD,
    published="flag_gems.ops:log_softmax_backward",
    called=lambda function, y, dy: function(dy, y, 1, y.dtype),
    moves=Traffic(reads=3 * M * N, writes=M * N),
)
