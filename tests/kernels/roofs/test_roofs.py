"""What stands beside attention, its roofs and a row of it, and that the gate sees what is wrong."""

from __future__ import annotations

import pytest
import sympy
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.worker.gate import check
from kernels.attention.operation import ATTENTION
from kernels.attention_io.attention_io import AttentionIo
from kernels.attention_values.attention_values import AttentionValues
from kernels.exponentials.exponentials import Exponentials
from kernels.exponentials.operation import EXPONENTIALS
from kernels.kernel import Kernel
from kernels.matmul.matmul import Matmul
from kernels.matmul.operation import MATMUL
from kernels.traffic import evaluate
from kernels.weighted.operation import WEIGHTED
from kernels.weighted.weighted_online import WeightedOnline
from tests.kernels.variants import HERE, name

KERNELS: tuple[Kernel, ...] = (
    *(AttentionIo(block_size=64), Matmul(), Exponentials(block_size=32), AttentionValues()),
)
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
every = pytest.mark.parametrize("kernel", KERNELS, ids=name)


def judge(kernel: Kernel, y: torch.Tensor, inputs: tuple[torch.Tensor, ...]) -> str | None:
    interpreted = kernel.backend == "triton" and not y.is_cuda
    backend = "interpreter" if interpreted else kernel.backend
    return check(y, inputs, kernel.operation, backend).reason


@every
@settings(max_examples=10, deadline=None)
@given(heads=st.integers(1, 3), length=st.integers(1, 150), dtype=st.sampled_from(DTYPES))
def test_a_roof_of_any_shape_passes_the_gate(
    kernel: Kernel, device: str, heads: int, length: int, dtype: torch.dtype
) -> None:
    shape = (heads * length, length)
    assert kernel.unsupported(shape, dtype, HERE) is None
    inputs = kernel.operation.make_inputs(shape, dtype, device, 0)
    assert judge(kernel, kernel(*inputs), inputs) is None


@pytest.mark.parametrize("dtype", DTYPES, ids=name)
def test_a_softmaxs_weighted_sum_passes_the_gate_and_a_wrong_one_does_not(
    device: str, dtype: torch.dtype
) -> None:
    for shape in ((3, 40), (1, 1), (2, 16), (2, 0)):
        inputs = WEIGHTED.make_inputs(shape, dtype, device, 0)
        y = WeightedOnline(block_size=16)(*inputs)
        assert judge(WeightedOnline(), y, inputs) is None
        if shape[1] > 1:
            assert judge(WeightedOnline(), y.flip(1), inputs) is not None


@every
def test_the_gate_turns_a_wrong_one_away(kernel: Kernel, device: str) -> None:
    inputs = kernel.operation.make_inputs((600, 300), torch.float16, device, 0)
    y = kernel(*inputs)
    for wrong in (torch.zeros_like(y), y * 1.05, y.flip(0)):
        assert judge(kernel, wrong, inputs) is not None


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
