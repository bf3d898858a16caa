"""What only a GPU can show of a row shared by programs that wait for one another."""

from __future__ import annotations

import pytest
import torch

from kernels.device import cuda_device
from kernels.softmax.cooperative import Cooperative, _cooperative
from tests.kernels.inputs import LAYOUTS, lay_out
from tests.kernels.softmax.test_extremes import extremes
from tests.kernels.variants import assert_softmax, name

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.timeout(120),  # a hang is a failure, not a wait
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
SHAPES = (
    *((1, 1), (37, 5), (1823, 781), (300, 1024), (5000, 4095), (3, 32000), (70, 65537)),
    *((1, 131072), (64, 131072), (9, 262144), (3, 1000003), (7, 1 << 20), (2, (1 << 20) + 16)),
)


def randn(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", dtype=dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=name)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_any_shape_gets_the_answer_of_float64(shape: tuple[int, int], dtype: torch.dtype) -> None:
    assert_softmax(Cooperative(), randn(*shape, dtype=dtype))


@pytest.mark.parametrize("loads", ["after", "before"])
@pytest.mark.parametrize(("block", "warps"), [(1024, 4), (2048, 8), (8192, 4), (16384, 16)])
def test_any_slice_gets_the_answer_of_float64(block: int, warps: int, loads: str) -> None:
    for shape in ((1, 20_000), (700, 20_000), (50, 65_536)):
        assert_softmax(Cooperative(block, warps, loads), randn(*shape))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_strides_are_read_in_place(layout: str) -> None:
    assert_softmax(Cooperative(1024), lay_out(randn(50, 5000), layout))


@pytest.mark.parametrize("dtype", DTYPES, ids=name)
@pytest.mark.parametrize("block", [16, 64])
def test_infinities_and_nan_give_what_torch_gives(block: int, dtype: torch.dtype) -> None:
    assert_softmax(Cooperative(block), extremes().to("cuda", dtype))


def test_results_are_the_same_bits_each_time() -> None:
    x = randn(500, 40_000)
    call = Cooperative(1024).prepare(x)
    first = call(x)
    for _ in range(50):
        assert torch.equal(call(x), first)


def test_widest_row_that_is_not_refused_runs() -> None:
    cols = 2 * cuda_device(0).sms * 16384  # type: ignore[operator]
    for wide in (cols, cols - 5):
        assert Cooperative().unsupported((3, wide), torch.float32, cuda_device(0)) is None
        assert_softmax(Cooperative(), randn(3, wide))
    assert "at once" in str(Cooperative().unsupported((3, cols + 1), torch.float32, cuda_device(0)))


def test_grid_that_cannot_be_resident_is_refused_and_not_hung() -> None:
    x = randn(2, 1 << 20)
    y, programs = torch.empty_like(x), 1 << 14
    words = torch.zeros(2 * programs, dtype=torch.int64, device="cuda")
    with pytest.raises(RuntimeError, match="too many blocks in cooperative launch"):
        _cooperative[(programs,)](
            *(x, y, words, 2, 1 << 20, x.stride(0), 1, programs),
            SLOTS=programs,
            BLOCK=64,
            AHEAD=False,
            LOADS="",
            STORES="",
            num_warps=4,
            launch_cooperative_grid=True,
        )
    assert_softmax(Cooperative(), x)  # the context is as it was


def test_matrix_beyond_two_to_the_31_elements() -> None:
    if torch.cuda.mem_get_info()[0] < 20 << 30:
        pytest.skip("needs 20 GiB of free device memory")
    x = randn(2100, 1 << 20, dtype=torch.float16)
    y = Cooperative()(x)
    for rows in (slice(0, 2), slice(2047, 2050), slice(2098, 2100)):
        wanted = torch.softmax(x[rows].double(), dim=1)
        torch.testing.assert_close(y[rows].double(), wanted, rtol=2e-2, atol=1e-7)


def test_prepared_call_allocates_only_its_answer() -> None:
    x = randn(64, 131_072)
    call = Cooperative().prepare(x)
    call(x)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    y = call(x)
    assert torch.cuda.memory_allocated() - before == y.nbytes
