"""Multiplies a gradient by a number; computes the gradients of lse, log-probability and entropy.

`multiply` reads its number on the device. If it is 1, a few programs per SM return at once and move
nothing; otherwise they move 2MN. `row_gradient` is elementwise from the kept per-row numbers: 2MN.
"""

from __future__ import annotations

import torch

from ..device import device_of
from ..language import jit, next_power_of_two, tl
from ..launch import launch, load_hint, store_hint

PROGRAMS_PER_SM = 8
TILE = 4096  # elements


def multiply(x: torch.Tensor, factor: torch.Tensor) -> None:
    """Multiplies each element of ``x`` (M, N), with contiguous rows, by ``factor`` (1,)."""
    rows, cols = x.shape
    if x.stride(0) == cols:
        rows, cols = 1, rows * cols  # one row, of whole vectors wherever rows begin
    tiles = rows * -(-cols // TILE)
    programs = min(tiles, PROGRAMS_PER_SM * (device_of(x).sms or 1))
    statistics = tl.float64 if x.dtype == torch.float64 else tl.float32
    launch(
        _multiply,
        (programs,),
        (x, factor, rows, cols, x.stride(0)),
        {"BLOCK": TILE, "STATISTICS": statistics},
        num_warps=8,
    )


def row_gradient(
    x: torch.Tensor,
    lse: torch.Tensor,
    dlse: torch.Tensor | None,
    target: torch.Tensor | None,
    dlogprob: torch.Tensor | None,
    entropy: torch.Tensor | None,
    dentropy: torch.Tensor | None,
    dx: torch.Tensor,
    temperature: float = 1.0,
) -> None:
    """Writes the gradient of ``x`` from the gradients of logsumexp, log p[target] and entropy.

    With z = x / temperature and p = exp(z − lse) it is the sum of dlse·p,
    dlogprob·(onehot − p) and −dentropy·p·(z − lse + entropy), divided by the temperature.

    Args:
        x: (M, N), with contiguous rows, like ``dx``.
        lse: (M,), logsumexp of z.
        dlse: (M,), the gradient of ``lse``, or None.
        target: (M,), int64, where there is ``dlogprob``.
        dlogprob: (M,), or None.
        entropy: (M,), where there is ``dentropy``.
        dentropy: (M,), or None.
        dx: (M, N), written.
        temperature: Positive.
    """
    rows, cols = x.shape
    block = min(next_power_of_two(cols), TILE)
    height = min(TILE // 2 // block or 1, next_power_of_two(rows))
    columns = -(-cols // block)
    launch(
        _row_gradient,
        (-(-rows // height) * columns,),
        (
            *(x, lse, dlse, target, dlogprob, entropy, dentropy, dx),
            *(rows, cols, columns, x.stride(0), dx.stride(0), 1 / temperature),
        ),
        {
            "BLOCK": block,
            "HEIGHT": height,
            "STATISTICS": tl.float64 if x.dtype == torch.float64 else tl.float32,
            "LOADS": load_hint(x),
            "STORES": store_hint(x),
        },
        num_warps=max(1, min(8, block * height // 512)),
    )


@jit
def _multiply(
    x: tl.tensor,
    factor: tl.tensor,
    rows: tl.tensor,
    cols: tl.tensor,
    stride: tl.tensor,
    BLOCK: tl.constexpr,
    STATISTICS: tl.constexpr,
) -> None:
    by = tl.load(factor).to(STATISTICS)
    if by != 1:
        columns = tl.cdiv(cols, BLOCK)
        for tile in range(tl.program_id(0), rows * columns, tl.num_programs(0)):
            start = tl.cast(tile % columns, tl.int64) * BLOCK
            inside = tl.arange(0, BLOCK) < cols - start
            places = x + tl.cast(tile // columns, tl.int64) * stride + start + tl.arange(0, BLOCK)
            values = tl.load(places, mask=inside).to(STATISTICS) * by
            tl.store(places, values.to(x.dtype.element_ty), mask=inside)


@jit
def _row_gradient(
    x: tl.tensor,
    lse: tl.tensor,
    dlse: tl.tensor,
    target: tl.tensor,
    dlogprob: tl.tensor,
    entropy: tl.tensor,
    dentropy: tl.tensor,
    dx: tl.tensor,
    rows: tl.tensor,
    cols: tl.tensor,
    columns: tl.tensor,
    stride: tl.tensor,
    dx_stride: tl.tensor,
    inverse: tl.float64,  # a plain float would be float32
    BLOCK: tl.constexpr,
    HEIGHT: tl.constexpr,
    STATISTICS: tl.constexpr,
    LOADS: tl.constexpr,
    STORES: tl.constexpr,
) -> None:
    program = tl.program_id(0)
    row = tl.cast(program // columns, tl.int64) * HEIGHT + tl.arange(0, HEIGHT)
    column = (program % columns) * BLOCK + tl.arange(0, BLOCK)
    real = row < rows
    inside = real[:, None] & (column < cols)[None, :]
    places = row[:, None] * stride + column[None, :]
    z = tl.load(x + places, mask=inside, other=0.0, eviction_policy=LOADS).to(STATISTICS)
    scale = tl.full((), inverse, tl.float64).to(STATISTICS)
    z *= scale
    logp = z - tl.load(lse + row, mask=real, other=0.0)[:, None]
    p = tl.exp(logp)
    share = tl.zeros([HEIGHT, 1], STATISTICS)
    chosen = tl.zeros([HEIGHT, BLOCK], STATISTICS)
    if dlse is not None:
        share += tl.load(dlse + row, mask=real, other=0.0)[:, None]
    if dlogprob is not None:
        d = tl.load(dlogprob + row, mask=real, other=0.0)[:, None]
        t = tl.load(target + row, mask=real, other=0)[:, None]
        d = tl.where((t >= 0) & (t < cols), d, float("nan"))  # of no class
        share -= d
        chosen = tl.where(column[None, :] == t, d, 0.0)
    factor = tl.broadcast_to(share, (HEIGHT, BLOCK))
    if dentropy is not None:
        d = tl.load(dentropy + row, mask=real, other=0.0)[:, None]
        h = tl.load(entropy + row, mask=real, other=0.0)[:, None]
        factor -= d * (tl.maximum(logp, -1e30) + h)  # where p is 0, 0·−inf is no NaN
    gradient = (p * factor + chosen) * scale
    places = row[:, None] * dx_stride + column[None, :]
    tl.store(dx + places, gradient.to(dx.dtype.element_ty), mask=inside, eviction_policy=STORES)
