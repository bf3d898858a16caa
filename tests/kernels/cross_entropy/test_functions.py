"""`cross_entropy` and `logprob_entropy` beside PyTorch in float64, and what is done with them."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from kernels.cross_entropy import functions
from kernels.cross_entropy.functions import cross_entropy
from kernels.log_softmax.functions import logprob_entropy
from tests.kernels.test_functions import (
    CLOSE,
    REDUCTIONS,
    Options,
    chosen,
    compiled,
    due,
    loss_as_due,
)
from tests.kernels.variants import DTYPES, name

guarded = pytest.mark.skipif(
    functions._overwritten is None, reason="needs a PyTorch built for CUDA, which guards memory"
)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("dtype", [None, *DTYPES], ids=str)
def test_classes_may_be_the_last_dimension_and_the_loss_have_a_dtype_of_its_own(
    device: str, dtype: torch.dtype | None, reduction: str
) -> None:
    x = torch.randn(2, 3, 40, device=device, dtype=torch.bfloat16, requires_grad=True)
    target = torch.randint(40, (2, 3), device=device)
    loss = cross_entropy(x, target, reduction=reduction, dim=-1, dtype=dtype)
    wanted = due(x.mT, target, reduction=reduction)
    assert (loss.dtype, loss.shape) == (dtype or torch.bfloat16, wanted.shape)
    torch.testing.assert_close(loss.double(), wanted, rtol=2 * torch.finfo(loss.dtype).eps + 1e-6,
                               atol=1e-6)  # fmt: skip
    dx, wanted_dx = (torch.autograd.grad(each.sum(), x)[0] for each in (loss, wanted))
    torch.testing.assert_close(dx, wanted_dx, rtol=2e-2, atol=1e-6)
    probabilities = torch.rand(2, 3, 40, device=device)
    found = cross_entropy(x, probabilities, dim=2, reduction=reduction, dtype=torch.float32)
    wanted = due(x.mT, probabilities.mT, reduction=reduction)
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_nothing_that_counts_and_no_rows(device: str, reduction: str, smoothing: float) -> None:
    x = torch.randn(3, 5, device=device)
    ignored = torch.full((3,), 2, device=device)
    options: Options = {"reduction": reduction, "label_smoothing": smoothing, "ignore_index": 2}
    loss = loss_as_due(x, ignored, **options)
    assert loss.isnan().all() if reduction == "mean" else (loss == 0).all()
    loss_as_due(x[:0], ignored[:0], **options)


@pytest.mark.parametrize("inplace", [False, True])
def test_an_infinite_target_and_one_of_no_class_spoil_their_own_rows_alone(
    device: str, inplace: bool
) -> None:
    x = torch.randn(5, 6, device=device)
    x[4, 1] = -math.inf
    target = torch.tensor([1, 6, -1, 2, 1], device=device)
    leaf = x.requires_grad_()
    loss = cross_entropy(leaf * 1, target, reduction="none", inplace=inplace)
    (dx,) = torch.autograd.grad(loss.sum(), leaf)
    assert loss.isnan().tolist() == [False, True, True, False, False]
    assert loss[4] == math.inf
    assert dx.isnan().all(1).tolist() == dx.isnan().any(1).tolist() == loss.isnan().tolist()
    for row in (0, 3, 4):
        p = torch.softmax(x[row].detach(), -1)
        torch.testing.assert_close(dx[row], p - F.one_hot(target[row], 6))


X, T = torch.randn(3, 5), torch.tensor([1, 2, 3])


def compiled_loss(x: torch.Tensor, target: torch.Tensor, **options: Any) -> torch.Tensor:
    """By PyTorch's operations, whatever the device."""
    with FlopCounterMode(display=False):
        return cross_entropy(x, target, **options)


# --- who differentiates, traces and watches ---


def test_compiled_whole_it_is_one_operator(device: str) -> None:
    x = torch.randn(2, 3, 9, device=device, requires_grad=True)
    target = torch.randint(9, (2, 3), device=device)
    seen: list[str] = []

    def backend(graph: Any, inputs: Any) -> Any:
        seen.extend(str(node.target) for node in graph.graph.nodes)
        return graph

    torch.compiler.reset()
    compiled = torch.compile(cross_entropy, backend=backend, fullgraph=True)
    compiled(x.transpose(1, 2) * 2, target, inplace=True)
    assert [each for each in seen if "cross_entropy" in each] == [
        "softmax_roofline.cross_entropy.default"
    ]


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=name)
def test_under_autocast_the_loss_has_the_dtype_that_pytorchs_has(
    device: str, dtype: torch.dtype, kind: torch.dtype
) -> None:
    x = torch.randn(3, 5, device=device).to(dtype).requires_grad_()
    with torch.autocast(device, dtype=kind):
        wanted = F.cross_entropy(x, T.to(device))
        for loss in (
            cross_entropy(x, T.to(device)),
            compiled_loss(x, T.to(device)),
            compiled(lambda x: cross_entropy(x, T.to(device)))(x),
        ):
            assert loss.dtype == wanted.dtype
            torch.testing.assert_close(loss.double(), due(x, T.to(device)), rtol=1e-5, atol=1e-6)
            (dx,) = torch.autograd.grad(loss, x)
            assert dx.dtype == dtype


