"""log-softmax and logsumexp by `kernels.cross_entropy.rows`, against PyTorch in float64."""

from __future__ import annotations

import pytest
import torch

from kernels.cross_entropy.rows import Tiles, run
from tests.kernels.variants import DTYPES, extremes


def lse_of(x: torch.Tensor, **more: Tiles) -> torch.Tensor:
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    lse = torch.empty(x.shape[0], dtype=wide, device=x.device)
    run(x, lse=lse, **more)
    return lse


def assert_right(x: torch.Tensor) -> None:
    """Both functions, log-softmax also over its input."""
    fine = 1e-12 if x.dtype == torch.float64 else 1e-6
    at = x.double()
    right = at.logsumexp(1)
    # in float32 a sum of large numbers is rounded at their size
    found = lse_of(x)
    torch.testing.assert_close(found.double(), right, rtol=fine, atol=4 * fine, equal_nan=True)
    right, step = at.log_softmax(1), torch.finfo(x.dtype).eps + fine
    rounded = right.to(x.dtype).double()
    right = torch.where(rounded.isinf(), rounded, right)  # beyond what float16 holds
    over = x.clone(memory_format=torch.contiguous_format)
    y = torch.empty_like(over)
    run(x, y=y)
    run(over, y=over)
    assert torch.equal(y.nan_to_num(7.0), over.nan_to_num(7.0)) or x.stride() != over.stride()
    size = at.abs().nan_to_num(0.0, 0.0, 0.0).max() if at.numel() else 0.0
    for answer in (y, over):
        torch.testing.assert_close(
            answer.double(), right, rtol=step, atol=float(4 * fine * (1 + size)), equal_nan=True
        )


@pytest.mark.parametrize(
    ("dtype", "cols"), [*zip(DTYPES, (16_401, 3000, 2047, 3000), strict=True)], ids=str
)
def test_wide_rows_give_the_answer_of_float64(device: str, dtype: torch.dtype, cols: int) -> None:
    assert_right(torch.randn(3, cols, device=device).to(dtype))


@pytest.mark.parametrize("wider", [1, 60])
def test_infinities_and_nan_give_what_torch_gives(device: str, wider: int) -> None:
    assert_right(extremes().repeat_interleave(wider, dim=1).to(device))


def test_infinities_and_nan_give_what_torch_gives_in_rows_of_several_chunks(device: str) -> None:
    assert_right(extremes()[[0, 2, 3, 6]].repeat_interleave(411, dim=1).to(device))


@pytest.mark.parametrize("cols", [300, 16_401])
def test_log_softmax_keeps_its_digits_however_large_the_elements(device: str, cols: int) -> None:
    x = torch.randn(3, cols, device=device) + 1e4  # a float32 near it has a spacing of 1e-3
    y = torch.empty_like(x)
    run(x, y=y)
    torch.testing.assert_close(y.double(), x.double().log_softmax(1), rtol=1e-6, atol=1e-5)


def test_programs_that_share_a_row_change_no_bit(device: str) -> None:
    x = torch.randn(3, 40_001, device=device)
    alone = lse_of(x)
    for tiles in (Tiles(split=2), Tiles(split=16)):
        assert torch.equal(lse_of(x, tiles=tiles), alone)
    assert torch.equal(lse_of(x[:1]), alone[:1])


def test_no_column_is_an_empty_sum(device: str) -> None:
    assert (lse_of(torch.empty(3, 0, device=device)) == -torch.inf).all()
    run(torch.empty(3, 0, device=device), y=torch.empty(3, 0, device=device))
