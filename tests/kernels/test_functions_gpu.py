"""The public functions where their launches are real, and repeated ones."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from kernels.cross_entropy.functions import cross_entropy
from kernels.functions import softmax
from kernels.log_softmax.functions import log_softmax, logprob_entropy, logsumexp
from tests.kernels.conftest import DTYPES
from tests.kernels.test_functions import CALLED, CLOSE, REDUCTIONS, as_due
from tests.kernels.test_inplace import LOSSES, losses, reductions, target_of

pytestmark = pytest.mark.gpu
both_ways = pytest.mark.parametrize("inplace", [False, True])
WIDTHS = (1, 3, 255, 256, 1000, 1413, 4096, 4332, 16_384, 50_257, 128_256, 300_001)


def step(
    x: torch.Tensor, target: torch.Tensor, function: Callable[..., torch.Tensor], **options: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """The loss of logits that an operation computed, and the gradient of what it had."""
    leaf = x.detach().requires_grad_()
    loss = function(leaf * 1, target, **options)
    return loss.detach(), torch.autograd.grad(loss.sum(), leaf)[0]


def classes(rows: int, cols: int, device: str = "cuda") -> torch.Tensor:
    return torch.randint(cols, (rows,), device=device)


def options_of(called: str, cols: int) -> list[dict[str, Any]]:
    """The options with which each function is called at every width."""
    if called == "softmax":
        return [{}, {"temperature": 0.5}, {"dim": 0}]
    if called == "cross_entropy":
        weight = {"weight": torch.rand(cols, device="cuda"), "label_smoothing": 0.1}
        return [{"reduction": r} | more for r in REDUCTIONS for more in ({}, weight)]
    return [{}]


@pytest.mark.parametrize("cols", WIDTHS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("called", CALLED)
def test_every_width_again_and_again(called: str, dtype: torch.dtype, cols: int) -> None:
    for rows in (1, 67, 600) if cols < 100_000 else (1, 67):
        for options in options_of(called, cols):
            for turn in range(3):  # the ordinary launch, then the repeated one
                x = torch.randn(rows, cols, device="cuda").to(dtype)
                target = torch.randn_like(x) if called == "kl_div" else classes(rows, cols)
                if called == "cross_entropy":
                    target[::5] = -100 if turn < 2 else cols - 1
                along = x.t().contiguous() if options.get("dim") == 0 else x
                as_due(along, called, target, **options)


@losses
@reductions
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_step_in_place_again_and_again(dtype: torch.dtype, reduction: str, called: str) -> None:
    for cols in (1000, 50_257):
        for _ in range(3):
            x, (ours, formula) = torch.randn(67, cols, device="cuda").to(dtype), LOSSES[called]
            target = target_of(called, x)
            found = step(x, target, ours, reduction=reduction, inplace=True)
            wanted = step(x.double(), target, formula, reduction=reduction)
            for mine, its in zip(found, wanted, strict=True):
                torch.testing.assert_close(mine.double(), its, **CLOSE[dtype])


@pytest.mark.parametrize(
    ("called", "cols"),
    [*(("softmax", cols) for cols in (256, 1000, 16384, 131072)), ("cross_entropy", 5003)],
)
def test_a_repeated_launch_stays_right_whatever_changes(called: str, cols: int) -> None:
    storage = torch.randn(40 * (cols + 17), device="cuda")
    for _ in range(3):
        for offset in (0, 1, 2, 4, 3, 8):  # elements: other alignments of the first address
            for stride in (cols, cols + 1, cols + 2, cols + 4, cols + 5, 0):
                for rows in (1, 16, 33):
                    x = storage.as_strided((rows, cols), (stride, 1), offset)
                    as_due(x, called, classes(rows, cols))
        for dtype in DTYPES:
            as_due(storage[: 16 * cols].view(16, cols).to(dtype), called, classes(16, cols))


def every_softmax() -> None:
    for shape in ((128, 256), (64, 4096), (64, 16384), (8, 131072)):
        x = torch.randn(shape, device="cuda", requires_grad=True)
        softmax(x).backward(x)
        softmax(x, 0, temperature=2.0).backward(x)


def every_loss() -> None:
    x = torch.randn(600, 5000, device="cuda", dtype=torch.bfloat16)
    for rows in (1, 600):  # of one row several programs take parts, which meet in a workspace
        for reduction in REDUCTIONS:
            target = classes(rows, 5000)
            for inplace in (False, True):
                step(x[:rows], target, cross_entropy, reduction=reduction, inplace=inplace)
            cross_entropy(x[:rows], target, reduction=reduction)


@pytest.mark.parametrize("call", [every_softmax, every_loss])
def test_every_kernel_is_launched_again(
    call: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    call(), call()
    monkeypatch.setattr("triton.runtime.jit.JITFunction.run", None)  # an ordinary launch fails
    call()


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


@both_ways
@pytest.mark.parametrize("reduction", [*REDUCTIONS, "softmax"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["clusters", "streaming"])
def test_a_step_is_captured_in_a_graph(dtype: torch.dtype, reduction: str, inplace: bool) -> None:
    x = torch.randn(64, 5000, device="cuda", dtype=dtype)
    target = classes(64, 5000)

    def once(ours: bool) -> tuple[torch.Tensor, ...]:
        if reduction == "softmax":
            return (softmax(x) if ours else torch.softmax(x, -1),)
        if ours:
            return step(x, target, cross_entropy, reduction=reduction, inplace=inplace)
        return step(x, target, F.cross_entropy, reduction=reduction)

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            once(ours=True)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = once(ours=True)
    for _ in range(2):
        x.normal_()
        target.random_(0, 5000)
        graph.replay()
        for mine, its in zip(found, once(ours=False), strict=True):
            torch.testing.assert_close(mine, its, rtol=1e-4, atol=1e-6)


@reductions
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
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
@pytest.mark.parametrize("called", ["softmax", "cross_entropy"])
def test_a_device_that_is_not_the_current_one(called: str) -> None:
    for _ in range(3):
        for index in (1, 0):
            x = torch.randn(128, 256, device=f"cuda:{index}")
            as_due(x, called, classes(128, 256, f"cuda:{index}"))


@pytest.mark.usefixtures("room")
@pytest.mark.parametrize("called", ["softmax", "cross_entropy", "cross_entropy in place"])
def test_a_matrix_beyond_two_to_the_31_elements(called: str) -> None:
    rows, cols = (300_000, 8192) if called == "softmax" else (20_000, 128_256)
    x = torch.randn(rows, cols, device="cuda", dtype=torch.bfloat16)
    target, boundary = classes(rows, cols), (1 << 31) // cols
    leaf = x.requires_grad_()
    if called == "softmax":
        y = softmax(leaf, temperature=2.0)
        (dx,) = torch.autograd.grad(y, leaf, x.detach())
    else:
        inplace = called.endswith("in place")
        loss = cross_entropy(leaf * 1, target, reduction="sum", inplace=inplace)
        (dx,) = torch.autograd.grad(loss, leaf, torch.tensor(2.0, device="cuda", dtype=x.dtype))
    for part in (slice(0, 8), slice(boundary - 4, boundary + 4), slice(rows - 8, rows)):
        wide = x[part].detach().double().requires_grad_()
        if called == "softmax":
            wanted = torch.softmax(wide / 2, 1)
            torch.testing.assert_close(y[part].double(), wanted, **CLOSE[x.dtype])
            (wanted_dx,) = torch.autograd.grad(wanted, wide, wide.detach())
        else:
            wanted = F.cross_entropy(wide, target[part], reduction="sum")
            (wanted_dx,) = torch.autograd.grad(2 * wanted, wide)
        torch.testing.assert_close(dx[part].double(), wanted_dx, **CLOSE[x.dtype])
