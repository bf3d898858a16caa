"""`log_softmax` and `logsumexp` beside PyTorch in float64, and what is done with them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from kernels.log_softmax import functions
from kernels.log_softmax.functions import (
    gradient_operator,
    log_softmax,
    log_softmax_operator,
    logsumexp,
    numbers_operator,
)
from tests.kernels.test_functions import PROGRAMS, compiled, of_kept_rows
from tests.kernels.variants import DTYPES, name

CLOSE = {dtype: {"rtol": 2 * torch.finfo(dtype).eps, "atol": 1e-5} for dtype in DTYPES}
CLOSE[torch.float32] = {"rtol": 1e-5, "atol": 1e-5}
CLOSE[torch.float64] = {"rtol": 1e-12, "atol": 1e-12}
FUNCTIONS: dict[Callable[..., torch.Tensor], Callable[..., torch.Tensor]] = {
    log_softmax: torch.log_softmax,
    logsumexp: torch.logsumexp,
}
both = pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)


def tensors(device: str, cols: int) -> list[torch.Tensor]:
    """Of every number of dimensions, contiguous or not."""
    x = torch.randn(3, 4, cols, device=device) * 3
    return [
        *(x[0, 0, 0], x[0, 0, :9], x[0, :, :7], x[:, 0], x[:, :2, 5 : cols // 2], x[..., :1]),
        *(x[..., 0], x.transpose(0, 1)[..., :5], x[:1, 0, :6].expand(3, 6), x[:0], x[..., :0]),
    ]


@both
@pytest.mark.parametrize("dtype", DTYPES, ids=name)
def test_any_tensor_gets_the_answer_and_gradient_of_float64(
    device: str, dtype: torch.dtype, function: Callable[..., torch.Tensor]
) -> None:
    # rows wider than a tile, of vectors of four elements and of eight
    for x in tensors(device, 2060 if dtype in (torch.float32, torch.bfloat16) else 70):
        for dim in {-1, 0, x.dim() - 1 if x.dim() else 0}:
            if function is log_softmax and x.numel() == 0 and x.shape[-1] == 0:
                continue  # float64's own gradient fails
            given_ = x.to(dtype).detach().requires_grad_()
            wanted_of = given_.detach().double().requires_grad_()
            y, wanted = function(given_, dim), FUNCTIONS[function](wanted_of, dim)
            assert (y.shape, y.dtype) == (wanted.shape, dtype)
            torch.testing.assert_close(y.double(), wanted, **CLOSE[dtype])
            dy = torch.rand_like(y)
            (dx,) = torch.autograd.grad(y, given_, dy)
            (wanted_dx,) = torch.autograd.grad(wanted, wanted_of, dy.double())
            assert (dx.shape, dx.dtype) == (x.shape, dtype)
            close = CLOSE[dtype]
            if dtype.itemsize == 2 and (function is log_softmax or dim not in (-1, x.dim() - 1)):
                close = {"rtol": 0.1, "atol": 0.1}  # PyTorch's own, from the rounded answer
            torch.testing.assert_close(dx.double(), wanted_dx, **close)
            with torch.no_grad():
                assert torch.equal(function(given_, dim), y)


def test_options_as_pytorchs(device: str) -> None:
    x = torch.randn(2, 3, 5, device=device)
    for dim in (-1, 1, (0, 2)):
        wanted = torch.logsumexp(x, dim, keepdim=True)
        torch.testing.assert_close(logsumexp(x, dim, keepdim=True), wanted)  # type: ignore[arg-type]
    integers = torch.arange(6, device=device).view(2, 3)
    torch.testing.assert_close(logsumexp(integers), torch.logsumexp(integers, -1))
    for dtype in (torch.float32, torch.float64):
        wanted = torch.log_softmax(integers, -1, dtype=dtype)
        torch.testing.assert_close(log_softmax(integers, dtype=dtype), wanted)
        torch.testing.assert_close(
            log_softmax(x.bfloat16(), dtype=dtype), torch.log_softmax(x.bfloat16(), -1, dtype)
        )


@both
def test_infinities_and_nan_come_out_as_from_pytorch(
    device: str, function: Callable[..., torch.Tensor]
) -> None:
    x = torch.randn(5, 6, device=device)
    x[0, 0], x[1, 1], x[2, 2], x[3] = math.inf, -math.inf, math.nan, -math.inf
    torch.testing.assert_close(function(x), FUNCTIONS[function](x, -1), equal_nan=True)


@both
@pytest.mark.parametrize(
    ("x", "options"),
    [
        (torch.ones(2, 3), {"dim": 2}),
        (torch.ones(2, 3), {"dim": "a"}),
        (torch.ones(2, 3), {"dim": 1.5}),
        ([1.0, 2.0], {}),
        (torch.ones(2, 3, dtype=torch.complex64), {}),
    ],
    ids=str,
)
def test_what_pytorch_refuses_is_refused_alike(
    device: str, function: Callable[..., torch.Tensor], x: Any, options: dict[str, Any]
) -> None:
    x = x.to(device) if isinstance(x, torch.Tensor) else x
    if function is logsumexp and isinstance(x, torch.Tensor) and x.is_complex():
        torch.testing.assert_close(function(x), torch.logsumexp(x, -1))
        return
    refused: list[type[BaseException]] = []
    for each in (FUNCTIONS[function], function):
        with pytest.raises((IndexError, NotImplementedError, RuntimeError, TypeError)) as caught:
            each(x, **({"dim": -1} | options))
        refused.append(caught.type)
    assert refused[0] == refused[1]


@both
def test_gradients_of_first_and_second_order(
    device: str, function: Callable[..., torch.Tensor]
) -> None:
    x = torch.randn(2, 3, dtype=torch.float64, device=device, requires_grad=True)
    assert torch.autograd.gradcheck(function, (x,), check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(function, (x,))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
@both
@pytest.mark.parametrize("program", PROGRAMS)
def test_whatever_differentiates_or_traces_it_gets_the_answer_of_pytorchs(
    device: str, program: str, function: Callable[..., torch.Tensor]
) -> None:
    x, t = torch.randn(2, 3, 4, dtype=torch.float64, device=device)
    ours, wanted = (
        PROGRAMS[program](lambda x: each(x, -1).reshape(3, -1).expand(3, 4), x, t)  # noqa: B023
        for each in (function, FUNCTIONS[function])
    )
    torch.testing.assert_close(ours, wanted)


def test_operators_keep_the_rules_of_pytorchs_operators(device: str) -> None:
    target = torch.tensor([1, 0, 3], device=device)
    for x in (torch.randn(3, 4, device=device), torch.randn(3, 5, device=device)[:, :4]):
        torch.library.opcheck(log_softmax_operator, (x.clone().requires_grad_(),))
        for given_ in (None, target):
            torch.library.opcheck(numbers_operator, (x.clone().requires_grad_(), given_, 0.7))
            _, entropy, lse = numbers_operator(x, given_, 0.7)
            grad = torch.rand(3, device=device)
            rest = (given_, entropy, lse, grad, None if given_ is None else grad, 0.7)
            torch.library.opcheck(gradient_operator, (x, *rest))


@both
def test_compiled_fake_and_without_gpu_or_interpreter(
    device: str, function: Callable[..., torch.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    x = torch.randn(2, 3, 9, device=device).bfloat16().requires_grad_()
    wanted = FUNCTIONS[function](x.float(), -1)
    close = CLOSE[torch.bfloat16]
    torch.testing.assert_close(compiled(function)(x).float(), wanted, **close)
    with FakeTensorMode():
        assert function(torch.empty(3, 4, device=device)).shape[0] == 3
    with torch.autocast(device, dtype=torch.bfloat16):
        assert function(x).dtype == torch.bfloat16
        with FlopCounterMode(display=False):  # by PyTorch's operations
            assert function(x).dtype == torch.bfloat16
    monkeypatch.setattr("kernels.calls.INTERPRETED", False)
    monkeypatch.setattr(functions, "auto", None)
    if device == "cpu":
        torch.testing.assert_close(function(x).float(), wanted, **close)


@both
@pytest.mark.parametrize("kept", [[True, False, True], [False] * 3], ids=["two", "none"])
def test_compiled_of_rows_whose_number_the_data_decide(
    device: str, function: Callable[..., torch.Tensor], kept: list[bool]
) -> None:
    x = torch.randn(3, 5, device=device, requires_grad=True)
    y, wanted = of_kept_rows(function, kept, x), FUNCTIONS[function](x[kept], -1)
    torch.testing.assert_close(y, wanted)
    dx, wanted_dx = (torch.autograd.grad(each.sum(), x)[0] for each in (y, wanted))
    torch.testing.assert_close(dx, wanted_dx)
