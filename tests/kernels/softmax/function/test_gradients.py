"""`softmax(x)` differentiated, transformed and compiled, beside `torch.softmax`."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from kernels.softmax import softmax
from kernels.softmax.function.operator import backward_operator, softmax_operator
from tests.kernels.variants import DTYPES, name


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_gradients_of_first_and_second_order_and_forward_ones(device: str, dim: int) -> None:
    x = torch.randn(2, 3, 4, dtype=torch.float64, device=device, requires_grad=True)

    def f(x: torch.Tensor) -> torch.Tensor:
        return softmax(x, dim, temperature=0.7)

    assert torch.autograd.gradcheck(f, (x,), check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(f, (x,))
    scalar = torch.tensor(2.0, dtype=torch.float64, device=device, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: softmax(x, 0), (scalar,))


@pytest.mark.parametrize("dtype", DTYPES, ids=name)
def test_gradient_is_pytorchs_and_of_the_inputs_dtype(device: str, dtype: torch.dtype) -> None:
    x = torch.randn(3, 5, 7, device=device).to(dtype)
    gradients = []
    for function in (softmax, torch.softmax):
        leaf = x.clone().requires_grad_()
        y = function(leaf.transpose(1, 2), 1, dtype=torch.float32)  # type: ignore[operator]
        (gradient,) = torch.autograd.grad(y.square().sum(), leaf)
        gradients.append(gradient)
    assert gradients[0].dtype == dtype
    torch.testing.assert_close(gradients[0], gradients[1])


def test_operators_keep_the_rules_of_pytorchs_operators(device: str) -> None:
    for x in (torch.randn(3, 4, 5, device=device), torch.randn(4, 3, device=device).t()):
        arguments = (x.requires_grad_(), 1, 0.5, torch.float32)
        torch.library.opcheck(softmax_operator, arguments)
        y, dy = torch.softmax(x.detach(), 1), torch.randn_like(x)
        torch.library.opcheck(backward_operator, (y, dy, 1, 0.5, torch.float32))


def test_compiled_whole_it_gives_the_same_answer_and_gradient(device: str) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return softmax(x * 2, 1, temperature=0.5) * x

    compiled = torch.compile(f, fullgraph=True, backend="aot_eager")
    answers = []
    for function in (f, compiled):
        x = torch.arange(12.0, device=device).view(3, 4).requires_grad_()
        y = function(x)
        y.square().sum().backward()
        answers.append((y, x.grad))
    torch.testing.assert_close(answers[0], answers[1])


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: torch.vmap(f),
        lambda f: torch.vmap(f, in_dims=1),
        lambda f: torch.func.grad(lambda x: f(x).square().sum()),
        lambda f: torch.vmap(torch.func.grad(lambda x: f(x).square().sum())),
        lambda f: torch.func.jacfwd(f),
        lambda f: torch.func.hessian(lambda x: f(x).square().sum()),
    ],
    ids=["vmap", "vmap of columns", "grad", "grad of each", "jacfwd", "hessian"],
)
def test_functorch_transforms_it_as_it_does_pytorchs(
    device: str, transform: Callable[..., Callable[..., torch.Tensor]]
) -> None:
    x = torch.randn(3, 4, dtype=torch.float64, device=device)
    ours, theirs = (transform(lambda x, f=f: f(x, 0)) for f in (softmax, torch.softmax))
    torch.testing.assert_close(ours(x), theirs(x))


def test_fake_and_negated_tensors_and_parameters(device: str) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        y = softmax(torch.empty(3, 4, device=device), dtype=torch.float64)
        assert (y.shape, y.dtype) == ((3, 4), torch.float64)
    negated = torch.randn(3, 4, dtype=torch.complex64, device=device).conj().imag
    assert negated.is_neg()
    torch.testing.assert_close(softmax(negated), torch.softmax(negated, -1))
    assert softmax(torch.nn.Parameter(torch.randn(3, 4, device=device))).grad_fn is not None
    with torch.no_grad():
        assert softmax(torch.nn.Parameter(torch.randn(3, 4, device=device))).grad_fn is None
