from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.softmax.fused_multirow import (
    FusedMultirow,
    lanes_by_tile,
    rows_by_shape,
    warps_by_tile,
)
from tests.kernels.inputs import LAYOUTS, lay_out, matrices
from tests.kernels.variants import assert_softmax, name

powers = st.sampled_from((1, 2, 4, 8, 16))


@settings(max_examples=40, deadline=None)
@given(
    x=matrices(widest=300), layout=st.sampled_from(LAYOUTS), rows=powers, warps=st.none() | powers
)
def test_any_tile_gives_the_answer_of_float64(
    device: str, x: torch.Tensor, layout: str, rows: int, warps: int | None
) -> None:
    assert_softmax(FusedMultirow(rows, warps), lay_out(x.to(device), layout))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=name)
@pytest.mark.parametrize("cols", [1000, 1023, 1024, 1025, 2048, 4096])
def test_rows_of_several_pieces(device: str, cols: int, dtype: torch.dtype) -> None:
    assert_softmax(FusedMultirow(), torch.randn(3, cols, device=device).to(dtype))


def test_a_special_row_leaves_the_other_rows_of_its_program_alone(device: str) -> None:
    x = torch.randn(8, 100, device=device)
    x[1], x[2, 5], x[3, 99], x[5, 50] = -torch.inf, torch.nan, torch.inf, -torch.inf
    y = FusedMultirow(rows_per_program=8)(x)
    assert y.isnan().all(dim=1).tolist() == [False, True, True, True, *[False] * 4]
    assert y.isnan().any(dim=1).tolist() == [False, True, True, True, *[False] * 4]


@given(
    rows=st.integers(1, 1 << 20),
    block=st.integers(0, 12).map(lambda power: 1 << power),
    itemsize=st.sampled_from([2, 4, 8]),
)
def test_a_program_of_many_rows_takes_1024_elements_or_2048_of_16_bit(
    rows: int, block: int, itemsize: int
) -> None:
    taken = rows_by_shape(rows, block, itemsize)
    assert taken & (taken - 1) == 0
    elements = 2048 if itemsize == 2 and block >= 256 else 1024
    assert taken * block == max(elements, block) if rows > 128 else taken == 1


@given(
    rows=st.integers(0, 12).map(lambda power: 1 << power),
    block=st.integers(0, 12).map(lambda power: 1 << power),
    few=st.booleans(),
    short=st.booleans(),
)
def test_warps_are_few_and_rows_of_512_are_not_shared_by_them(
    rows: int, block: int, few: bool, short: bool
) -> None:
    warps = warps_by_tile(rows, block, few, short)
    assert 1 <= warps <= 8
    assert warps & (warps - 1) == 0
    assert block > 512 or few or warps <= rows
    assert not short or rows == 1 or 2 * warps <= rows


@pytest.mark.parametrize(
    ("rows", "warps", "size", "lanes"),
    [(8, 4, 512, 16), (4, 4, 512, 32), (8, 4, 2048, 32), (1, 4, 4096, 128), (1, 1, 512, 32)],
)
def test_two_short_rows_share_a_warp_that_has_them(
    rows: int, warps: int, size: int, lanes: int
) -> None:
    assert lanes_by_tile(rows, warps, size) == lanes
