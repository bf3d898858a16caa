"""Attention in one pass: the online softmax's rescaling, applied to a row of the output too.

Passes:
- attention_online: a program has `block_m` queries of a head and steps through the head's keys and
  values by tiles of `block_n`. With the running maximum m, sum d and output o of a query, a tile's
  scores s and values v give m' = max(m, max s), d' = d·exp(m − m') + Σ exp(s − m'), and the output
  is rescaled alike, o' = o·exp(m − m') + Σ exp(s − m')·v; at the end y = o/d. No score is ever
  written. Each program reads all keys and values that its queries see: 2DM for each of the
  N/block_m tiles of a head. DRAM gives them once if a head's fit in L2, 4DN bytes in 16 bit.
- weighted_online: the same of one row of given scores x, and vectors v of 4 in place of values:
  5MN read, 4M written. It is here to be read, and stepped through in the report.
On chip: a tile of queries, of keys, of values and of the output, whatever N; of weighted_online a
tile of scores and as many vectors.
Exponentials are base 2, the scale 1/√D and log₂e folded into one multiply-add; tiles that no query
sees in part are taken without a mask.
Source: Dao, arXiv 2307.08691 (FlashAttention-2), Algorithm 1, and Dao et al., arXiv 2205.14135,
likewise; Milakov & Gimelshein, arXiv 1805.02867. It is plain Triton: no warp specialisation, so
that the matrix units wait while exponentials are taken, except for what another group of warps has
to multiply. cuDNN and FlashAttention-3, which overlap them within a tile, are faster.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import sympy
import torch
from typing_extensions import override

from ..device import Device, device_of
from ..kernel import Kernel, Shape, power_of_two, too_many, whole_number
from ..language import jit, tl
from ..launch import launch
from ..repeat import ALIGNMENT
from ..softmax.tiles import empty_result
from ..traffic import BLOCK_SIZE, M, N, Traffic, parts_of
from .operation import HALVES, WEIGHTED, WIDTH, OfAttention

LOG2_E = 1.4426950408889634
TILE = 8192  # elements of a tile of keys
MOST = 1 << 31  # elements of a head, which 32-bit offsets count
COPIES_TILES = (9, 0)  # compute capability that has a tensor memory accelerator


@dataclass(frozen=True)
class AttentionOnline(OfAttention):
    """One tile of queries per program; see `OfAttention`."""

    backend = "triton"

    block_m: Annotated[int, power_of_two(16, 256)] = 64
    block_n: Annotated[int | None, power_of_two(16, 256)] = None
    num_warps: Annotated[int, power_of_two(1, 16)] = 4
    num_stages: Annotated[int, whole_number(1, 8)] = 3
    descriptors: bool | None = None

    @property
    def keys(self) -> int:
        """Keys of a step."""
        if self.block_n is not None:
            return self.block_n
        return min(64, self.block_m) if self.causal else TILE // self.dim

    @override
    def limits(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        """See `Kernel`; also tiles that do not suit each other or fit no shared memory."""
        if device.kind == "cpu" and dtype == torch.bfloat16:
            return "Triton's interpreter multiplies no matrices of bfloat16"
        if device.kind == "cuda" and dtype not in HALVES:
            return "takes float16 and bfloat16 on a GPU, whose tensor cores round float32"
        if self.causal and self.block_m % self.keys:
            return f"causal takes a block_m that block_n={self.keys} divides, not {self.block_m}"
        if shape[1] * self.dim >= MOST:
            return f"counts a head's elements in 32 bit, and {shape[1]} keys of {self.dim} are more"
        if reason := too_many(shape[0] // shape[1] * -(-shape[1] // self.block_m)):
            return reason
        if self.descriptors and device.kind == "cuda" and not device.at_least(COPIES_TILES):
            return "descriptors=true needs compute capability 9.0 or newer"
        tiles = self.block_m + 2 * self.num_stages * self.keys
        needs, room = tiles * self.dim * dtype.itemsize, device.shared_bytes_per_block
        if room is not None and needs > room:
            return (
                f"its tiles take {needs} bytes of shared memory; this device gives a block {room}: "
                "num_stages, block_n and block_m may be smaller"
            )
        return None

    @override
    def __call__(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        y = empty_result(q)
        if y.numel() > 0:
            count, length, _ = q.shape
            tiles, sizes = -(-length // self.block_m), (self.block_m, self.keys, self.keys)
            given: list[Any] = [x.contiguous() for x in (q, k, v)]
            described = self.described(device_of(q))
            if described:
                given = [_descriptor(x, n) for x, n in zip(given, sizes, strict=True)]
            launch(
                _attention,
                (count * tiles,),
                (*given, y, length, tiles, LOG2_E * self.dim**-0.5),
                {
                    "DIM": self.dim,
                    "BLOCK_M": self.block_m,
                    "BLOCK_N": self.keys,
                    "STAGES": self.num_stages,
                    "CAUSAL": self.causal,
                    "DESCRIPTORS": described,
                },
                num_warps=self.num_warps,
            )
        return y

    def described(self, device: Device) -> bool:
        """Whether tiles are copied by descriptors there."""
        if self.descriptors is not None:
            return self.descriptors
        return device.at_least(COPIES_TILES) and self.keys * self.dim >= TILE

    @override
    def traffic(self) -> Traffic:
        """See `Kernel`: keys and values for each tile of queries; causal, up to the tile's end."""
        tiles = parts_of(self.block_m)
        again: sympy.Expr = tiles
        if self.causal:  # 1·block_m + 2·block_m + … and N for the last, over N
            again = 1 + self.block_m * tiles * (tiles - 1) / (2 * N)
        reads = sympy.expand(self.dim * M * (1 + 2 * again))
        return Traffic(reads=reads, writes=self.dim * M)

    @override
    def on_chip_elements(self) -> sympy.Expr:
        return sympy.Integer((2 * self.block_m + 2 * self.num_stages * self.keys) * self.dim)