def test_a_call_like_an_earlier_one_is_not_taken_for_it(device: str) -> None:
    x = torch.randn(6, 6, device=device)
    target = torch.arange(6, device=device)
    for _ in range(2):  # what is remembered of the first time must not answer for another
        for logits in (x, x.t(), x.half(), x[:, :5], x[:1].expand(6, 6)):
            loss_as_due(logits, target % logits.shape[1])
        loss_as_due(x, target, weight=torch.rand(6, device=device) + 0.1)
        loss_as_due(x, torch.full((6, 6), 1 / 6, device=device))
        for reduction in ("none", "sum", "mean"):
            loss_as_due(x, target, reduction=reduction, ignore_index=1)
        with torch.autocast(device, dtype=torch.float16):
            assert cross_entropy(x.half(), target).dtype == torch.float32
        assert cross_entropy(x.half(), target).dtype == torch.float16
        for wrong in ({"temperature": True}, {"softcap": False}, {"z_loss": False}):
            with pytest.raises(TypeError):
                cross_entropy(x, target, **wrong)  # type: ignore[arg-type]
        weight = torch.rand(6, device=device, requires_grad=True)
        with pytest.raises(RuntimeError):
            cross_entropy(x, target, weight)
        with FlopCounterMode(display=False):
            torch.testing.assert_close(cross_entropy(x, target), due(x, target).float())
        found = torch.func.vmap(cross_entropy, (0, None))(torch.stack((x, 2 * x)), target)
        torch.testing.assert_close(found[1], due(2 * x, target).float())
        _, slope = torch.func.jvp(lambda x: cross_entropy(x, target), (x,), (x,))
        _, wanted = torch.func.jvp(lambda x: F.cross_entropy(x, target), (x,), (x,))
        torch.testing.assert_close(slope, wanted)
        with pytest.raises((IndexError, RuntimeError, ValueError)):
            cross_entropy(x, target[:3])


# --- in place ---


def made(x: torch.Tensor) -> torch.Tensor:
    """Logits that an operation computed, and keeps for its own gradient."""
    return torch.tanh(x)


USES: dict[str, Callable[[torch.Tensor], Any]] = {
    "read": lambda y: y + 1,
    "read by a reduction": lambda y: y.argmax(-1),
    "read by a number": lambda y: y[0, 0].item(),
    "printed": repr,
    "written": lambda y: y.detach().zero_(),
    "written to": lambda y: torch.add(torch.ones_like(y), 1, out=y.detach()),
    "copied": copy.deepcopy,
    "pickled": lambda y: pickle.dumps(y.detach()),
    "multiplied": lambda y: y @ y.t(),
    "another loss": lambda y: cross_entropy(y, torch.zeros(len(y), dtype=torch.int64).to(y.device)),
    "the same again": lambda y: cross_entropy(
        y, torch.zeros(len(y), dtype=torch.int64).to(y.device), inplace=True
    ),
    "by its address": lambda y: y.data_ptr(),
    "by a view made after": lambda y: y[1:].sum(),
}


@guarded
@pytest.mark.parametrize(
    ("dtype", "reduction"),
    [(torch.float32, "mean"), (torch.float32, "none"), (torch.float16, "sum")],
    ids=str,
)
@pytest.mark.parametrize("use", USES)
def test_overwritten_logits_and_all_that_shares_their_memory_are_refused(
    device: str, use: str, dtype: torch.dtype, reduction: str
) -> None:
    target = torch.randint(6, (4,), device=device)
    leaf = torch.randn(4, 6, device=device, dtype=dtype, requires_grad=True)
    base = made(leaf)
    logits, other = base.view(4, 6), base[:, :6]
    loss = cross_entropy(logits, target, reduction=reduction, inplace=True)
    assert loss.isfinite().all()
    for y in (logits, base, other, base.detach(), base.data):
        y = y.detach() if use == "copied" else y
        with pytest.raises(RuntimeError, match=r"overwritten by cross_entropy\(.*inplace=True\)"):
            USES[use](y)
    with pytest.raises(RuntimeError, match=r"overwritten by cross_entropy\(.*inplace=True\)"):
        loss.sum().backward()  # tanh kept them


