"""The public functions where their launches are real, and repeated ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from kernels import functions
from kernels.cross_entropy.functions import cross_entropy
from kernels.functions import softmax
from kernels.log_softmax.functions import log_softmax, logprob_entropy, logsumexp
from tests.kernels.test_functions import CLOSE, REDUCTIONS, chosen, loss_as_due
from tests.kernels.variants import DTYPES, name

pytestmark = pytest.mark.gpu
ROUNDED = {torch.float32: 5e-6, torch.float64: 1e-12, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=name)
reductions = pytest.mark.parametrize("reduction", REDUCTIONS)
both_ways = pytest.mark.parametrize("inplace", [False, True])


def near(y: torch.Tensor, wanted: torch.Tensor, dtype: torch.dtype) -> None:
    y, wanted = y.detach().double(), wanted.detach().double()
    # beside the largest of them, terms that cancel in float32 leave a few of its spacings
    absolute = 1e-7 + (5e-7 * wanted.nan_to_num().abs().max().item() if wanted.numel() else 0)
    torch.testing.assert_close(y, wanted, rtol=ROUNDED[dtype], atol=absolute)


def step(
    x: torch.Tensor, target: torch.Tensor, function: Callable[..., torch.Tensor], **options: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """The loss of logits that an operation computed, and the gradient of what it had."""
    leaf = x.detach().requires_grad_()
    loss = function(leaf * 1, target, **options)
    return loss.detach(), torch.autograd.grad(loss.sum(), leaf)[0]


def classes(rows: int, cols: int) -> torch.Tensor:
    return torch.randint(cols, (rows,), device="cuda")


def assert_softmax(x: torch.Tensor) -> None:
    near(softmax(x), torch.softmax(x.double(), -1), x.dtype)


def assert_loss(x: torch.Tensor) -> None:
    loss_as_due(x, torch.randint(x.shape[1], (x.shape[0],), device=x.device))


@dtypes
@pytest.mark.parametrize("cols", [1, 3, 255, 256, 1000, 4096, 16384, 40001, 131072, 300001])
@pytest.mark.parametrize("dim", [0, 1])
def test_softmax_of_every_width_again_and_again(cols: int, dtype: torch.dtype, dim: int) -> None:
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


@dtypes
@pytest.mark.parametrize("cols", [1, 7, 1000, 4096, 32000, 50257, 128256])
@reductions
def test_losses_of_every_width_again_and_again(
    cols: int, dtype: torch.dtype, reduction: str
) -> None:
    for rows in (1, 67, 600):
        for options in ({}, {"weight": torch.rand(cols, device="cuda"), "label_smoothing": 0.1}):
            for turn in range(3):  # the ordinary launch, then the repeated one
                x = (torch.randn(rows, cols, device="cuda") * 3).to(dtype)
                target = classes(rows, cols)
                target[::5] = -100 if turn < 2 else cols - 1
                loss_as_due(x, target, reduction=reduction, **options)
                if rows == 67 and cols in (1000, 50257) and not options:
                    target = classes(rows, cols)
                    found = step(x, target, cross_entropy, reduction=reduction, inplace=True)
                    wanted = step(x.double(), target, F.cross_entropy, reduction=reduction)
                    for mine, its in zip(found, wanted, strict=True):
                        torch.testing.assert_close(mine.double(), its, **CLOSE[dtype])


@dtypes
def test_other_functions_again_and_again(dtype: torch.dtype) -> None:
    close = CLOSE[dtype] | {"atol": 1e-5}
    for cols in (1000, 50257):
        for _ in range(3):
            leaf = (torch.randn(67, cols, device="cuda") * 3).to(dtype).requires_grad_()
            target = classes(67, cols)
            wide = leaf.detach().double().requires_grad_()
            numbers = logsumexp(leaf), *logprob_entropy(leaf, target)
            wanted = torch.logsumexp(wide, -1), *chosen(wide, target, temperature=1.0)
            for mine, its in zip(numbers, wanted, strict=True):
                torch.testing.assert_close(mine.double(), its, rtol=close["rtol"], atol=1e-4)
                (dx,) = torch.autograd.grad(mine.sum(), leaf, retain_graph=True)
                (wanted_dx,) = torch.autograd.grad(its.sum(), wide, retain_graph=True)
                torch.testing.assert_close(dx.double(), wanted_dx, **close)
            y = log_softmax(leaf).double()
            torch.testing.assert_close(y, torch.log_softmax(wide, -1), **close)


@pytest.mark.parametrize(
    ("right", "cols"),
    [*((assert_softmax, cols) for cols in (256, 1000, 16384, 131072)), (assert_loss, 5003)],
)
def test_a_repeated_launch_stays_right_whatever_changes(
    right: Callable[[torch.Tensor], None], cols: int
) -> None:
    storage = torch.randn(40 * (cols + 17), device="cuda")
    for _ in range(3):
        for offset in (0, 1, 2, 4, 3, 8):  # elements: other alignments of the first address
            for stride in (cols, cols + 1, cols + 2, cols + 4, cols + 5, 0):
                for rows in (1, 16, 33):
                    right(storage.as_strided((rows, cols), (stride, 1), offset))
        for dtype in DTYPES:
            right(storage[: 16 * cols].view(16, cols).to(dtype))


def softmaxes() -> None:
    for shape in ((128, 256), (64, 4096), (64, 16384), (8, 131072)):
        x = torch.randn(shape, device="cuda", requires_grad=True)
        softmax(x).backward(x)
        softmax(x, 0, temperature=2.0).backward(x)


def losses() -> None:
    x = torch.randn(600, 5000, device="cuda", dtype=torch.bfloat16)
    for rows in (1, 600):  # of one row several programs take parts, which meet in a workspace
        for reduction in REDUCTIONS:
            target = classes(rows, 5000)
            for inplace in (False, True):
                step(x[:rows], target, cross_entropy, reduction=reduction, inplace=inplace)
            cross_entropy(x[:rows], target, reduction=reduction)


@pytest.mark.parametrize("call", [softmaxes, losses])
def test_every_kernel_is_launched_again(
    call: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    call(), call()
    monkeypatch.setattr("triton.runtime.jit.JITFunction.run", None)  # an ordinary launch fails
    call()


def test_profilers_hooks_are_called_for_a_repeated_launch() -> None:
    knobs = pytest.importorskip("triton").knobs
    x, called = torch.randn(128, 256, device="cuda"), []
    for _ in range(2):
        softmax(x)
    hook = called.append
    knobs.runtime.launch_enter_hook.add(hook)
    try:
        assert_softmax(x)
    finally:
        knobs.runtime.launch_enter_hook.remove(hook)
    assert len(called) == 1


def test_no_plan_keeps_a_tensor_alive() -> None:
    def once() -> None:
        x = torch.randn(512, 1024, device="cuda", requires_grad=True)
        softmax(x).sum().backward()

    for _ in range(3):
        once()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    once()
    assert torch.cuda.memory_allocated() == before


@pytest.fixture
def nobody_waits() -> Iterator[None]:
    torch.cuda.set_sync_debug_mode("error")
    yield
    torch.cuda.set_sync_debug_mode("default")


@both_ways
@pytest.mark.usefixtures("nobody_waits")
def test_the_host_does_not_wait(inplace: bool) -> None:
    x = torch.randn(64, 5000, device="cuda", dtype=torch.bfloat16)
    target = torch.arange(64, device="cuda")
    for _ in range(2):
        for reduction in REDUCTIONS:
            step(x, target, cross_entropy, reduction=reduction, inplace=inplace)
        logsumexp(x), log_softmax(x), logprob_entropy(x, target)


def test_softmax_on_a_side_stream_and_captured_in_a_graph() -> None:
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


@both_ways
@reductions
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["clusters", "streaming"])
def test_a_step_is_captured_in_a_graph(dtype: torch.dtype, reduction: str, inplace: bool) -> None:
    x = torch.randn(64, 5000, device="cuda", dtype=dtype)
    target = classes(64, 5000)
    options: dict[str, Any] = {"reduction": reduction, "inplace": inplace}
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step(x, target, cross_entropy, **options)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = step(x, target, cross_entropy, **options)
    for _ in range(2):
        x.normal_()
        target.random_(0, 5000)
        graph.replay()
        wanted = step(x, target, F.cross_entropy, reduction=reduction)
        for mine, its in zip(found, wanted, strict=True):
            torch.testing.assert_close(mine, its, rtol=1e-4, atol=1e-6)


@reductions
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=name)
def test_memory_beside_the_inputs(dtype: torch.dtype, reduction: str) -> None:
    rows, cols = 1024, 32000
    leaf = torch.randn(rows, cols, device="cuda", dtype=dtype, requires_grad=True)
    target = classes(rows, cols)
    for inplace in (True, False):
        for _ in range(2):
            logits = leaf * 1
            ones = torch.ones(rows if reduction == "none" else (), device="cuda", dtype=dtype)
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            loss = cross_entropy(logits, target, reduction=reduction, inplace=inplace)
            torch.autograd.grad(loss, logits, ones)
            peak = torch.cuda.max_memory_allocated() - before
            del loss, logits
        matrix = 0 if inplace else leaf.nbytes
        assert peak <= matrix + 64 * rows + 16384


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
@pytest.mark.parametrize("right", [assert_softmax, assert_loss])
def test_a_device_that_is_not_the_current_one(right: Callable[[torch.Tensor], None]) -> None:
    for _ in range(3):
        for index in (1, 0):
            x = torch.randn(128, 256, device=f"cuda:{index}", requires_grad=True)
            right(x)
            softmax(x).square().sum().backward()


@pytest.fixture
def room() -> None:
    if torch.cuda.mem_get_info()[0] < 40 << 30:
        pytest.skip("needs 40 GiB of free device memory")


@pytest.mark.usefixtures("room")
def test_softmax_beyond_two_to_the_31_elements() -> None:
    x = torch.randn(300_000, 8192, device="cuda", dtype=torch.float16)
    y, scaled, dy = softmax(x), softmax(x, temperature=2.0), x
    dx = functions.GRADIENT.run((y, dy), (1, 1.0, y.dtype))
    for rows in (slice(0, 64), slice(262_100, 262_200), slice(299_936, 300_000)):
        near(y[rows], torch.softmax(x[rows].double(), 1), x.dtype)
        near(scaled[rows], torch.softmax(x[rows].double() / 2, 1), x.dtype)
        y64, dy64 = y[rows].double(), dy[rows].double()
        near(dx[rows], y64 * (dy64 - (y64 * dy64).sum(1, keepdim=True)), x.dtype)


@both_ways
@pytest.mark.usefixtures("room")
def test_a_loss_beyond_two_to_the_31_elements(inplace: bool) -> None:
    x = torch.randn(20_000, 128_256, device="cuda", dtype=torch.bfloat16)
    target = classes(20_000, 128_256)
    leaf = x.requires_grad_()
    loss = cross_entropy(leaf * 1, target, reduction="sum", inplace=inplace)
    (dx,) = torch.autograd.grad(loss, leaf, torch.tensor(2.0, device="cuda", dtype=x.dtype))
    for rows in (slice(0, 8), slice(16_740, 16_748), slice(19_992, 20_000)):
        wide = x[rows].detach().double().requires_grad_()
        wanted = F.cross_entropy(wide, target[rows], reduction="sum")
        (wanted_dx,) = torch.autograd.grad(2 * wanted, wide)
        torch.testing.assert_close(dx[rows].double(), wanted_dx, **CLOSE[x.dtype])
