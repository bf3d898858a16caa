"""`cluster` and `auto` on a card: Gluon has no interpreter."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernels.device import cuda_device
from kernels.softmax.auto import Auto
from kernels.softmax.cluster import Cluster
from tests.kernels.inputs import LAYOUTS, lay_out
from tests.kernels.softmax.test_extremes import extremes
from tests.kernels.variants import assert_softmax, name

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available() or torch.cuda.get_device_capability() < (9, 0),
        reason="needs a CUDA device of sm_90 or newer",
    ),
]
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
CUTS = ((None, None), (1, 1), (1, 4), (2, 2), (4, 8), (16, 1), (16, 16))


@pytest.mark.parametrize("dtype", DTYPES, ids=name)
@pytest.mark.parametrize("cut", CUTS, ids=str)
def test_infinities_and_nan_give_what_torch_gives(
    cut: tuple[int | None, int | None], dtype: torch.dtype
) -> None:
    x = extremes().to("cuda", dtype)
    assert_softmax(Cluster(*cut), x)
    # the same rows a hundred times as wide, so that they cross slices
    assert_softmax(Cluster(*cut), x.repeat_interleave(100, dim=1))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    rows=st.integers(1, 40),
    cols=st.integers(1, 70_000) | st.integers(1, 400),
    layout=st.sampled_from(LAYOUTS),
    dtype=st.sampled_from(DTYPES),
    scale=st.sampled_from([1.0, 1e4]),
    seed=st.integers(0, 99),
)
def test_any_shape_and_stride_gives_the_answer_of_float64(
    rows: int, cols: int, layout: str, dtype: torch.dtype, scale: float, seed: int
) -> None:
    generator = torch.Generator("cuda").manual_seed(seed)
    x = (torch.randn(rows, cols, device="cuda", generator=generator) * scale).to(dtype)
    for kernel in (Cluster(), Auto()):
        assert_softmax(kernel, lay_out(x, layout))


@pytest.mark.parametrize("dtype", DTYPES, ids=name)
@pytest.mark.parametrize("cols", [131_072, 262_144, 400_000, 524_288, 786_432, 1 << 20])
def test_wide_rows(cols: int, dtype: torch.dtype) -> None:
    for rows in (1, 9, 40):
        x = torch.randn(rows, cols, device="cuda").to(dtype)
        assert_softmax(Auto(), x)
        if Cluster().unsupported((rows, cols), dtype, cuda_device(0)) is None:
            assert_softmax(Cluster(), x)


def test_all_rows_of_the_smallest_and_the_largest_number() -> None:
    for dtype in DTYPES:
        for value in (torch.finfo(dtype).min, torch.finfo(dtype).max):
            x = torch.full((3, 5000), value, dtype=dtype, device="cuda")
            assert_softmax(Cluster(), x)


def test_the_same_answer_to_the_last_bit_every_time() -> None:
    x = torch.randn(300, 65_536, device="cuda")
    first = Cluster()(x)
    assert all(torch.equal(Cluster()(x), first) for _ in range(20))


def test_two_streams_at_once() -> None:
    x = [torch.randn(200, 131_072, device="cuda") for _ in range(2)]
    streams = [torch.cuda.Stream() for _ in x]
    torch.cuda.synchronize()
    answers = []
    for _ in range(10):
        for stream, each in zip(streams, x, strict=True):
            with torch.cuda.stream(stream):
                answers.append((Cluster()(each), each))
    torch.cuda.synchronize()
    for y, each in answers:
        torch.testing.assert_close(y, torch.softmax(each, dim=1))
