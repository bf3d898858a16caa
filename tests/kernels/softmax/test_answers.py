from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.kernel import Kernel
from kernels.softmax.compiled import Compiled
from tests.kernels.inputs import LAYOUTS, lay_out, matrices
from tests.kernels.variants import DTYPES, QUICK, SOFTMAXES, assert_softmax, name

quick = pytest.mark.parametrize("kernel", QUICK, ids=name)
every = pytest.mark.parametrize("kernel", SOFTMAXES, ids=name)


@quick
@settings(max_examples=30, deadline=None)
@given(x=matrices(), layout=st.sampled_from(LAYOUTS))
def test_any_matrix_gets_the_answer_of_float64(
    kernel: Kernel, device: str, x: torch.Tensor, layout: str
) -> None:
    assert_softmax(kernel, lay_out(x.to(device), layout))


@pytest.mark.parametrize(
    ("dtype", "layout"), [(torch.float32, "transposed"), (torch.bfloat16, "padded rows")], ids=str
)
def test_compiled_gets_the_answer_of_float64(device: str, dtype: torch.dtype, layout: str) -> None:
    assert_softmax(Compiled(), lay_out(torch.randn(9, 33).to(device, dtype), layout))


@every
@pytest.mark.parametrize("dtype", DTYPES, ids=name)
@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0)], ids=str)
def test_empty_matrix_gives_an_empty_one(
    kernel: Kernel, device: str, shape: tuple[int, int], dtype: torch.dtype
) -> None:
    x = torch.empty(shape, dtype=dtype, device=device)
    for y in (kernel(x), kernel.prepare(x)(x)):
        assert y.shape == x.shape
        assert y.dtype == x.dtype


@every
def test_one_column_gives_ones(kernel: Kernel, device: str) -> None:
    x = torch.randn(7, 1, device=device)
    assert torch.equal(kernel(x), torch.ones_like(x))


@quick
@pytest.mark.parametrize("dtype", DTYPES, ids=name)
def test_one_row_and_many(kernel: Kernel, device: str, dtype: torch.dtype) -> None:
    # more rows than the interpreter's programs, so that persistent ones take several each
    for shape in ((1, 65), (37, 5)):
        assert_softmax(kernel, torch.randn(shape, device=device).to(dtype))


@quick
def test_rows_sum_to_one(kernel: Kernel, device: str) -> None:
    sums = kernel(torch.randn(5, 300, device=device)).double().sum(dim=1)
    torch.testing.assert_close(sums, torch.ones_like(sums), rtol=0, atol=1e-6)


@quick
def test_shifting_a_row_changes_nothing(kernel: Kernel, device: str) -> None:
    x = torch.randint(-8, 8, (5, 50), device=device).float()
    assert torch.equal(kernel(x), kernel(x + 1024))  # both differences are exact


@quick
def test_input_is_left_alone_and_the_answer_is_new(kernel: Kernel, device: str) -> None:
    x = torch.randn(5, 50, device=device)
    before = x.clone()
    first, second = kernel(x), kernel(x)
    assert torch.equal(x, before)
    assert len({t.data_ptr() for t in (x, first, second)}) == 3


@quick
def test_prepared_call_answers_for_other_values_too(kernel: Kernel, device: str) -> None:
    call = kernel.prepare(torch.randn(6, 40, device=device))
    x = torch.randn(6, 40, device=device)
    torch.testing.assert_close(call(x), torch.softmax(x, dim=1))


@quick
def test_row_offsets_are_64_bit(kernel: Kernel, device: str) -> None:
    # three rows 2^30 elements apart: the third starts where 32 bits end; most is never touched
    try:
        storage = torch.empty(2**31 + 64, dtype=torch.float16, device=device)
    except RuntimeError as error:
        pytest.skip(f"no room for 4 GiB: {error}")
    x = storage.as_strided((3, 40), (2**30, 1))
    x.copy_(torch.randn(3, 40))
    assert_softmax(kernel, x)


@quick
def test_column_offsets_are_64_bit(kernel: Kernel, device: str) -> None:
    try:
        storage = torch.empty(2**31 + 64, dtype=torch.float16, device=device)
    except RuntimeError as error:
        pytest.skip(f"no room for 4 GiB: {error}")
    x = storage.as_strided((2, 3), (1, 2**30))
    x.copy_(torch.randn(2, 3))
    assert_softmax(kernel, x)
