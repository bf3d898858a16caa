"""`cross_entropy(…, inplace=True)`: the gradient over the logits, which nobody reads again."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from kernels.cross_entropy.functions import cross_entropy
from tests.kernels.conftest import DTYPES
from tests.kernels.test_functions import CLOSE, REDUCTIONS, due

GUARD = "_set_storage_data_ptr_access_error_msg"  # by which PyTorch keeps others off memory
guarded = pytest.mark.skipif(
    not hasattr(torch._C, GUARD), reason="needs a PyTorch built for CUDA, which guards memory"
)
reductions = pytest.mark.parametrize("reduction", REDUCTIONS)


def zeros(y: torch.Tensor) -> torch.Tensor:
    return torch.zeros(len(y), dtype=torch.int64, device=y.device)


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
    "another loss": lambda y: cross_entropy(y, zeros(y)),
    "the same again": lambda y: cross_entropy(y, zeros(y), inplace=True),
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
    base = torch.tanh(torch.randn(4, 6, device=device, dtype=dtype, requires_grad=True))
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
@reductions
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("factor", [1.0, 0.25, 3.0])
def test_in_place_gives_the_same_loss_and_gradient_in_the_memory_of_the_logits(
    device: str, factor: float, dtype: torch.dtype, reduction: str
) -> None:
    target = torch.tensor([1, -100, 3, 0], device=device)
    x = torch.randn(4, 70, device=device).to(dtype)
    for cols in (70, 65):  # and a slice of a padded vocabulary
        wanted_of = x[:, :cols].double().requires_grad_()
        wanted = due(wanted_of, target, reduction=reduction)
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
@reductions
def test_an_overwriting_gradient_is_taken_once_and_not_differentiated(
    device: str, reduction: str
) -> None:
    target = torch.tensor([1, 2, 3], device=device)
    x = torch.randn(3, 5, device=device, requires_grad=True)

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
    again = checkpoint(lambda x: cross_entropy(x * 1, target, inplace=True), x, use_reentrant=False)
    (dx,) = torch.autograd.grad(again, x)
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
    monkeypatch.setattr("kernels.cross_entropy.functions._overwritten", None)
    x = torch.randn(3, 5, device=device, requires_grad=True)
    target, logits = torch.tensor([1, 2, 3], device=device), x * 1
    cross_entropy(logits, target, inplace=True).backward()
    assert torch.equal(logits, x)
    torch.testing.assert_close(x.grad, torch.autograd.grad(F.cross_entropy(x, target), x)[0])
