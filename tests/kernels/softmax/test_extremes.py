from __future__ import annotations

import pytest
import torch

from kernels.device import device_of
from kernels.kernel import Kernel
from kernels.softmax.compiled import Compiled
from tests.kernels.variants import DTYPES, QUICK, TRITON, assert_softmax, name

INF, NAN = torch.inf, torch.nan

# NumPy, under the interpreter, remarks on every -inf - -inf
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def extremes() -> torch.Tensor:
    """Rows of 40, which tiles of 16 cut at 16 and 32."""
    x = torch.randn(10, 40, generator=torch.Generator().manual_seed(0))
    x[0, :35] = -INF  # two tiles of nothing before the first value
    x[1, 3:] = -INF
    x[2] = -INF
    x[3, 20] = NAN
    x[4] = NAN
    x[5] = -INF
    x[5, 39] = NAN
    x[6, 30] = INF
    x[7, 0] = INF
    x[7, 39] = INF
    x[8, :16] = -INF
    x[8, 20] = NAN
    x[9] = 0.0
    return x


@pytest.mark.parametrize("dtype", DTYPES, ids=name)
@pytest.mark.parametrize("kernel", QUICK, ids=name)
def test_infinities_and_nan_give_what_torch_gives(
    kernel: Kernel, device: str, dtype: torch.dtype
) -> None:
    assert_softmax(kernel, extremes().to(device, dtype))


def test_infinities_and_nan_give_what_torch_gives_when_compiled(device: str) -> None:
    assert_softmax(Compiled(), extremes().to(device))


@pytest.mark.parametrize("place", [0, 15, 16, 31, 32, 39])
@pytest.mark.parametrize("kernel", TRITON, ids=name)
def test_one_nan_anywhere_fills_its_row_and_no_other(
    kernel: Kernel, device: str, place: int
) -> None:
    x = torch.randn(3, 40, device=device)
    x[1, place] = NAN
    assert kernel(x).isnan().all(dim=1).tolist() == [False, True, False]


@pytest.mark.parametrize("dtype", DTYPES, ids=name)
@pytest.mark.parametrize("kernel", QUICK, ids=name)
def test_large_magnitudes_do_not_overflow(kernel: Kernel, device: str, dtype: torch.dtype) -> None:
    assert_softmax(kernel, (torch.randn(6, 90, device=device) * 1e4).to(dtype))


@pytest.mark.parametrize("kernel", QUICK, ids=name)
def test_a_sum_beyond_float16_does_not_overflow(kernel: Kernel, device: str) -> None:
    # 70000 exponentials of 1 sum to more than float16's largest number, 65504
    x = torch.zeros(1, 70_000, dtype=torch.float16, device=device)
    if kernel.unsupported((1, 70_000), x.dtype, device_of(x)):
        pytest.skip("wider than a row of this variant may be")
    wide = type(kernel)(block_size=4096) if hasattr(kernel, "block_size") else kernel
    assert torch.all(wide(x) > 0)
