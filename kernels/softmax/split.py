"""Split softmax: one launch reduces the slices of a row, a second one scales them.

Passes: two over the input; reads 2MN, writes MN: 3MN. The first launch leaves each slice's maximum
m and its sum d of exp(x − m), two float32 numbers (float64 of float64 input). The second combines
the pairs of a row, which each of its slices reads, and scales the slices.
The second launch starts early, on sm_90 and newer: its programs take their places as soon as the
first launch's all have theirs, load their slices meanwhile, and wait for the first launch's end
before they read the pairs. So no program waits for another of its launch, and nothing can hang.
On chip: a slice of `block_size` elements.
At DRAM: 2MN where the input fits L2, as few wide rows do.
Source: Milakov & Gimelshein 2018, arXiv 1805.02867, section 3.1; the early start as in NVIDIA's
CUDA C++ Programming Guide, "Programmatic Dependent Launch and Synchronization".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import sympy
import torch
from typing_extensions import override

from ..device import CLUSTERS_FROM, Device, device_of
from ..kernel import Shape, power_of_two, too_many
from ..language import LARGEST_BLOCK, exp, jit, next_power_of_two, tl
from ..launch import launch, workspace
from ..traffic import BLOCK_SIZE, M, N, Traffic
from .tiles import Rows, TritonSoftmax, load_tile, rows_of, statistics_dtype, store_tile

SLICES = sympy.ceiling(N / BLOCK_SIZE)  # of a row
MOST_SLICES = 1 << 15  # whose pairs a program of the second launch holds


@dataclass(frozen=True)
class Split(TritonSoftmax):
    """Two launches of a program per slice."""

    moves = Traffic(2 * M * N, M * N, read_bytes=8 * M * SLICES**2, write_bytes=8 * M * SLICES)
    on_chip = BLOCK_SIZE

    block_size: Annotated[int, power_of_two(1, LARGEST_BLOCK)] = 4096
    num_warps: Annotated[int, power_of_two(1, 32)] = 8

    @override
    def limits(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        slices = -(-shape[1] // self.block_size)
        if slices > MOST_SLICES:
            return f"takes rows of at most {MOST_SLICES * self.block_size} elements, not {shape[1]}"
        return too_many(shape[0] * slices)

    @override
    def into(self, x: torch.Tensor, y: torch.Tensor) -> None:
        at, slices = rows_of(x), -(-x.shape[1] // self.block_size)
        programs, early = len(x) * slices, device_of(x).at_least(CLUSTERS_FROM)
        pairs = workspace((programs, 2), statistics_dtype(x.dtype), x.device)
        constants, grid = {"BLOCK": self.block_size, "EARLY": early}, (programs,)
        launch(_reduced, grid, (x, pairs, at, slices), constants, num_warps=self.num_warps)
        constants["SLOTS"] = next_power_of_two(slices)
        options = {"num_warps": self.num_warps} | ({"launch_pdl": True} if early else {})
        launch(_scaled, grid, (x, y, pairs, at, slices), constants, **options)


@jit
def _reduced(
    x: tl.tensor,
    pairs: tl.tensor,
    at: Rows,
    slices: tl.tensor,
    BLOCK: tl.constexpr,
    EARLY: tl.constexpr,
) -> None:
    if EARLY:
        tl.extra.cuda.gdc_launch_dependents()
    program = tl.program_id(0).to(tl.int64)
    row, tile = program // slices, program % slices
    x += row * at.row_stride
    values = load_tile(x, tile, at, BLOCK, pairs.dtype.element_ty, "")
    maximum = tl.max(values)  # passes over NaN; the sum brings it back
    # A slice of -inf alone: -inf - -inf would be NaN, any finite shift gives zeros
    total = tl.sum(exp(values - tl.where(maximum == float("-inf"), 0.0, maximum)))
    tl.store(pairs + 2 * program, maximum)
    tl.store(pairs + 2 * program + 1, total)


@jit
def _scaled(
    x: tl.tensor,
    y: tl.tensor,
    pairs: tl.tensor,
    at: Rows,
    slices: tl.tensor,
    BLOCK: tl.constexpr,
    EARLY: tl.constexpr,
    SLOTS: tl.constexpr,
) -> None:
    program = tl.program_id(0).to(tl.int64)
    row, tile = program // slices, program % slices
    x += row * at.row_stride
    values = load_tile(x, tile, at, BLOCK, pairs.dtype.element_ty, "")
    if EARLY:
        tl.extra.cuda.gdc_wait()
    lanes = tl.arange(0, SLOTS)
    there = pairs + 2 * (row * slices + lanes)
    maxima = tl.load(there, mask=lanes < slices, other=float("-inf"))
    totals = tl.load(there + 1, mask=lanes < slices, other=0.0)
    highest = tl.max(maxima)
    # -inf - -inf is NaN where all of a row is -inf, and so is the answer
    factor = 1.0 / tl.sum(totals * exp(maxima - highest))
    scaled = exp(values - highest) * factor
    store_tile(y + row * at.cols, tile, scaled, at.cols, BLOCK, "")
