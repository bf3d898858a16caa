"""`cross_entropy` and its neighbours where launches are real, and repeated ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from kernels import repeat
from kernels.cross_entropy import functions
from kernels.cross_entropy.functions import cross_entropy, logprob_entropy
from kernels.log_softmax.functions import log_softmax, logsumexp
from tests.kernels.cross_entropy.test_functions import CLOSE, REDUCTIONS, agrees
from tests.kernels.test_functions import chosen
from tests.kernels.variants import DTYPES, name

pytestmark = pytest.mark.gpu
WIDTHS = (1, 7, 1000, 4096, 32000, 50257, 128256)
Options = dict[str, Any]


def step(
    x: torch.Tensor, target: torch.Tensor, function: Callable[..., torch.Tensor], **options: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """The loss of logits that an operation computed, and the gradient of what it had."""
    leaf = x.detach().requires_grad_()
    loss = function(leaf * 1, target, **options)
    return loss.detach(), torch.autograd.grad(loss.sum(), leaf)[0]


@pytest.mark.parametrize("dtype", DTYPES, ids=name)
@pytest.mark.parametrize("cols", WIDTHS)
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_every_width_again_and_again(cols: int, dtype: torch.dtype, reduction: str) -> None:
    for rows in (1, 67, 600):
        for options in ({}, {"weight": torch.rand(cols, device="cuda"), "label_smoothing": 0.1}):
            for turn in range(3):  # the ordinary launch, then the repeated one
                x = (torch.randn(rows, cols, device="cuda") * 3).to(dtype)
                target = torch.randint(cols, (rows,), device="cuda")
                target[::5] = -100 if turn < 2 else cols - 1
                agrees(x, target, reduction=reduction, **options)


@pytest.mark.parametrize("dtype", DTYPES, ids=name)
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_in_place_again_and_again(dtype: torch.dtype, reduction: str) -> None:
    for cols in (1000, 50257):
        for _ in range(3):
            x = (torch.randn(67, cols, device="cuda") * 3).to(dtype)
            target = torch.randint(cols, (67,), device="cuda")
            found = step(x, target, cross_entropy, reduction=reduction, inplace=True)
            wanted = step(x.double(), target, F.cross_entropy, reduction=reduction)
            for mine, its in zip(found, wanted, strict=True):
                torch.testing.assert_close(mine.double(), its, **CLOSE[dtype])


def test_a_repeated_launch_stays_right_whatever_changes() -> None:
    storage = torch.randn(40 * 5020, device="cuda")
    for _ in range(3):
        for offset in (0, 1, 4, 3):  # elements: other alignments of the first address
            for stride in (5003, 5004, 5008, 0):
                for rows in (1, 33):
                    x = storage.as_strided((rows, 5003), (stride, 1), offset)
                    agrees(x, torch.randint(5003, (rows,), device="cuda"))


def test_every_plan_launches_again() -> None:
    x = torch.randn(600, 5000, device="cuda", dtype=torch.bfloat16)
    for rows in (1, 600):  # of one row several programs take parts, which meet in a workspace
        for reduction in REDUCTIONS:
            target = torch.randint(5000, (rows,), device="cuda")
            for inplace in (False, True):
                for _ in range(2):
                    step(x[:rows], target, cross_entropy, reduction=reduction, inplace=inplace)
                    cross_entropy(x[:rows], target, reduction=reduction)
            settings = -100, reduction, 0.0, 0.0, 0.0, 1.0, x.dtype
            plan = functions._plan_of(x[:rows], target, None, settings)
            assert plan
            used = [plan._alone, plan._forward, *plan._backward, *plan._over, plan._both]
            known = [each for one in used for each in one._known.values()]
            assert known
            assert repeat._never not in known


@pytest.fixture
def nobody_waits() -> Iterator[None]:
    torch.cuda.set_sync_debug_mode("error")
    yield
    torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.usefixtures("nobody_waits")
def test_the_host_does_not_wait(inplace: bool) -> None:
    x = torch.randn(64, 5000, device="cuda", dtype=torch.bfloat16)
    target = torch.arange(64, device="cuda")
    for _ in range(2):
        for reduction in REDUCTIONS:
            step(x, target, cross_entropy, reduction=reduction, inplace=inplace)
        logsumexp(x), log_softmax(x), logprob_entropy(x, target)


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_a_step_is_captured_in_a_graph(reduction: str, inplace: bool) -> None:
    x = torch.randn(64, 5000, device="cuda")
    target = torch.randint(5000, (64,), device="cuda")
    options: Options = {"reduction": reduction, "inplace": inplace}
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
        for mine, its in zip(
            found, step(x, target, F.cross_entropy, reduction=reduction), strict=True
        ):
            torch.testing.assert_close(mine, its, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=name)
def test_memory_beside_the_inputs(dtype: torch.dtype, reduction: str) -> None:
    rows, cols = 1024, 32000
    leaf = torch.randn(rows, cols, device="cuda", dtype=dtype, requires_grad=True)
    target = torch.randint(cols, (rows,), device="cuda")
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


@pytest.mark.parametrize("dtype", DTYPES, ids=name)
def test_other_functions_again_and_again(dtype: torch.dtype) -> None:
    close = CLOSE[dtype] | {"atol": 1e-5}
    for cols in (1000, 50257):
        for _ in range(3):
            leaf = (torch.randn(67, cols, device="cuda") * 3).to(dtype).requires_grad_()
            target = torch.randint(cols, (67,), device="cuda")
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


def test_compiled_whole() -> None:
    x = torch.randn(4, 16, 5000, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    target = torch.randint(5000, (4, 16), device="cuda")

    def f(x: torch.Tensor, function: Callable[..., torch.Tensor]) -> torch.Tensor:
        return function((x * 2).transpose(1, 2), target, label_smoothing=0.1)

    for _ in range(2):
        loss = torch.compile(f, fullgraph=True)(x, cross_entropy)
        wanted = f(x.float(), F.cross_entropy)
        torch.testing.assert_close(loss.float(), wanted, rtol=1e-2, atol=1e-3)
        (dx,) = torch.autograd.grad(loss, x)
        (wanted_dx,) = torch.autograd.grad(wanted, x)
        torch.testing.assert_close(dx, wanted_dx, rtol=3e-2, atol=1e-5)


@pytest.mark.parametrize("inplace", [False, True])
def test_beyond_two_to_the_31_elements(inplace: bool) -> None:
    if torch.cuda.mem_get_info()[0] < 40 << 30:
        pytest.skip("needs 40 GiB of free device memory")
    x = torch.randn(20_000, 128_256, device="cuda", dtype=torch.bfloat16)
    target = torch.randint(128_256, (20_000,), device="cuda")
    leaf = x.requires_grad_()
    loss = cross_entropy(leaf * 1, target, reduction="sum", inplace=inplace)
    (dx,) = torch.autograd.grad(loss, leaf, torch.tensor(2.0, device="cuda", dtype=x.dtype))
    for rows in (slice(0, 8), slice(16_740, 16_748), slice(19_992, 20_000)):
        wide = x[rows].detach().double().requires_grad_()
        wanted = F.cross_entropy(wide, target[rows], reduction="sum")
        (wanted_dx,) = torch.autograd.grad(2 * wanted, wide)
        torch.testing.assert_close(dx[rows].double(), wanted_dx, **CLOSE[x.dtype])


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_a_device_that_is_not_the_current_one() -> None:
    for _ in range(3):
        for index in (1, 0):
            x = torch.randn(128, 256, device=f"cuda:{index}")
            agrees(x, torch.randint(256, (128,), device=x.device))
