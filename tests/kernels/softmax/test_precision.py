from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from kernels.kernel import Kernel
from kernels.softmax.compiled import Compiled
from kernels.softmax.fused import Fused
from kernels.softmax.fused_row import FusedRow
from kernels.softmax.hybrid import Hybrid
from kernels.softmax.naive import Naive
from kernels.softmax.naive_script import NaiveScript
from kernels.softmax.online import Online
from kernels.softmax.three_pass import ThreePass
from tests.kernels.variants import name

TRITON = (ThreePass, Fused, FusedRow, Hybrid, Online)


def mean_error(kernel: Kernel, x: torch.Tensor) -> float:
    reference = torch.softmax(x.double(), dim=1)
    return float(((kernel(x).double() - reference) / reference).abs().mean())


@pytest.mark.parametrize("make", TRITON, ids=lambda make: make.__name__)
def test_float64_statistics_leave_only_the_last_rounding(
    make: Callable[..., Kernel], device: str
) -> None:
    x = torch.randn(4, 9000, device=device, generator=torch.Generator(device).manual_seed(1))
    rounded = torch.softmax(x.double(), dim=1).float().double()
    wide = make(accumulate="float64")(x).double()
    assert mean_error(make(accumulate="float64"), x) < mean_error(make(), x)
    # at most the odd tie falls to the other side
    assert float((wide != rounded).double().mean()) < 1e-4


@pytest.mark.parametrize("make", [Naive, NaiveScript], ids=lambda make: make.__name__)
def test_float64_sum_is_used_by_the_five_operations(
    make: Callable[..., Kernel], device: str
) -> None:
    x = torch.randn(4, 9000, device=device, generator=torch.Generator(device).manual_seed(1))
    exponentials = torch.exp(x - x.max(dim=1, keepdim=True)[0])
    wanted = exponentials.double() / exponentials.double().sum(dim=1, keepdim=True)
    assert torch.equal(make(accumulate="float64")(x), wanted.float())
    assert not torch.equal(make()(x), wanted.float())


def test_compiled_accumulates_in_float64(device: str) -> None:
    x = torch.randn(4, 9000, device=device, generator=torch.Generator(device).manual_seed(1))
    assert not torch.equal(Compiled(accumulate="float64")(x), Compiled()(x))


@pytest.mark.parametrize("make", [*TRITON, Naive], ids=lambda make: make.__name__)
@pytest.mark.parametrize("accumulate", ["float32", "float64"])
def test_float64_input_keeps_float64(
    make: Callable[..., Kernel], device: str, accumulate: str
) -> None:
    x = torch.randn(4, 500, device=device, dtype=torch.float64)
    assert mean_error(make(accumulate=accumulate), x) < 1e-15, name(make)
