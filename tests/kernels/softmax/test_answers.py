"""Every variant's answer beside float64's: any matrix, extremes, and the sum's precision."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.device import device_of
from kernels.kernel import Kernel
from kernels.softmax.fused import Fused
from kernels.softmax.fused_multirow import FusedMultirow
from kernels.softmax.online import EVICT, Online
from tests.kernels.variants import (
    DTYPES,
    LAYOUTS,
    QUICK,
    assert_softmax,
    extremes,
    lay_out,
    matrices,
    name,
)

quick = pytest.mark.parametrize("kernel", QUICK, ids=name)

# NumPy, under the interpreter, remarks on every -inf - -inf
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@quick
@pytest.mark.parametrize("dtype", DTYPES, ids=name)
def test_infinities_and_nan_give_what_torch_gives(
    kernel: Kernel, device: str, dtype: torch.dtype
) -> None:
    assert_softmax(kernel, extremes().to(device, dtype))


WAYS = [Online(16, 4, reverse, evict) for reverse, evict in product((False, True), EVICT)]


@pytest.mark.parametrize("kernel", [*WAYS, *map(Fused, (1, 2, 4), (1, 2, 5))], ids=str)
def test_every_way_of_a_variant_gives_the_same_bits(kernel: Kernel, device: str) -> None:
    assert_softmax(kernel, extremes().to(device))
    x = torch.randn(9, 50, device=device)  # four tiles, and more rows than some programs
    assert torch.equal(kernel(x), (Online(16) if isinstance(kernel, Online) else Fused())(x))


@settings(max_examples=25, deadline=None)
@given(
    x=matrices(widest=300),
    layout=st.sampled_from(LAYOUTS),
    kernel=st.builds(
        FusedMultirow, st.sampled_from((1, 2, 4, 8, 16)), st.sampled_from((None, 1, 2, 4, 8, 16))
    ),
)
def test_any_tile_of_narrow_rows_gives_the_answer_of_float64(
    device: str, x: torch.Tensor, layout: str, kernel: Kernel
) -> None:
    assert_softmax(kernel, lay_out(x.to(device), layout))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=name)
def test_narrow_rows_of_several_pieces(device: str, dtype: torch.dtype) -> None:
    for cols in (1000, 1023, 1025, 4096):
        assert_softmax(FusedMultirow(), torch.randn(3, cols, device=device).to(dtype))


@quick
def test_a_sum_beyond_float16_does_not_overflow(kernel: Kernel, device: str) -> None:
    # 70000 exponentials of 1 sum to more than float16's largest number, 65504
    x = torch.zeros(1, 70_000, dtype=torch.float16, device=device)
    if kernel.unsupported((1, 70_000), x.dtype, device_of(x)):
        pytest.skip("wider than a row of this variant may be")
    wide = type(kernel)(block_size=4096) if hasattr(kernel, "block_size") else kernel
    assert torch.all(wide(x) > 0)


def mean_error(kernel: Kernel, x: torch.Tensor) -> float:
    reference = torch.softmax(x.double(), dim=1)
    return float(((kernel(x).double() - reference) / reference).abs().mean())


def test_float64_statistics_leave_only_the_last_rounding(device: str) -> None:
    x = torch.randn(2, 9000, device=device, generator=torch.Generator(device).manual_seed(1))
    rounded = torch.softmax(x.double(), dim=1).float().double()
    wide = Online(accumulate="float64")
    assert mean_error(wide, x) < mean_error(Online(), x)
    # at most the odd tie falls to the other side
    assert float((wide(x).double() != rounded).double().mean()) < 2e-4


@quick
def test_a_float64_input_keeps_float64(kernel: Kernel, device: str) -> None:
    x = torch.randn(2, 500, device=device, generator=torch.Generator(device).manual_seed(1))
    assert mean_error(kernel, x.double()) < 1e-15
