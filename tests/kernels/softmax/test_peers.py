"""The public kernels, with their packages and without."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.kernel import Kernel
from kernels.softmax.peers.liger import WIDEST, Liger
from tests.kernels.inputs import LAYOUTS, lay_out, matrices
from tests.kernels.variants import PEERS, assert_softmax, name


@pytest.mark.parametrize("kernel", PEERS, ids=name)
def test_empty_matrix_needs_no_package(kernel: Kernel) -> None:
    for shape in ((0, 8), (8, 0)):
        y = kernel(torch.empty(shape, dtype=torch.float16))
        assert (tuple(y.shape), y.dtype) == (shape, torch.float16)


@settings(max_examples=30, deadline=None)
@given(x=matrices(), layout=st.sampled_from(LAYOUTS))
def test_liger_gives_any_matrix_the_answer_of_float64(
    device: str, x: torch.Tensor, layout: str
) -> None:
    pytest.importorskip("liger_kernel")
    assert_softmax(Liger(), lay_out(x.to(device), layout))


def test_liger_is_refused_exactly_where_the_library_raises() -> None:
    settings_of = pytest.importorskip("liger_kernel.ops.utils").calculate_settings
    assert settings_of(WIDEST)[0] == WIDEST  # one block, so its looping kernel is never launched
    with pytest.raises(RuntimeError, match="exceeds"):
        settings_of(WIDEST + 1)