@guarded
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("dtype", DTYPES, ids=name)
@pytest.mark.parametrize("factor", [1.0, 0.25, 3.0])
def test_in_place_gives_the_same_loss_and_gradient_in_the_memory_of_the_logits(
    device: str, factor: float, dtype: torch.dtype, reduction: str
) -> None:
    target = torch.tensor([1, -100, 3, 0], device=device)
    x = torch.randn(4, 70, device=device).to(dtype)
    for cols in (70, 65):  # and a slice of a padded vocabulary
        wanted = due(
            wanted_of := x[:, :cols].double().requires_grad_(), target, reduction=reduction
        )
        (wanted_dx,) = torch.autograd.grad(factor * wanted.sum(), wanted_of)
        leaf = x.clone().requires_grad_()
        logits = leaf * 1
        sliced = logits[:, :cols]
        address, grads = logits.data_ptr(), []
        sliced.register_hook(grads.append)
        loss = cross_entropy(sliced, target, reduction=reduction, inplace=True)
        assert loss.dtype == dtype
        torch.testing.assert_close(loss.double(), wanted, **CLOSE[dtype])
        (factor * loss.sum()).backward()
        assert grads[0].data_ptr() == address
        assert leaf.grad is not None
        twice = {"rtol": 2 * CLOSE[dtype]["rtol"], "atol": 1e-6}  # rounded
        torch.testing.assert_close(leaf.grad[:, :cols].double(), wanted_dx, **twice)
        assert (leaf.grad[:, cols:] == 0).all()


@guarded
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_an_overwriting_gradient_is_taken_once_and_not_differentiated(
    device: str, reduction: str
) -> None:
    target = T.to(device)
    x = X.to(device).requires_grad_()

    def loss() -> torch.Tensor:
        return cross_entropy(x * 1, target, reduction=reduction, inplace=True).sum()

    kept = loss()
    (first,) = torch.autograd.grad(kept, x, retain_graph=True)
    saved = first.clone()
    for again in (
        lambda: torch.autograd.grad(kept, x, retain_graph=True),
        lambda: torch.autograd.grad(loss(), x, create_graph=True),
        lambda: torch.autograd.grad(loss(), x, torch.rand(2, device=device), is_grads_batched=True),
    ):
        with pytest.raises(RuntimeError, match="can be taken once, and not be differentiated"):
            again()
    assert torch.equal(first, saved)
    checkpointed = checkpoint(lambda x: cross_entropy(x * 1, target, inplace=True), x,
                              use_reentrant=False)  # fmt: skip
    (dx,) = torch.autograd.grad(checkpointed, x)
    torch.testing.assert_close(dx, torch.autograd.grad(F.cross_entropy(x, target), x)[0])


def test_leaves_and_what_needs_no_gradient_are_not_overwritten(device: str) -> None:
    x, target = torch.randn(4, 5, device=device), torch.randint(5, (4,), device=device)
    before, leaf = x.clone(), x.clone().requires_grad_()
    for bad in (leaf, leaf.view(4, 5), leaf[:, :4], torch.nn.Parameter(x)):
        with pytest.raises(RuntimeError, match="would overwrite a leaf tensor that requires grad"):
            cross_entropy(bad, target.clamp(max=3), inplace=True)
    cross_entropy(x, target, inplace=True)
    with torch.no_grad():
        cross_entropy(leaf * 1, target, inplace=True)
        cross_entropy(leaf, target, inplace=True)
    assert torch.equal(x, before)
    assert torch.equal(leaf, before)
    rows = (leaf[:1] * 1).expand(4, 5)  # rows that overlap
    cross_entropy(rows, target, inplace=True).backward()
    wanted = F.cross_entropy(before[:1].requires_grad_().expand(4, 5), target)
    torch.testing.assert_close(cross_entropy(rows, target), wanted)


def test_where_memory_cannot_be_guarded_nothing_is_overwritten(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(functions, "_overwritten", None)
    x = X.to(device).requires_grad_()
    logits = x * 1
    cross_entropy(logits, T.to(device), inplace=True).backward()
    assert torch.equal(logits, x)
    torch.testing.assert_close(x.grad, torch.autograd.grad(F.cross_entropy(x, T.to(device)), x)[0])


# --- log-probability and entropy ---


@pytest.mark.parametrize("watched", [False, True])
def test_log_probability_and_entropy_of_infinite_logits_and_no_class(
    device: str, watched: bool
) -> None:
    x = torch.randn(3, 6, device=device)
    x[0, 1], x[1, 2:] = -math.inf, -math.inf
    x.requires_grad_()
    target = torch.tensor([1, 0, 5 if watched else 6], device=device)  # PyTorch refuses a 6
    wanted = chosen(x, target.clamp(max=5), temperature=1.0)
    with FlopCounterMode(display=False) if watched else nullcontext():
        logprob, entropy = logprob_entropy(x, target)
        (dentropy,) = torch.autograd.grad(entropy.sum(), x, retain_graph=True)
        (dlogprob,) = torch.autograd.grad(logprob.sum(), x)
    close = {"rtol": 1e-6, "atol": 1e-6}  # of float32, whose terms cancel
    torch.testing.assert_close(entropy.double(), wanted[1], **close)
    torch.testing.assert_close(logprob[:2].double(), wanted[0][:2], **close)
    assert logprob[2].isnan() == (not watched)
    assert dentropy.isfinite().all()
    assert dlogprob[2].isnan().all() == (not watched)
    assert dlogprob[:2].isfinite().all()
