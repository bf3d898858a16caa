"""What each program of `cooperative` runs: device code in Triton."""

from __future__ import annotations

from kernels.language import jit, tl
from kernels.softmax.cooperative.exchange import await_words, publish, scale, summarise, tag_of


@jit
def _cooperative(
    x: tl.tensor,
    y: tl.tensor,
    words: tl.tensor,
    rows: tl.tensor,
    cols: tl.tensor,
    row_stride: tl.tensor,
    col_stride: tl.tensor,
    slices: tl.tensor,
    SLOTS: tl.constexpr,
    BLOCK: tl.constexpr,
    AHEAD: tl.constexpr,
    LOADS: tl.constexpr,
    STORES: tl.constexpr,
) -> None:
    member = tl.program_id(0) % slices
    group = (tl.program_id(0) // slices).to(tl.int64)
    groups = tl.num_programs(0) // slices

    words += group * 2 * slices
    lanes = tl.arange(0, SLOTS)
    present = lanes < slices
    places = tl.minimum(lanes, slices - 1)  # a lane too many awaits a word that comes anyway
    tag, other_tag = tag_of(tl.load(words + member)), tag_of(tl.load(words + slices + member))
    turn = 0

    x += member.to(tl.int64) * BLOCK * col_stride
    y += member.to(tl.int64) * BLOCK
    width = cols - member * BLOCK
    columns = tl.arange(0, BLOCK)
    if AHEAD:
        values = _load(x + group * row_stride, width, col_stride, BLOCK, LOADS)
    for row in range(group, rows, groups):
        if not AHEAD:
            values = _load(x + row * row_stride, width, col_stride, BLOCK, LOADS)
        tag ^= 1
        exponentials, maximum, total = summarise(values.to(tl.float32))
        publish(words + turn * slices + member, maximum, total, tag)
        if AHEAD:
            following = row + groups
            left = tl.where(following < rows, width, 0)
            values = _load(x + following * row_stride, left, col_stride, BLOCK, LOADS)
        seen = await_words(words + turn * slices + places, tag)
        quotients = (exponentials * scale(seen, present, maximum)).to(y.dtype.element_ty)
        target = y + row * cols + columns
        tl.store(target, quotients, mask=columns < width, eviction_policy=STORES)
        tag, other_tag = other_tag, tag
        turn = 1 - turn


@jit
def _load(
    slice: tl.tensor,
    width: tl.tensor,
    stride: tl.tensor,
    BLOCK: tl.constexpr,
    HINT: tl.constexpr,
) -> tl.tensor:
    """The slice at a pointer, in its own dtype, padded with −inf beyond its width."""
    columns = tl.arange(0, BLOCK)
    places = slice + columns.to(tl.int64) * stride
    return tl.load(places, mask=columns < width, other=float("-inf"), eviction_policy=HINT)
