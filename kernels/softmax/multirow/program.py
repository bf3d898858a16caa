"""What each program of `fused_multirow` runs: device code in Triton."""

from __future__ import annotations

from kernels.dependent import await_previous
from kernels.language import jit, tl


@jit
def _exponential(value: tl.tensor) -> tl.tensor:
    # exp itself takes three more instructions an element, to keep the smallest subnormal results
    if value.dtype == tl.float32:
        return tl.exp2(value * 1.4426950408889634)
    return tl.exp(value)


@jit
def _fused_multirow(
    x: tl.tensor,
    y: tl.tensor,
    rows: tl.tensor,
    vectors: tl.tensor,
    row_stride: tl.tensor,
    col_stride: tl.tensor,
    VECTOR: tl.constexpr,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
    PIECES: tl.constexpr,
    LOADS: tl.constexpr,
    STORES: tl.constexpr,
    DEPENDENT: tl.constexpr,
    STATISTICS: tl.constexpr,
) -> None:
    # Of an argument Triton knows no more than whether 16 divides it. Lengths in vectors, times
    # the constant VECTOR, tell it that neither a mask nor the end of a row cuts a vector.
    cols = vectors * VECTOR
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    lane = tl.arange(0, WIDTH)[None, :].to(tl.int64)
    x += row * row_stride * VECTOR
    y += row * cols
    await_previous(DEPENDENT)

    pieces: tl.tuple = ()
    for piece in tl.static_range(PIECES):
        columns = piece * WIDTH + lane
        inside = (row < rows) & (columns < cols)
        places = x + columns * col_stride
        values = tl.load(places, mask=inside, other=float("-inf"), eviction_policy=LOADS)
        pieces = pieces + (values.to(STATISTICS),)  # noqa: RUF005, Triton unpacks no tuple

    maxima = pieces[0]
    for piece in tl.static_range(1, PIECES):
        maxima = tl.maximum(maxima, pieces[piece])
    # Triton's maximum passes over NaN; it comes back through the sum
    maximum = tl.max(maxima, 1)[:, None]

    exponentials: tl.tuple = ()
    sums = tl.zeros((ROWS, WIDTH), STATISTICS)
    for piece in tl.static_range(PIECES):
        exponentials = exponentials + (_exponential(pieces[piece] - maximum),)  # noqa: RUF005
        sums += exponentials[piece]
    total = tl.sum(sums, 1)[:, None]

    scale = 1.0 / total  # one division a row
    for piece in tl.static_range(PIECES):
        columns = piece * WIDTH + lane
        inside = (row < rows) & (columns < cols)
        quotients = (exponentials[piece] * scale).to(y.dtype.element_ty)
        tl.store(y + columns, quotients, mask=inside, eviction_policy=STORES)
