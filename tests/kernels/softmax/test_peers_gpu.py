"""The public kernels on a card: right, capturable, and refused only where they would fail."""

from __future__ import annotations

import pytest
import torch

from experiments.worker.gate import check
from kernels.device import cuda_device
from kernels.kernel import Kernel
from kernels.softmax.operation import SOFTMAX
from kernels.softmax.peers.flag_gems import TILE, WIDEST_WHOLE, FlagGems
from kernels.softmax.peers.quack import Quack
from tests.kernels.inputs import LAYOUTS, lay_out
from tests.kernels.variants import PEERS, name

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
WIDTHS = (1, 3, 64, 256, 760, 781, 1024, 4096, 12672, 32000, 32768, 32776, 65536, 131072, 262144)
every = pytest.mark.parametrize("kernel", PEERS, ids=name)
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=name)


def right(kernel: Kernel, x: torch.Tensor) -> None:
    reason = kernel.unsupported(tuple(x.shape), x.dtype, cuda_device(0))
    if reason is not None:
        pytest.skip(reason)
    y = kernel(x)
    assert y.is_contiguous()
    assert check(y, x.contiguous(), SOFTMAX, kernel.backend).reason is None


@every
@dtypes
@pytest.mark.parametrize("cols", WIDTHS)
def test_every_width_is_right_or_refused(kernel: Kernel, cols: int, dtype: torch.dtype) -> None:
    right(kernel, torch.randn(67, cols, device="cuda", dtype=dtype))


@every
@dtypes
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_is_right(kernel: Kernel, layout: str, dtype: torch.dtype) -> None:
    x = torch.randn(9, 1024, device="cuda", dtype=dtype)
    right(kernel, lay_out(x, layout))


@every
def test_rows_that_start_off_sixteen_bytes_are_right(kernel: Kernel) -> None:
    storage = torch.randn(9 * 1024 + 1, device="cuda")
    right(kernel, storage[1:].view(9, 1024))
    wide = torch.randn(9, 1032, device="cuda")
    right(kernel, wide[:, 4:1028])  # these do start on sixteen


@every
@pytest.mark.parametrize("cols", [1024, 131072])
def test_prepared_call_can_be_captured_in_a_graph(kernel: Kernel, cols: int) -> None:
    reason = kernel.unsupported((512, cols), torch.float32, cuda_device(0))
    if reason is not None:
        pytest.skip(reason)
    x = torch.randn(512, cols, device="cuda")
    call = kernel.prepare(x)
    call(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = call(x)
    x.normal_()
    graph.replay()
    torch.testing.assert_close(y, torch.softmax(x, dim=1))


@every
def test_call_runs_on_the_current_stream_and_allocates_only_its_answer(kernel: Kernel) -> None:
    x = torch.randn(512, 1024, device="cuda")
    if kernel.unsupported((512, 1024), x.dtype, cuda_device(0)):
        pytest.skip("refused")
    call = kernel.prepare(x)
    call(x)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    before = torch.cuda.memory_allocated()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)  # a launch on another stream would overtake this
        z = x * 0 + 1
        y = call(z)
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() - before == y.nbytes + z.nbytes
    torch.testing.assert_close(y, torch.full_like(y, 1 / 1024))


def test_quack_is_refused_only_where_the_library_fails() -> None:
    kernel, device = Quack(), cuda_device(0)
    for cols in (781, 1 << 20):
        reason = kernel.unsupported((2, cols), torch.float32, device)
        if reason is None or "QuACK" not in reason:
            pytest.skip(reason or "a card with room for it")
        with pytest.raises(Exception) as failed:  # noqa: PT011
            kernel(torch.randn(2, cols, device="cuda")).sum().item()
        assert "illegal" not in str(failed.value)


def test_flag_gems_takes_the_tile_that_its_model_says() -> None:
    if FlagGems().unsupported((2, 64), torch.float32, cuda_device(0)):
        pytest.skip("refused")
    from flag_gems.runtime import get_heuristic_config

    tile = get_heuristic_config("softmax_inner")["TILE_N"]
    assert tile({"N": WIDEST_WHOLE}) == WIDEST_WHOLE
    assert tile({"N": WIDEST_WHOLE + 1}) == TILE
