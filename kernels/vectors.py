"""The longest vectors that the rows of a matrix can be read by."""

from __future__ import annotations

from math import gcd

import torch

LONGEST = 16  # bytes that one thread loads or stores at once


def vector(x: torch.Tensor) -> int:
    """Elements of the longest vector, up to 16 bytes, that every row of ``x`` is made of.

    Args:
        x: Shape ``(M, N)``, M and N at least 1. Rows are whole numbers of such vectors and begin
            at a multiple of one; where columns are strided it is 1.
    """
    rows, cols = x.shape
    row_stride, col_stride = x.stride()
    if col_stride != 1 and cols > 1:
        return 1
    size = x.element_size()
    # the lowest bit set in any of them is the longest power of two that divides all
    lengths = (cols * size) | (row_stride * size if rows > 1 else 0) | x.data_ptr() | LONGEST
    return (lengths & -lengths) // size


def whole_vectors(cols: int, dtype: torch.dtype) -> int:
    """What `vector` gives for contiguous rows of ``cols`` elements that begin at a vector."""
    return gcd(max(cols, 1), LONGEST // dtype.itemsize)
