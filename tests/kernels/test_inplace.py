"""Losses with ``inplace=True``: the gradient over the logits, which nobody reads again."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from kernels.cross_entropy.functions import cross_entropy
from kernels.kl_div.functions import kl_div
from tests.kernels.conftest import DTYPES
from tests.kernels.test_functions import CLOSE, REDUCTIONS, divergence, due

GUARD = "_set_storage_data_ptr_access_error_msg"  # by which PyTorch keeps others off memory
guarded = pytest.mark.skipif(
    not hasattr(torch._C, GUARD), reason="needs a PyTorch built for CUDA, which guards memory"
)
reductions = pytest.mark.parametrize("reduction", REDUCTIONS)
# Each with PyTorch's formula in float64
LOSSES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "cross_entropy": (cross_entropy, due),
    "kl_div": (kl_div, divergence),
}
losses = pytest.mark.parametrize("called", LOSSES)


def target_of(called: str, y: torch.Tensor) -> torch.Tensor:
    """The second argument of a loss of these logits."""
    if called == "kl_div":
        return torch.randn(y.shape, device=y.device).to(y.dtype)
    return torch.arange(len(y), device=y.device)


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
    "another loss": lambda y: cross_entropy(y, target_of("cross_entropy", y)),
    "the same again": lambda y: kl_div(y, y, inplace=True),
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
@losses
def test_overwritten_logits_and_all_that_shares_their_memory_are_refused(
    device: str, called: str, use: str, dtype: torch.dtype, reduction: str
) -> None:
    message = rf"overwritten by {called}\(.*inplace=True\)"
    base = torch.tanh(torch.randn(4, 6, device=device, dtype=dtype, requires_grad=True))
    logits, other = base.view(4, 6), base[:, :6]
    target = target_of(called, logits)
    loss = LOSSES[called][0](logits, target, reduction=reduction, inplace=True)
    assert loss.isfinite().all()
    for y in (logits, base, other, base.detach(), base.data):
        y = y.detach() if use == "copied" else y
        with pytest.raises(RuntimeError, match=message):
            USES[use](y)
    with pytest.raises(RuntimeError, match=message):
        loss.sum().backward()  # tanh kept them


@guarded
@reductions
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("factor", [1.0, 0.25, 3.0])
@losses
def test_in_place_gives_the_same_loss_and_gradient_in_the_memory_of_the_logits(
    device: str, called: str, factor: float, dtype: torch.dtype, reduction: str
) -> None:
    x = torch.randn(4, 70, device=device).to(dtype)
    ours, formula = LOSSES[called]
    for cols in (70, 65):  # and a slice of a padded vocabulary
        wanted_of = x[:, :cols].double().requires_grad_()
        target = target_of(called, wanted_of.detach().to(dtype))
        target[1:2] = -100 if called == "cross_entropy" else 0
        wanted = formula(wanted_of, target, reduction=reduction)
        (wanted_dx,) = torch.autograd.grad(factor * wanted.sum(), wanted_of)
        leaf = x.clone().requires_grad_()
        logits = leaf * 1
        sliced = logits[:, :cols]
        address, grads = logits.data_ptr(), []
        sliced.register_hook(grads.append)
        loss = ours(sliced, target, reduction=reduction, inplace=True)
        assert loss.dtype == dtype or called == "kl_div"
        torch.testing.assert_close(loss.double(), wanted, **CLOSE[dtype])
        (factor * loss.sum()).backward()
        assert grads[0].data_ptr() == address or (called, dtype) == ("kl_div", torch.float64)
        assert leaf.grad is not None
        twice = {"rtol": 2 * CLOSE[dtype]["rtol"], "atol": 1e-6}  # rounded
        torch.testing.assert_close(leaf.grad[:, :cols].double(), wanted_dx, **twice)
        assert (leaf.grad[:, cols:] == 0).all()


@guarded
@reductions
@losses
def test_an_overwriting_gradient_is_taken_once_and_not_differentiated(
    device: str, called: str, reduction: str
) -> None:
    x = torch.randn(3, 5, device=device, requires_grad=True)
    (ours, formula), target = LOSSES[called], target_of(called, x)

    def loss() -> torch.Tensor:
        return ours(x * 1, target, reduction=reduction, inplace=True).sum()

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
    again = checkpoint(lambda x: ours(x * 1, target, inplace=True), x, use_reentrant=False)
    (dx,) = torch.autograd.grad(again, x)
    torch.testing.assert_close(dx, torch.autograd.grad(formula(x, target), x)[0])


@losses
def test_leaves_what_needs_no_gradient_and_what_cannot_be_guarded_are_not_overwritten(
    device: str, called: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, (ours, formula) = torch.randn(4, 5, device=device), LOSSES[called]
    target = target_of(called, x)
    before, leaf = x.clone(), x.clone().requires_grad_()
    for bad in (leaf, leaf.view(4, 5), leaf[:, :4], torch.nn.Parameter(x)):
        with pytest.raises(RuntimeError, match="would overwrite a leaf tensor that requires grad"):
            ours(bad, target_of(called, bad), inplace=True)
    ours(x, target, inplace=True)
    with torch.no_grad():
        ours(leaf * 1, target, inplace=True)
        ours(leaf, target, inplace=True)
    assert torch.equal(x, before)
    assert torch.equal(leaf, before)
    rows = (leaf[:1] * 1).expand(4, 5)  # rows that overlap
    ours(rows, target, inplace=True).backward()
    wanted = formula(before[:1].expand(4, 5), target).float()
    torch.testing.assert_close(ours(rows, target), wanted)
    monkeypatch.setattr("kernels.overwriting._guard", None)
    logits = leaf * 1  # where memory cannot be guarded
    (dx,) = torch.autograd.grad(ours(logits, target, inplace=True), leaf)
    assert torch.equal(logits, leaf)
    torch.testing.assert_close(dx, torch.autograd.grad(formula(leaf, target), leaf)[0])
