"""`softmax(x)` where its launches are real, and repeated ones."""

from __future__ import annotations

import pytest
import torch

from kernels import functions
from kernels.functions import softmax
from tests.kernels.variants import DTYPES, name

pytestmark = pytest.mark.gpu
WIDTHS = (1, 3, 255, 256, 1000, 4096, 16384, 40001, 131072, 300001)
ROUNDED = {torch.float32: 5e-6, torch.float64: 1e-12, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


def near(y: torch.Tensor, wanted: torch.Tensor, dtype: torch.dtype) -> None:
    y, wanted = y.detach().double(), wanted.detach().double()
    # beside the largest of them, terms that cancel in float32 leave a few of its spacings
    absolute = 1e-7 + (5e-7 * wanted.nan_to_num().abs().max().item() if wanted.numel() else 0)
    torch.testing.assert_close(y, wanted, rtol=ROUNDED[dtype], atol=absolute)


@pytest.mark.parametrize("dtype", DTYPES, ids=name)
@pytest.mark.parametrize("cols", WIDTHS)
@pytest.mark.parametrize("dim", [0, 1])
def test_every_width_again_and_again(cols: int, dtype: torch.dtype, dim: int) -> None:
    for temperature in (1.0, 0.5):
        for _ in range(3):  # the ordinary launch, then the repeated one
            x = torch.randn(67, cols, device="cuda").to(dtype)
            x = x if dim == 1 else x.t().contiguous()
            leaf = x.clone().requires_grad_()
            y = softmax(leaf, dim, temperature=temperature)
            near(y, torch.softmax(x.double() / temperature, dim), dtype)
            dy = torch.randn_like(x)
            (dx,) = torch.autograd.grad(y, leaf, dy)
            y64, dy64 = y.detach().double(), dy.double()
            wanted = y64 * (dy64 - (y64 * dy64).sum(dim, keepdim=True)) / temperature
            near(dx, wanted, dtype)
            near(softmax(x, dim, temperature=temperature), y, dtype)


@pytest.mark.parametrize("cols", [256, 1000, 16384, 131072])
def test_a_repeated_launch_stays_right_whatever_changes(cols: int) -> None:
    storage = torch.randn(40 * (cols + 16), device="cuda")
    for _ in range(3):
        for offset in (0, 1, 2, 4, 3, 8):  # elements: other alignments of the first address
            for stride in (cols, cols + 1, cols + 2, cols + 4, 0):
                for rows in (1, 16, 33):
                    x = storage.as_strided((rows, cols), (stride, 1), offset)
                    near(softmax(x), torch.softmax(x.double(), -1), x.dtype)
        for dtype in DTYPES:
            x = storage[: 16 * cols].view(16, cols).to(dtype)
            near(softmax(x), torch.softmax(x.double(), -1), dtype)


def test_every_variant_launches_again(monkeypatch: pytest.MonkeyPatch) -> None:
    for shape in ((128, 256), (64, 4096), (64, 16384), (8, 131072)):
        x = torch.randn(shape, device="cuda", requires_grad=True)

        def step(x: torch.Tensor = x) -> None:
            softmax(x).backward(x)
            softmax(x, 0, temperature=2.0).backward(x)

        step(), step()
        with monkeypatch.context() as patch:
            patch.setattr("triton.runtime.jit.JITFunction.run", None)  # an ordinary launch fails
            step()


def test_profilers_hooks_are_called_for_a_repeated_launch() -> None:
    knobs = pytest.importorskip("triton").knobs
    x, called = torch.randn(128, 256, device="cuda"), []
    for _ in range(2):
        softmax(x)
    hook = called.append
    knobs.runtime.launch_enter_hook.add(hook)
    try:
        near(softmax(x), torch.softmax(x, -1), x.dtype)
    finally:
        knobs.runtime.launch_enter_hook.remove(hook)
    assert len(called) == 1


def test_no_plan_keeps_a_tensor_alive() -> None:
    for _ in range(3):
        x = torch.randn(512, 1024, device="cuda", requires_grad=True)
        softmax(x).sum().backward()
    torch.cuda.synchronize()
    del x
    before = torch.cuda.memory_allocated()
    x = torch.randn(512, 1024, device="cuda", requires_grad=True)
    softmax(x).sum().backward()
    del x
    assert torch.cuda.memory_allocated() == before


def test_captured_in_a_graph_and_on_a_side_stream() -> None:
    x = torch.randn(512, 1024, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            torch.cuda._sleep(10_000_000)  # what another stream would overtake
            x.normal_()
            y = softmax(x)
    side.synchronize()
    near(y, torch.softmax(x, -1), x.dtype)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = softmax(x)
    x.normal_()
    graph.replay()
    near(y, torch.softmax(x, -1), x.dtype)


def test_gradients_checked_numerically_and_compiled_whole() -> None:
    x = torch.randn(3, 4, 5, device="cuda", dtype=torch.float64, requires_grad=True)
    for dim in (0, 1, 2):
        assert torch.autograd.gradcheck(lambda x, d=dim: softmax(x, d, temperature=0.7), (x,))
        assert torch.autograd.gradgradcheck(lambda x, d=dim: softmax(x, d), (x,))
    compiled = torch.compile(lambda x: softmax(x * 2, 1) + 1, fullgraph=True)
    y = compiled(x)
    near(y, torch.softmax(x * 2, 1) + 1, x.dtype)
    (dx,) = torch.autograd.grad(y.square().sum(), x)
    (wanted,) = torch.autograd.grad((torch.softmax(x * 2, 1) + 1).square().sum(), x)
    near(dx, wanted, x.dtype)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_a_device_that_is_not_the_current_one() -> None:
    for _ in range(3):
        for index in (1, 0):
            x = torch.randn(128, 256, device=f"cuda:{index}", requires_grad=True)
            y = softmax(x)
            near(y, torch.softmax(x, -1), x.dtype)
            y.square().sum().backward()


def test_beyond_two_to_the_31_elements() -> None:
    if torch.cuda.mem_get_info()[0] < 40 << 30:
        pytest.skip("needs 40 GiB of free device memory")
    x = torch.randn(300_000, 8192, device="cuda", dtype=torch.float16)
    y, scaled, dy = softmax(x), softmax(x, temperature=2.0), x
    dx = functions.softmax_gradient(y, dy, 1, 1.0, y.dtype)
    for rows in (slice(0, 64), slice(262_100, 262_200), slice(299_936, 300_000)):
        near(y[rows], torch.softmax(x[rows].double(), 1), x.dtype)
        near(scaled[rows], torch.softmax(x[rows].double() / 2, 1), x.dtype)
        y64, dy64 = y[rows].double(), dy[rows].double()
        near(dx[rows], y64 * (dy64 - (y64 * dy64).sum(1, keepdim=True)), x.dtype)
