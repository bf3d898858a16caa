"""log-softmax and logsumexp by `kernels.cross_entropy.rows`, against PyTorch in float64."""

from __future__ import annotations

import pytest
import torch

from kernels.cross_entropy.rows import run
from tests.kernels.variants import DTYPES, extremes

GENERATOR = torch.Generator().manual_seed(0)
ROWS = {
    str(dtype): torch.randn(3, cols, generator=GENERATOR).to(dtype)
    for dtype, cols in zip(DTYPES, (16_401, 3000, 2047, 3000), strict=True)
} | {
    "extremes": extremes(),
    "wider extremes": extremes().repeat_interleave(60, dim=1),
    "extremes in several chunks": extremes()[[0, 2, 3, 6]].repeat_interleave(411, dim=1),
}


@pytest.mark.parametrize("case", ROWS)
def test_wide_rows_infinities_and_nan_give_the_answer_of_float64(device: str, case: str) -> None:
    x = ROWS[case].to(device)
    fine = 1e-12 if x.dtype == torch.float64 else 1e-6
    at = x.double()
    lse = torch.empty(len(x), dtype=torch.promote_types(x.dtype, torch.float32), device=device)
    run(x, lse=lse)
    # in float32 a sum of large numbers is rounded at their size
    close = {"rtol": fine, "atol": 4 * fine, "equal_nan": True}
    torch.testing.assert_close(lse.double(), at.logsumexp(1), **close)
    right, step = at.log_softmax(1), torch.finfo(x.dtype).eps + fine
    over, y = x.clone(), torch.empty_like(x)
    run(x, y=y)
    run(over, y=over)  # over its input
    assert torch.equal(y.nan_to_num(7.0), over.nan_to_num(7.0))
    close = {"rtol": step, "atol": 4 * fine * (1 + float(at.abs().nan_to_num(0, 0, 0).max()))}
    torch.testing.assert_close(y.double(), right, **close, equal_nan=True)
