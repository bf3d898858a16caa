"""The roofs: a copy keeps every bit, a reading finds the largest of any stretch."""

from __future__ import annotations

import pytest
import sympy
import torch

from kernels.attention.operation import ATTENTION
from kernels.kernel import Kernel
from kernels.read import read_triton
from kernels.read.operation import READ, STRETCH
from kernels.read.read_triton import ReadTriton
from kernels.roofs.operation import EXPONENTIALS, MATMUL
from kernels.traffic import evaluate
from tests.kernels.variants import COPIES, DTYPES, name

READS: tuple[Kernel, ...] = (ReadTriton(), ReadTriton(thread_bytes=256, num_warps=1))


@pytest.mark.parametrize("kernel", COPIES, ids=name)
def test_nan_and_infinities_are_copied_too(kernel: Kernel, device: str) -> None:
    x = torch.tensor([[torch.nan, torch.inf], [-torch.inf, -0.0]], device=device)
    assert torch.equal(kernel(x).view(torch.int32), x.view(torch.int32))


def assert_read(kernel: Kernel, x: torch.Tensor) -> None:
    y = kernel(x)
    assert y.is_contiguous()
    assert y.dtype == x.dtype
    assert torch.equal(y.double(), READ.reference(x))


@pytest.mark.parametrize("kernel", READS, ids=name)
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


@pytest.mark.parametrize("kernel", READS, ids=name)
def test_many_narrow_rows_share_a_program(
    kernel: Kernel, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_triton, "FEW_PROGRAMS", 16)
    x = torch.randn(131, 12, device=device)
    tile = kernel._tile(x.shape, 4) if isinstance(kernel, ReadTriton) else (0, 0, 0)
    assert tile[1] > 1
    assert_read(kernel, x)


@pytest.mark.parametrize(("rows", "cols"), [(262144, 512), (262144, 32768), (1000, 100)])
def test_roofs_do_the_arithmetic_of_attention_or_a_little_more(rows: int, cols: int) -> None:
    sizes = {"M": rows, "N": cols}

    def count(expression: sympy.Expr | None) -> int:
        assert expression is not None
        return evaluate(expression, sizes)

    for found, wanted in (
        (count(MATMUL.flops), count(ATTENTION.flops)),
        (count(EXPONENTIALS.exponentials), count(ATTENTION.exponentials)),
    ):
        assert found >= wanted
        assert found == wanted or rows < 262144
