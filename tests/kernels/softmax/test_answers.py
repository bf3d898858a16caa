"""Every variant's answer beside float64's: any matrix, extremes, and the sum's precision."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.device import device_of
from kernels.kernel import Kernel
from kernels.softmax.auto import Auto
from kernels.softmax.cluster import Cluster
from kernels.softmax.cooperative import Cooperative
from kernels.softmax.fused import Fused
from kernels.softmax.fused_multirow import FusedMultirow
from kernels.softmax.hybrid import FusedRow, Hybrid, ThreePass
from kernels.softmax.online import EVICT, Online
from tests.kernels.variants import (
    DTYPES,
    HERE,
    LAYOUTS,
    QUICK,
    assert_softmax,
    extremes,
    lay_out,
    name,
)

quick = pytest.mark.parametrize("kernel", QUICK, ids=name)
LEAN = Online(16384, 32, reverse=True, evict="last_first")
# As they come, with tiles that only a card takes as quickly
OURS = (
    *(ThreePass(), Fused(), FusedRow(), FusedMultirow(), Hybrid(), Online(), LEAN),
    *(Cluster(), Cooperative(), Auto()),
)

# NumPy, under the interpreter, remarks on every -inf - -inf
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.mark.parametrize("kernel", dict.fromkeys((*QUICK, *OURS)), ids=name)
@pytest.mark.parametrize("dtype", DTYPES, ids=name)
def test_infinities_and_nan_give_what_torch_gives(
    kernel: Kernel, device: str, dtype: torch.dtype
) -> None:
    matrices = [extremes().to(device, dtype)]
    if device == "cuda":
        matrices += [matrices[0].repeat_interleave(100, dim=1)]  # so that they cross slices
        ends = (torch.finfo(dtype).min, torch.finfo(dtype).max)
        matrices += [torch.full((3, 5000), end, dtype=dtype, device=device) for end in ends]
    for x in matrices:
        if kernel.unsupported(tuple(x.shape), dtype, HERE) is None:
            assert_softmax(kernel, x)


WAYS = [Online(16, 4, reverse, evict) for reverse, evict in product((False, True), EVICT)]


@pytest.mark.parametrize("kernel", [*WAYS, *map(Fused, (1, 2, 4), (1, 2, 5))], ids=str)
def test_every_way_of_a_variant_gives_the_same_bits(kernel: Kernel, device: str) -> None:
    assert_softmax(kernel, extremes().to(device))
    x = torch.randn(9, 50, device=device)  # four tiles, and more rows than some programs
    assert torch.equal(kernel(x), (Online(16) if isinstance(kernel, Online) else Fused())(x))


@st.composite
def matrices(draw: st.DrawFn) -> torch.Tensor:
    """A matrix on the CPU; a test moves it to its device, which may make it contiguous."""
    rows, cols = draw(st.integers(0, 12)), draw(st.integers(0, 300))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))
    scale = draw(st.sampled_from((1.0, 1e-3, 30.0, 1e4)))
    values = torch.randn(rows, cols, generator=generator, dtype=torch.float64) * scale
    return values.to(draw(st.sampled_from(DTYPES)))


@settings(max_examples=25, deadline=None)
@given(
    x=matrices(),
    layout=st.sampled_from(LAYOUTS),
    kernel=st.builds(
        FusedMultirow, st.sampled_from((1, 2, 4, 8, 16)), st.sampled_from((None, 1, 2, 4, 8, 16))
    ),
)
def test_any_tile_of_narrow_rows_gives_the_answer_of_float64(
    device: str, x: torch.Tensor, layout: str, kernel: Kernel
) -> None:
    assert_softmax(kernel, lay_out(x.to(device), layout))


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