def _descriptor(x: torch.Tensor, rows: int) -> Any:
    """Tiles of so many rows of one head, of a copy where memory does not begin at 16 bytes."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    aligned = x if x.data_ptr() % ALIGNMENT == 0 else x.clone()
    return TensorDescriptor.from_tensor(aligned, [1, rows, x.shape[-1]])


@dataclass(frozen=True)
class WeightedOnline(Kernel):
    """One row per program."""

    operation = WEIGHTED
    backend = "triton"
    row_a_program = True
    moves = Traffic(reads=(1 + WIDTH) * M * N, writes=WIDTH * M)
    on_chip = (1 + WIDTH) * BLOCK_SIZE

    block_size: Annotated[int, power_of_two(1, 1 << 15)] = 1024
    num_warps: Annotated[int, power_of_two(1, 32)] = 4

    @override
    def __call__(self, x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        y = torch.empty(x.shape[0], WIDTH, dtype=x.dtype, device=x.device)
        if x.numel() == 0:
            y.zero_()
        else:
            given = (x.contiguous(), v.contiguous(), y, x.shape[1])
            constants = {"BLOCK": self.block_size, "WIDTH": WIDTH}
            launch(_weighted, (x.shape[0],), given, constants, num_warps=self.num_warps)
        return y


@jit
def _attention(
    q: tl.tensor,
    k: tl.tensor,
    v: tl.tensor,
    y: tl.tensor,
    length: tl.tensor,
    tiles: tl.tensor,
    scale: tl.tensor,
    DIM: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    STAGES: tl.constexpr,
    CAUSAL: tl.constexpr,
    DESCRIPTORS: tl.constexpr,
) -> None:
    program = tl.program_id(0)
    head, tile = program // tiles, program % tiles
    if CAUSAL:
        tile = tiles - 1 - tile  # those that see most keys first, so that none is late
    first = tile * BLOCK_M
    query = _tile(q, head, first, length, length, DIM, BLOCK_M, True, DESCRIPTORS)

    end, whole = length, length // BLOCK_N * BLOCK_N
    if CAUSAL:
        end, whole = tl.minimum(first + BLOCK_M, length), first
    maximum = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    total = tl.full((BLOCK_M,), 0.0, tl.float32)
    output = tl.full((BLOCK_M, DIM), 0.0, tl.float32)
    for masked in tl.static_range(2):  # tiles that are seen whole, then the others
        begin = whole if masked else 0
        stop = end if masked else whole
        for start in tl.range(begin, stop, BLOCK_N, num_stages=STAGES):
            key = _tile(k, head, start, end, length, DIM, BLOCK_N, masked, DESCRIPTORS)
            scores = tl.dot(query, tl.trans(key))
            if masked:
                keys = start + tl.arange(0, BLOCK_N)[None, :]
                seen = keys < end
                if CAUSAL:
                    seen = seen & (keys <= first + tl.arange(0, BLOCK_M)[:, None])
                scores = tl.where(seen, scores, float("-inf"))
            maximum, total, output, p = _rescaled(maximum, total, output, scores, scale)
            value = _tile(v, head, start, end, length, DIM, BLOCK_N, masked, DESCRIPTORS)
            output = tl.dot(p.to(value.dtype), value, output)

    queries = first + tl.arange(0, BLOCK_M)
    places = queries[:, None] * DIM + tl.arange(0, DIM)[None, :]
    output = output / total[:, None]
    target = y + tl.cast(head, tl.int64) * length * DIM
    tl.store(target + places, output.to(y.dtype.element_ty), mask=(queries < length)[:, None])


@jit
def _rescaled(
    maximum: tl.tensor, total: tl.tensor, output: tl.tensor, scores: tl.tensor, scale: tl.tensor
) -> tuple[tl.tensor, tl.tensor, tl.tensor, tl.tensor]:
    """The new maximum, sum and rescaled output of each query, and the exponentials of its scores.

    Each query sees one key of its first tile at least, so that no maximum is −inf afterwards.
    """
    raised = tl.maximum(maximum, tl.max(scores, 1))
    kept = tl.exp2((maximum - raised) * scale)
    p = tl.exp2(scores * scale - (raised * scale)[:, None])
    return raised, total * kept + tl.sum(p, 1), output * kept[:, None], p


@jit
def _tile(
    tensor: tl.tensor,
    head: tl.tensor,
    start: tl.tensor,
    end: tl.tensor,
    length: tl.tensor,
    DIM: tl.constexpr,
    BLOCK: tl.constexpr,
    MASKED: tl.constexpr,
    DESCRIPTORS: tl.constexpr,
) -> tl.tensor:
    """Rows ``start …`` of a head, BLOCK × DIM, zero from ``end`` on (by descriptor, its length)."""
    rows = start + tl.arange(0, BLOCK)
    if DESCRIPTORS:
        values = tl.reshape(tensor.load([head, start, 0]), (BLOCK, DIM))
    else:
        places = rows[:, None] * DIM + tl.arange(0, DIM)[None, :]
        places = tensor + tl.cast(head, tl.int64) * length * DIM + places
        if MASKED:
            values = tl.load(places, mask=(rows < end)[:, None], other=0.0)
        else:
            values = tl.load(places)
    return values


@jit
def _weighted(
    x: tl.tensor,
    v: tl.tensor,
    y: tl.tensor,
    cols: tl.tensor,
    BLOCK: tl.constexpr,
    WIDTH: tl.constexpr,
) -> None:
    row, places = tl.program_id(0).to(tl.int64), tl.arange(0, WIDTH)
    maximum = tl.full((), float("-inf"), tl.float32)
    total = tl.full((), 0.0, tl.float32)
    output = tl.full((WIDTH,), 0.0, tl.float32)
    for tile in tl.range(tl.cdiv(cols, BLOCK)):
        columns = tl.cast(tile, tl.int64) * BLOCK + tl.arange(0, BLOCK)
        inside = columns < cols
        scores = tl.load(x + row * cols + columns, mask=inside, other=float("-inf"))
        scores = scores.to(tl.float32)
        raised = tl.maximum(maximum, tl.max(scores))
        # as long as all is -inf, any finite shift gives the sum 0
        shift = tl.where(raised == float("-inf"), 0.0, raised)
        kept = tl.exp(maximum - shift)
        p = tl.exp(scores - shift)
        total = total * kept + tl.sum(p)
        maximum = raised
        vectors = v + columns[:, None] * WIDTH + places[None, :]
        values = tl.load(vectors, mask=inside[:, None], other=0.0).to(tl.float32)
        output = output * kept + tl.sum(p[:, None] * values, 0)
    tl.store(y + row * WIDTH + places, (output / total).to(y.dtype.element_ty))
