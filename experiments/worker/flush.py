"""Emptying L2 before a sample, by reading alone."""

from __future__ import annotations

import torch

from kernels.language import jit, tl

BLOCK = 8192  # elements a program touches


class Flush:
    """A clean buffer of twice the device's last-level cache, and the reading of it.

    L2 is emptied of the timed buffers by reading others, never by writing: a flush that writes
    leaves its own dirty lines, which the timed kernel then has to write back. Of lines that asked
    to stay (`evict_last`) a plain read leaves about a third of 8 MB on an H200; a read that asks so
    too drives them out, and the plain one after it takes its place (tests/experiments/test_gpu.py).
    """

    def __init__(self, device: str, cache_bytes: int) -> None:
        elements = 2 * cache_bytes // 4
        # pages that were never written all map to one on a CPU, and would flush nothing
        self._buffer = torch.ones(elements, dtype=torch.float32, device=device)
        self._sink = torch.empty((), dtype=torch.float32, device=device)

    def __call__(self) -> None:
        """Reads the whole buffer; on CUDA it is only enqueued."""
        x = self._buffer
        if x.is_cuda and tl is not None:
            _touch[((x.numel() + BLOCK - 1) // BLOCK,)](x, x.numel(), BLOCK=BLOCK)
        torch.amax(x, dim=0, out=self._sink)


@jit  # loads float32 numbers above zero, with the hint to keep their lines in L2
def _touch(x: tl.tensor, elements: tl.tensor, BLOCK: tl.constexpr) -> None:
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < elements
    total = tl.sum(tl.load(x + at, inside, 0.0, eviction_policy="evict_last"))
    tl.store(x, total, total < 0)  # never, but a load that nobody uses would not be made
