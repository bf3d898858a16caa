from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from experiments.worker.gate import check
from kernels.device import Device, cuda_device
from kernels.softmax_backward.backward_auto import BackwardAuto, in_vectors_by
from kernels.softmax_backward.operation import SOFTMAX_BACKWARD
from kernels.softmax_backward.rows import BackwardCluster
from tests.kernels.variants import DTYPES, name


@pytest.mark.parametrize("cols", [36, 37], ids=["whole vectors", "others"])
@pytest.mark.parametrize("dtype", DTYPES, ids=name)
def test_a_temperature_divides_the_gradient(device: str, dtype: torch.dtype, cols: int) -> None:
    y, dy = SOFTMAX_BACKWARD.make_inputs((5, cols), dtype, device, 0)
    dx = torch.empty_like(y)
    BackwardAuto().into(y, dy, dx, 1, temperature=0.3)
    wanted = SOFTMAX_BACKWARD.reference(y, dy) / 0.3
    torch.testing.assert_close(
        dx.double(), wanted, rtol=1e-2, atol=1e-2 if dtype.itemsize == 2 else 1e-5
    )


def test_rows_of_whole_vectors_go_by_width_and_others_by_tiles(h200: Device) -> None:
    f16, f32, f64 = torch.float16, torch.float32, torch.float64
    for cols, dtype, by in (
        *((520, f16, "BackwardCluster"), (516, f32, "BackwardCluster")),
        *((512, f16, "BackwardMultirow"), (512, f32, "BackwardMultirow")),
        *((126, f64, "BackwardMultirow"), (4096, f64, None), (127, f32, None)),
        *((50257, f16, None), (50304, f16, "BackwardCluster")),
        *((262144, f32, "BackwardCluster"), (262148, f32, None), (262152, f16, None)),
    ):
        chosen = in_vectors_by((64, cols), dtype, h200)
        assert (chosen and type(chosen).__name__) == by
    assert in_vectors_by((64, 4096), f32, Device("cpu", "cpu")) is None
    assert "do not fit" in str(BackwardCluster().unsupported((64, 1 << 20), f16, h200))
    assert BackwardAuto().unsupported((64, 1 << 20), f16, h200) is None


@pytest.mark.gpu
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    rows=st.integers(1, 200),
    cols=st.integers(1, 70_000) | st.integers(1, 4000).map(lambda vectors: 8 * vectors),
    strided=st.booleans(),
    dtype=st.sampled_from(DTYPES),
    seed=st.integers(0, 99),
)
def test_any_gradient_on_a_card_is_autograds(
    rows: int, cols: int, strided: bool, dtype: torch.dtype, seed: int
) -> None:
    inputs = SOFTMAX_BACKWARD.make_inputs((rows, cols), dtype, "cuda", seed)
    laid = [torch.cat([x, x], dim=1)[:, :cols] if strided else x for x in inputs]
    assert check(BackwardAuto()(*laid), inputs, SOFTMAX_BACKWARD, "triton").reason is None


@pytest.mark.gpu
@pytest.mark.parametrize("cut", [(1, 1), (2, 4), (16, 2), (16, 16), (None, None)], ids=str)
def test_any_cut_of_a_gradients_row_is_right(cut: tuple[int | None, int | None]) -> None:
    for dtype in (torch.float32, torch.bfloat16):
        for cols in (1024, 2040, 8192):
            if BackwardCluster(*cut).unsupported((70, cols), dtype, cuda_device(0)) is not None:
                continue  # eight warps at least for 8192 columns of float32
            inputs = SOFTMAX_BACKWARD.make_inputs((70, cols), dtype, "cuda", 1)
            dx = BackwardCluster(*cut)(*inputs)
            assert check(dx, inputs, SOFTMAX_BACKWARD, "triton").reason is None
            assert torch.equal(dx, BackwardCluster(*cut)(*inputs))
