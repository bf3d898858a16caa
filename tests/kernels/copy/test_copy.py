from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.add.add_triton import AddTriton
from kernels.copy.copy_triton import CopyTriton
from kernels.kernel import Kernel
from tests.kernels.variants import COPIES, IN_PLACE, LAYOUTS, lay_out, matrices, name

every = pytest.mark.parametrize("kernel", COPIES, ids=name)


@every
@settings(max_examples=20, deadline=None)
@given(x=matrices(), layout=st.sampled_from(LAYOUTS))
def test_copy_is_the_same_bits_in_memory_of_its_own(
    kernel: Kernel, device: str, x: torch.Tensor, layout: str
) -> None:
    x = lay_out(x.to(device), layout)
    y = kernel(x)
    assert torch.equal(y, x)
    assert y.dtype == x.dtype
    assert y.is_contiguous()
    assert x.numel() == 0 or y.data_ptr() != x.data_ptr()


@pytest.mark.parametrize("kernel", IN_PLACE, ids=name)
@settings(max_examples=20, deadline=None)
@given(x=matrices(), layout=st.sampled_from(LAYOUTS[:-1]))
def test_a_copy_in_place_leaves_every_bit_in_the_same_memory(
    kernel: Kernel, device: str, x: torch.Tensor, layout: str
) -> None:
    x = lay_out(x.to(device), layout)
    before = x.clone()
    y = kernel(x)
    assert torch.equal(y, before)
    assert (y.data_ptr(), y.stride()) == (x.data_ptr(), x.stride())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("first", [0, 1])
def test_whole_vectors_and_a_tail_make_any_number_of_elements(
    dtype: torch.dtype, first: int, device: str
) -> None:
    for count in (1, 7, 8, 9, 4095, 4096, 4099, 8191):
        x = torch.arange(first + count, device=device).to(dtype)[first:].view(1, count)
        assert torch.equal(CopyTriton()(x), x)
        assert torch.equal(AddTriton()(x, x), x + x)


@every
def test_nan_and_infinities_are_copied_too(kernel: Kernel, device: str) -> None:
    x = torch.tensor([[torch.nan, torch.inf], [-torch.inf, -0.0]], device=device)
    assert torch.equal(kernel(x).view(torch.int32), x.view(torch.int32))


@every
@pytest.mark.parametrize("strides", [(2**30, 1), (1, 2**30)], ids=["rows", "columns"])
def test_offsets_are_64_bit(kernel: Kernel, device: str, strides: tuple[int, int]) -> None:
    try:
        storage = torch.empty(2**31 + 64, dtype=torch.float16, device=device)
    except RuntimeError as error:
        pytest.skip(f"no room for 4 GiB: {error}")
    x = storage.as_strided((3, 3), strides)
    x.copy_(torch.randn(3, 3))
    assert torch.equal(kernel(x), x)
