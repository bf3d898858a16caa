"""Every variant's answer beside float64's: any matrix, extremes, and the sum's precision."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.device import device_of
from kernels.kernel import Kernel
from kernels.softmax.compiled import Compiled
from kernels.softmax.fused import Fused
from kernels.softmax.fused_row import FusedRow
from kernels.softmax.hybrid import Hybrid
from kernels.softmax.naive import Naive
from kernels.softmax.naive_script import NaiveScript
from kernels.softmax.online import Online
from kernels.softmax.three_pass import ThreePass
from tests.kernels.inputs import LAYOUTS, extremes, lay_out, matrices
from tests.kernels.variants import DTYPES, QUICK, TRITON, assert_softmax, name

quick = pytest.mark.parametrize("kernel", QUICK, ids=name)
ACCUMULATING = (ThreePass, Fused, FusedRow, Hybrid, Online)

# NumPy, under the interpreter, remarks on every -inf - -inf
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@quick
@settings(max_examples=15, deadline=None)
@given(x=matrices(), layout=st.sampled_from(LAYOUTS))
def test_any_matrix_gets_the_answer_of_float64(
    kernel: Kernel, device: str, x: torch.Tensor, layout: str
) -> None:
    assert_softmax(kernel, lay_out(x.to(device), layout))


@quick
@pytest.mark.parametrize("dtype", DTYPES, ids=name)
def test_one_row_many_and_extremes(kernel: Kernel, device: str, dtype: torch.dtype) -> None:
    # more rows than the interpreter's programs, so that persistent ones take several each
    for x in (torch.randn(1, 65), torch.randn(37, 5), torch.randn(6, 90) * 1e4, extremes()):
        assert_softmax(kernel, x.to(device, dtype))


@quick
def test_no_elements_and_one_column(kernel: Kernel, device: str) -> None:
    for shape, dtype in (((0, 5), torch.float16), ((5, 0), torch.float64), ((0, 0), torch.float32)):
        x = torch.empty(shape, dtype=dtype, device=device)
        for y in (kernel(x), kernel.prepare(x)(x)):
            assert (y.shape, y.dtype) == (x.shape, x.dtype)
    x = torch.randn(7, 1, device=device)
    assert torch.equal(kernel(x), torch.ones_like(x))


def test_compiled_gets_the_answer_of_float64(device: str) -> None:  # it takes seconds a shape
    assert_softmax(Compiled(), lay_out(extremes().to(device), "transposed"))
    assert_softmax(Compiled(), lay_out(extremes().to(device, torch.bfloat16), "padded rows"))


@quick
def test_shifting_a_row_changes_nothing(kernel: Kernel, device: str) -> None:
    x = torch.randint(-8, 8, (5, 50), device=device).float()
    assert torch.equal(kernel(x), kernel(x + 1024))  # both differences are exact


@quick
def test_input_is_left_alone_and_a_prepared_call_answers_for_other_values(
    kernel: Kernel, device: str
) -> None:
    x = torch.randn(6, 40, device=device)
    before, call = x.clone(), kernel.prepare(torch.randn(6, 40, device=device))
    first, second = call(x), call(x)
    assert torch.equal(x, before)
    assert len({t.data_ptr() for t in (x, first, second)}) == 3
    torch.testing.assert_close(second, torch.softmax(x, dim=1))


@quick
@pytest.mark.parametrize(
    ("shape", "strides"), [((3, 40), (2**30, 1)), ((2, 3), (1, 2**30))], ids=["rows", "columns"]
)
def test_offsets_are_64_bit(
    kernel: Kernel, device: str, shape: tuple[int, int], strides: tuple[int, int]
) -> None:
    # the last of them starts where 32 bits end; most of the memory is never touched
    try:
        storage = torch.empty(2**31 + 64, dtype=torch.float16, device=device)
    except RuntimeError as error:
        pytest.skip(f"no room for 4 GiB: {error}")
    x = storage.as_strided(shape, strides)
    x.copy_(torch.randn(shape))
    assert_softmax(kernel, x)


@pytest.mark.parametrize("kernel", TRITON, ids=name)
def test_one_nan_anywhere_fills_its_row_and_no_other(kernel: Kernel, device: str) -> None:
    for place in (0, 15, 16, 39):
        x = torch.randn(3, 40, device=device)
        x[1, place] = torch.nan
        assert kernel(x).isnan().all(dim=1).tolist() == [False, True, False]


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


@pytest.mark.parametrize("make", ACCUMULATING, ids=lambda make: make.__name__)
def test_float64_statistics_leave_only_the_last_rounding(
    make: Callable[..., Kernel], device: str
) -> None:
    x = torch.randn(2, 9000, device=device, generator=torch.Generator(device).manual_seed(1))
    rounded = torch.softmax(x.double(), dim=1).float().double()
    wide = make(accumulate="float64")(x).double()
    assert mean_error(make(accumulate="float64"), x) < mean_error(make(), x)
    # at most the odd tie falls to the other side
    assert float((wide != rounded).double().mean()) < 2e-4
    for accumulate in ("float32", "float64"):  # a float64 input keeps float64
        assert mean_error(make(accumulate=accumulate), x[:, :500].double()) < 1e-15


@pytest.mark.parametrize("make", [Naive, NaiveScript], ids=lambda make: make.__name__)
def test_float64_sum_is_used_by_the_five_operations(
    make: Callable[..., Kernel], device: str
) -> None:
    x = torch.randn(4, 9000, device=device, generator=torch.Generator(device).manual_seed(1))
    exponentials = torch.exp(x - x.max(dim=1, keepdim=True)[0])
    wanted = exponentials.double() / exponentials.double().sum(dim=1, keepdim=True)
    assert torch.equal(make(accumulate="float64")(x), wanted.float())
    assert not torch.equal(make()(x), wanted.float())
    assert mean_error(make(accumulate="float32"), x.double()) < 1e-15
