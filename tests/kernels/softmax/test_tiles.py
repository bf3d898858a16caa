from __future__ import annotations

import pytest
import torch

from kernels.softmax.tiles import vector, whole_vectors


@pytest.mark.parametrize(
    ("cols", "stride", "dtype", "elements"),
    [
        (1000, 1000, torch.float32, 4),
        (1000, 1000, torch.bfloat16, 8),
        (1000, 1002, torch.float32, 2),
        (1004, 1004, torch.bfloat16, 4),
        (1023, 1024, torch.float32, 1),
        (64, 64, torch.float64, 2),
        (8, 0, torch.float32, 4),
        (4, 4, torch.float16, 4),
    ],
    ids=str,
)
def test_vectors_are_the_longest_that_rows_and_strides_are_made_of(
    cols: int, stride: int, dtype: torch.dtype, elements: int
) -> None:
    storage = torch.empty(4096, dtype=dtype)
    assert vector(storage.as_strided((2, cols), (stride, 1))) == elements


def test_vectors_begin_where_rows_do_and_have_neighbouring_columns() -> None:
    storage = torch.empty(4096)
    starts = (storage[start:].as_strided((2, 64), (64, 1)) for start in (0, 1, 2))
    assert [vector(x) for x in starts] == [4, 1, 2]
    assert vector(torch.empty(64, 64).t()) == 1
    # the stride of a single row does not matter
    assert vector(storage.as_strided((1, 64), (63, 1))) == 4


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("cols", [1, 6, 1000, 1004, 4096])
def test_contiguous_rows_are_as_their_width_says(cols: int, dtype: torch.dtype) -> None:
    assert vector(torch.empty(3, cols, dtype=dtype)) == whole_vectors(cols, dtype)
