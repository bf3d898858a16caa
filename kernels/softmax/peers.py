"""Softmax by public libraries, peers: QuACK, Liger-Kernel, FlagGems, TileOPs and Helion.

What runs is the function behind a library's public one, without its bookkeeping for gradients.
- QuACK, in CuTe DSL. Passes: one, 2MN. A cluster of up to sixteen blocks holds the row. Each block
  takes its part through shared memory into registers, and the blocks exchange their maxima and sums
  through distributed shared memory. It takes rows that start on 16 bytes and lie in one piece;
  others are copied first, here. A warp whose columns all lie beyond the row takes exp(−∞ − (−∞)),
  NaN, and the row's sum takes it over. By the sources this happens where the last block of a
  cluster has at most 1792 columns of 16 bit: in rows of 65544 to 73472, 81928 to 87808, 98312 to
  102144, 114696 to 116480, 131080 to 155392 and some beyond. Seen at 6000×151936 bfloat16, Qwen's
  vocabulary. The gate calls that incorrect.
- Liger-Kernel, in Triton. Passes: one, 2MN: one program per row, which it holds whole. The library
  also has a kernel that loops over a row, but its block is always the row padded to a power of two,
  so that this one is never launched; beyond 65536 it refuses.
- Liger-Kernel, in CuTe DSL, which its public function picks from sm_90 on where CUTLASS is
  installed. Passes: one, 2MN: a block, beyond 16384 columns a cluster of two, holds the row. Rows
  of more than 32768, or of no whole 16-byte vectors, it leaves to Triton; here they are refused.
- FlagGems, in Triton. Passes: one where N ≤ 32768, 2MN; else two with a running maximum and sum for
  each lane of a tile, 3MN, the second from the row's end and marked to be evicted first.
- TileOPs, in TileLang, compiled by nvcc. Passes: one where N ≤ 32768, 2MN: lanes of a warp, a block
  or a cluster hold the row. Wider rows that share out evenly over a cluster of up to eight, 65536
  columns but no vocabulary of 50257 or 128256, are still read once; others twice, 3MN, backward the
  second time, with a first part kept in shared memory. Few wide rows are split over the card, and
  by a second kernel read again. Nothing is tuned before its users ask for that, nor here.
- Helion, PyTorch's language of tiles, which becomes Triton. Passes: one where N ≤ 32768, 2MN: a
  program holds a row, or several narrow ones. Else three, 4MN, each a loop over tiles of 8192:
  Helion's rolled reductions of maximum, sum and answer. The kernel is the one of Helion's examples.
  Its configuration is given, so that nothing is tuned: rows to fill a tile of 2048 elements, a warp
  for 512 of them, 4 to 32. Helion itself decides where an element's index needs 64 bit.
On chip: the row, N elements padded to a power of two (in CuTe DSL: unpadded); wider rows of
FlagGems, TileOPs and Helion a tile. Liger, FlagGems and TileOPs copy rows that are not contiguous
themselves.
Source: https://github.com/Dao-AILab/quack, `quack/softmax.py` and `quack/reduction_base.py`;
https://github.com/linkedin/Liger-Kernel, `src/liger_kernel/ops/softmax.py` and
`src/liger_kernel/ops/backends/_cutedsl/softmax.py`;
https://github.com/flagos-ai/FlagGems, `src/flag_gems/ops/softmax.py`, with the sizes of
`runtime/backend/_nvidia/heuristics_config_utils.py`; https://github.com/tile-ai/TileOPs,
`src/tileops/_kernels/reduction/`; https://github.com/pytorch/helion, `examples/softmax.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import torch
from typing_extensions import override

from ..device import Device
from ..kernel import Kernel, Shape, too_many, variant
from ..language import next_power_of_two
from ..peer import (
    FLAG_GEMS,
    LIGER,
    LIGER_CUTE,
    QUACK,
    VECTOR_BYTES,
    Library,
    Peer,
    row_of_liger,
    row_of_quack,
)
from ..traffic import M, N, Traffic, by_width
from .operation import SOFTMAX

Softmax = Callable[[torch.Tensor], torch.Tensor]
WIDEST_WHOLE = 32768  # elements of a row that is one tile, of all but QuACK and Liger in Triton
FLAG_GEMS_TILE = 4096  # the tile of a wider row
TILEOPS_TILE = 16384  # likewise
HELION_TILE = 8192  # likewise
TOGETHER = 2048  # elements that narrow rows of Helion fill together
TORCH_FROM = "2.13"  # 2.11 lacks a name that Helion 1.5.1 imports; 2.12 was not tried
hl: Any = None  # helion.language: a kernel sees the names of its module, so it is put there late


class Quack(Peer):
    """The forward softmax of the package quack-kernels. It chooses cluster and threads itself."""

    operation = SOFTMAX
    library = QUACK
    refused = staticmethod(partial(row_of_quack, 1))
    moves = Traffic(reads=M * N, writes=M * N)
    on_chip = N

    @override
    def function(self, x: torch.Tensor) -> Softmax:
        from quack.softmax import softmax_fwd

        forward: Softmax = softmax_fwd
        starts = x.data_ptr() | x.stride(0) * x.itemsize
        if x.stride(1) == 1 and starts % VECTOR_BYTES == 0:
            return forward
        # clone, for a contiguous tensor may also start in between
        return lambda x: forward(x.clone(memory_format=torch.contiguous_format))


Liger = variant(  # it chooses its warps itself, FlagGems tile and warps
    Peer,
    SOFTMAX,
    library=LIGER,
    refused=row_of_liger,
    published="liger_kernel.ops.softmax:_softmax_forward",
    called=lambda function, x: function(x)[0],
    dtypes=(*Kernel.dtypes, torch.float64),
    moves=Traffic(reads=M * N, writes=M * N),
    on_chip=N,
)
LigerCute = variant(
    Peer,
    SOFTMAX,
    library=LIGER_CUTE,
    refused=partial(row_of_liger, widest=WIDEST_WHOLE),
    published="liger_kernel.ops.backends._cutedsl.softmax:_softmax_cutedsl_forward",
    called=lambda function, x: function(x)[0],
    moves=Traffic(reads=M * N, writes=M * N),
    on_chip=N,
)
FlagGems = variant(
    Peer,
    SOFTMAX,
    library=FLAG_GEMS,
    published="flag_gems.ops:softmax",
    called=lambda function, x: function(x, dim=1),
    moves=Traffic(reads=by_width(WIDEST_WHOLE, M * N, 2 * M * N), writes=M * N),
    on_chip=by_width(WIDEST_WHOLE, N, FLAG_GEMS_TILE),
)


def _of_tileops(shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
    if device.capability not in ((8, 0), (8, 6), (8, 9), (9, 0)):
        return "TileOPs needs a CUDA device of compute capability 8.0, 8.6, 8.9 or 9.0"
    return None


class TileOps(Peer):
    """An operator of the package tileops, which picks its kernel by the shape and keeps it."""

    operation = SOFTMAX
    library = Library(("tileops", "tilelang"), "tilelang", _of_tileops)
    missing = ", not installed here; run pip install tileops, on Python 3.12 or newer"
    published = "tileops.reduction:SoftmaxFwdOp"
    moves = FlagGems.moves
    on_chip = by_width(WIDEST_WHOLE, N, TILEOPS_TILE)

    @override
    def function(self, x: torch.Tensor) -> Softmax:
        module, name = self.published.split(":")
        operator: Softmax = getattr(import_module(module), name)(dim=1)
        return operator


def _of_helion(shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
    if torch.__version__ < TORCH_FROM:
        return f"Helion imports what PyTorch {torch.__version__} lacks; {TORCH_FROM} has it"
    if device.kind != "cuda":  # its code has no interpreter
        return "needs a CUDA device"
    return too_many(shape[0])


class Helion(Peer):
    """A kernel of our own in the language of the package helion, configured by the shape."""

    operation = SOFTMAX
    library = Library(("helion",), "triton", _of_helion)
    moves = Traffic(reads=by_width(WIDEST_WHOLE, M * N, 3 * M * N), writes=M * N)
    on_chip = by_width(WIDEST_WHOLE, N, HELION_TILE)

    @override
    def function(self, x: torch.Tensor) -> Softmax:
        global hl
        import helion
        import helion.language as hl

        config = helion.Config(**configuration(*x.shape))
        kernel = helion.kernel(_softmax, config=config, static_shapes=True)
        compiled: Softmax = kernel.bind((x,)).compile_config(config)
        return compiled


def configuration(rows: int, cols: int) -> dict[str, Any]:
    """The arguments of `helion.Config` for a matrix of that shape."""
    width = next_power_of_two(cols)
    whole = cols <= WIDEST_WHOLE
    together = min(max(TOGETHER // width, 1), next_power_of_two(rows))
    elements = together * width if whole else HELION_TILE
    chosen = {"block_sizes": [together], "num_warps": min(max(elements // 512, 4), 32)}
    # a row of one element has nothing to reduce, and Helion then takes no such option
    loops = {"reduction_loops": [None if whole else HELION_TILE]} if cols > 1 else {}
    return chosen | {"num_stages": 1} | loops


def _softmax(x: torch.Tensor) -> torch.Tensor:
    rows, cols = x.size()
    y = torch.empty([rows, cols], dtype=x.dtype, device=x.device)
    for tile in hl.tile(rows):
        y[tile, :] = torch.nn.functional.softmax(x[tile, :], dim=1)
    return y
