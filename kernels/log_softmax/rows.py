"""logsumexp and log-softmax of rows, by the streaming kernels of cross-entropy.

`logsumexp` reads each element once: MN. `log_softmax` reads a row of up to `HELD` elements once,
2MN, and a wider one twice, 3MN; see `kernels.cross_entropy.rows`.
"""

from __future__ import annotations

import torch

from ..cross_entropy.rows import BY_WIDTH, Tiles, statistics


def logsumexp(x: torch.Tensor, *, lse: torch.Tensor, tiles: Tiles = BY_WIDTH) -> None:
    """Writes log Σ exp of each row of ``x``, (M, N) of any strides, into ``lse``, (M,).

    ``lse`` is contiguous, float32, or float64 for float64 ``x``.
    """
    statistics("lse", x, lse=lse, tiles=tiles)


def log_softmax(x: torch.Tensor, *, y: torch.Tensor, tiles: Tiles = BY_WIDTH) -> None:
    """Writes x − logsumexp(x) of each row of ``x``, (M, N), into ``y``, of its shape and dtype.

    ``y`` may be ``x`` itself.
    """
    statistics("lse", x, y=y, tiles=tiles)
