from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.worker.gate import check
from kernels.add.operation import ADD
from kernels.kernel import Kernel
from tests.kernels.variants import ADDS, DTYPES, name

every = pytest.mark.parametrize("kernel", ADDS, ids=name)


@every
@settings(max_examples=20, deadline=None)
@given(
    rows=st.integers(0, 9),
    cols=st.integers(0, 70),
    dtype=st.sampled_from(DTYPES),
    strided=st.booleans(),
)
def test_any_two_matrices_pass_the_gate(
    kernel: Kernel, device: str, rows: int, cols: int, dtype: torch.dtype, strided: bool
) -> None:
    a, b = ADD.make_inputs((rows, cols), dtype, device, seed=1)
    a = a.mT.contiguous().mT if strided else a
    interpreted = kernel.backend == "triton" and device == "cpu"
    z = kernel(a, b)
    assert z.is_contiguous()
    assert check(z, (a, b), ADD, "interpreter" if interpreted else kernel.backend).reason is None


@pytest.mark.parametrize("dtype", DTYPES, ids=name)
def test_the_gate_turns_a_wrong_sum_away(device: str, dtype: torch.dtype) -> None:
    a, b = ADD.make_inputs((7, 33), dtype, device, seed=0)
    for answer in (a.clone(), a - b, torch.zeros_like(a)):
        assert check(answer, (a, b), ADD, "torch").reason is not None
