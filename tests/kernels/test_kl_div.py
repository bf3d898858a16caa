"""`kl_div(student, teacher)`: PyTorch's formula, whoever calls it."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from kernels.kl_div.functions import kl_div

KINDS = (torch.float32, torch.bfloat16, torch.float64)
WAYS = [*product((False, True), ("mean", "sum", "none"))]
Pair = tuple[torch.Tensor, torch.Tensor]


def logits(shape: tuple[int, ...], dtype: torch.dtype, device: Any) -> Pair:
    generator = torch.Generator(device).manual_seed(sum(shape))
    made = (torch.randn(shape, dtype=dtype, device=device, generator=generator) for _ in range(2))
    return next(made).requires_grad_(), next(made)


def formula(student: torch.Tensor, teacher: torch.Tensor, *, temperature: float = 1.0,
            reverse: bool = False, reduction: str = "mean") -> torch.Tensor:  # fmt: skip
    """In float64."""
    logq, logp = (F.log_softmax(x.double() / temperature, -1) for x in (student, teacher))
    given = (logp, logq) if reverse else (logq, logp)
    losses = F.kl_div(*given, reduction="none", log_target=True).sum(-1)
    return {"mean": losses.mean, "sum": losses.sum, "none": lambda: losses}[reduction]()


def close(found: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype) -> None:
    digits = 1e-2 if dtype == torch.bfloat16 else 2e-5
    torch.testing.assert_close(found.double(), expected, rtol=digits, atol=digits)


@pytest.mark.parametrize(("reverse", "reduction"), WAYS)
@pytest.mark.parametrize("dtype", KINDS)
def test_loss_and_gradient_are_the_formulas(
    device: Any, dtype: torch.dtype, reverse: bool, reduction: str
) -> None:
    for shape in ((2, 3, 64), (5, 33), (40,)):
        student, teacher = logits(shape, dtype, device)
        how: dict[str, Any] = {"temperature": 0.8, "reverse": reverse, "reduction": reduction}
        loss, expected = kl_div(student, teacher, **how), formula(student, teacher, **how)
        assert loss.dtype is torch.promote_types(dtype, torch.float32)
        close(loss, expected, torch.float32)
        upstream = torch.randn_like(expected)
        (found,) = torch.autograd.grad(loss, student, upstream.to(loss.dtype))
        (right,) = torch.autograd.grad(expected, student, upstream)
        assert found.dtype is dtype
        close(found, right.double(), dtype)


def test_strided_padded_and_masked_logits(device: Any) -> None:
    wide, teacher = logits((6, 96), torch.float32, device)
    for student, other in (
        (wide[:, :80], teacher[:, :80]), (wide.mT, teacher.mT), (wide[1::2], teacher[::2]),
    ):  # fmt: skip
        (found,) = torch.autograd.grad(kl_div(student, other), wide)
        (right,) = torch.autograd.grad(formula(student, other), wide)
        close(found, right.double(), torch.float32)
    mask = torch.arange(96, device=device) < 70
    hidden, known = (torch.where(mask, x.detach(), -torch.inf) for x in (wide, teacher))
    close(kl_div(hidden, known), formula(wide[:, :70], teacher[:, :70]), torch.float32)
    assert kl_div(hidden, teacher).isinf()


def test_it_can_be_differentiated_compiled_and_transformed(device: Any) -> None:
    student, teacher = logits((3, 40), torch.float32, device)
    loss = kl_div(student, teacher, reverse=True)
    (first,) = torch.autograd.grad(loss, student, create_graph=True)
    (right,) = torch.autograd.grad(formula(student, teacher, reverse=True), student,
                                   create_graph=True)  # fmt: skip
    second, wanted = (torch.autograd.grad(g.square().sum(), student)[0] for g in (first, right))
    close(second, wanted.double(), torch.float32)
    each = torch.func.vmap(kl_div)(student[:, None].detach(), teacher[:, None])
    close(each, formula(student, teacher, reduction="none").detach(), torch.float32)
    trained = teacher.clone().requires_grad_()
    found, right = (torch.autograd.grad(f(student, trained), trained)[0] for f in (kl_div, formula))
    close(found, right.double(), torch.float32)
    compiled = torch.compile(kl_div, fullgraph=True, backend="aot_eager")
    (found,) = torch.autograd.grad(compiled(student, teacher), student)
    close(found, torch.autograd.grad(formula(student, teacher), student)[0].double(), torch.float32)


@pytest.mark.parametrize("dtype", KINDS[:2])
def test_a_rows_bits_do_not_depend_on_the_others(device: Any, dtype: torch.dtype) -> None:
    student, teacher = (x.detach() for x in logits((9, 321), dtype, device))
    whole = kl_div(student, teacher, reduction="none")
    for some in (slice(0, 1), slice(3, 8)):
        part = kl_div(student[some].clone(), teacher[some].clone(), reduction="none")
        assert torch.equal(part, whole[some])


@pytest.mark.parametrize(
    ("how", "error", "said"),
    [
        ({"student": 3}, TypeError, "'student' must be Tensor, not int"),
        ({"teacher": torch.ones(2, 8)}, ValueError, r"not \(4, 8\) and \(2, 8\)"),
        ({"teacher": torch.ones(4, 8).half()}, RuntimeError, "one floating dtype and device"),
        ({"reduction": "batchmean"}, ValueError, "mean, sum, none, not 'batchmean'"),
        ({"reverse": 1}, TypeError, "'reverse' must be bool, not int"),
        ({"temperature": 0}, ValueError, "temperature must be a number from"),
    ],
)
def test_wrong_arguments_are_named(how: dict[str, Any], error: type[Exception], said: str) -> None:
    given: dict[str, Any] = {"student": torch.ones(4, 8), "teacher": torch.ones(4, 8)}
    with pytest.raises(error, match=said):
        kl_div(**given | how)
