from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.device import device_of
from kernels.kernel import Kernel
from kernels.read import read_triton
from kernels.read.operation import READ, STRETCH
from kernels.read.read_triton import ReadTriton
from tests.kernels.variants import DTYPES, LAYOUTS, READS, lay_out, matrices, name

every = pytest.mark.parametrize("kernel", READS, ids=name)


def assert_read(kernel: Kernel, x: torch.Tensor) -> None:
    y = kernel(x)
    assert y.is_contiguous()
    assert y.dtype == x.dtype
    assert torch.equal(y.double(), READ.reference(x))


@every
@settings(max_examples=30, deadline=None)
@given(x=matrices(), layout=st.sampled_from(LAYOUTS))
def test_narrow_rows_of_any_layout_are_read_to_their_ends(
    kernel: Kernel, device: str, x: torch.Tensor, layout: str
) -> None:
    assert_read(kernel, lay_out(x.to(device), layout))


@every
@pytest.mark.parametrize(
    ("cols", "dtype"),
    [*zip((STRETCH - 1, STRETCH, STRETCH + 1, 2 * STRETCH + 808), DTYPES, strict=True)],
    ids=str,
)
def test_the_largest_of_a_stretch_is_found_wherever_it_is(
    kernel: Kernel, device: str, cols: int, dtype: torch.dtype
) -> None:
    # the matrix begins anywhere, and beyond its ends lies what no stretch may take
    for first in (0, 1, 16):
        storage = torch.full((3 * cols + 64,), torch.inf, dtype=dtype, device=device)
        x = storage[first : first + 3 * cols].view(3, cols)
        x.zero_()
        for place in (0, 7, STRETCH - 1, STRETCH, cols - 1):
            if place < cols:
                x[1, place] = 5.0
        assert_read(kernel, x)


@every
def test_many_narrow_rows_share_a_program(
    kernel: Kernel, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_triton, "FEW_PROGRAMS", 16)
    x = torch.randn(131, 12, device=device)
    tile = kernel._tile(x.shape, 4) if isinstance(kernel, ReadTriton) else (0, 0, 0)
    assert tile[1] > 1
    assert_read(kernel, x)


@every
def test_offsets_are_64_bit(kernel: Kernel, device: str) -> None:
    try:
        storage = torch.empty(2**31 + 64, dtype=torch.float16, device=device)
    except RuntimeError as error:
        pytest.skip(f"no room for 4 GiB: {error}")
    x = storage.as_strided((3, 9), (2**30 - 1, 1))
    x.copy_(torch.randn(3, 9))
    assert_read(kernel, x)


def test_more_stretches_than_a_launch_counts_are_refused() -> None:
    here = device_of(torch.empty(0))
    assert READS[0].unsupported((2**30, 2 * STRETCH), torch.float32, here)
    assert "stretches" in str(READS[0].unsupported((2**31, 1), torch.float16, here))
