"""The public functions beside PyTorch's formulas in float64: answers, gradients and arguments.

Who differentiates, traces and compiles them is in test_programs.py. On a GPU launches are repeated
ones: see test_functions_gpu.py.
"""

import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from torch import func
from torch.utils.flop_counter import FlopCounterMode

from kernels.cross_entropy.functions import cross_entropy
from kernels.functions import softmax
from kernels.kl_div.functions import kl_div
from kernels.kl_div.operation import KL_DIV
from kernels.log_softmax.functions import log_softmax, logprob_entropy, logsumexp
from tests.conftest import ROOT
from tests.kernels.conftest import DTYPES

Answer = torch.Tensor | tuple[torch.Tensor, ...]
Function = Callable[[torch.Tensor], Any]
Options = dict[str, Any]
# Half a spacing for the rounding, one for the interpreter, which cuts bfloat16 instead
CLOSE = {dtype: {"rtol": 2 * torch.finfo(dtype).eps, "atol": 1e-5} for dtype in DTYPES}
CLOSE[torch.float32] = {"rtol": 1e-5, "atol": 1e-6}
CLOSE[torch.float64] = {"rtol": 1e-12, "atol": 1e-12}
REDUCTIONS = ("none", "mean", "sum")
OF_A_DIMENSION: dict[str, tuple[Callable[..., torch.Tensor], Callable[..., torch.Tensor]]] = {
    "softmax": (softmax, torch.softmax),
    "log_softmax": (log_softmax, torch.log_softmax),
    "logsumexp": (logsumexp, torch.logsumexp),
}
CALLED = (*OF_A_DIMENSION, "cross_entropy", "kl_div", "logprob_entropy")
every = pytest.mark.parametrize("called", CALLED)
X, T = torch.ones(3, 5), torch.tensor([1, 2, 3])


# --- PyTorch's formulas, in float64 or as transforms have them ---


def chosen(x: torch.Tensor, target: torch.Tensor, temperature: float = 1.0,
           ignore_index: int | None = None) -> Answer:  # fmt: skip
    """Log-probability and entropy."""
    counts = torch.ones_like(target) if ignore_index is None else target != ignore_index
    logp = torch.log_softmax(x.double() / temperature, -1)
    entropy = -torch.where(logp.exp() > 0, logp.exp() * logp, 0.0).sum(-1)
    logprob = logp.gather(-1, (target * counts)[..., None])[..., 0]
    return logprob * counts, entropy * counts


def due(input: torch.Tensor, target: torch.Tensor, **options: Any) -> torch.Tensor:
    """The loss."""
    if (dim := options.pop("dim", 1)) != 1 and input.dim() > 1:
        target = target.movedim(dim, 1) if target.dim() == input.dim() else target
        input = input.movedim(dim, 1)
    z_loss, softcap, temperature, _ = (
        options.pop(key, 0.0) for key in ("z_loss", "softcap", "temperature", "dtype")
    )
    z = input.double()
    z = (softcap * (z / softcap).tanh() if softcap else z) / (temperature or 1)
    if options.get("weight") is not None:
        options["weight"] = options["weight"].double()
    target = target.double() if target.is_floating_point() else target
    loss = F.cross_entropy(z, target, **options)
    if not z_loss:
        return loss
    squares = z.logsumexp(min(1, z.dim() - 1)) ** 2
    counts = torch.ones_like(squares, dtype=torch.bool)
    if not target.is_floating_point():
        counts = target != options.get("ignore_index", -100)
    squares = torch.where(counts, squares, 0.0)  # whose derivative where nothing counts is 0
    if options.get("reduction", "mean") == "mean":
        squares = squares.sum() / counts.sum()
    elif options["reduction"] == "sum":
        squares = squares.sum()
    return loss + z_loss * squares


def divergence(
    student: torch.Tensor, teacher: torch.Tensor, temperature: float = 1.0,
    reverse: bool = False, reduction: str = "mean",
) -> torch.Tensor:  # fmt: skip
    """KL(teacher ‖ student), or the other way round, of each row."""
    logq, logp = ((x.double() / temperature).log_softmax(-1) for x in (student, teacher))
    given = (logp, logq) if reverse else (logq, logp)
    losses = F.kl_div(*given, reduction="none", log_target=True).sum(-1)
    return losses if reduction == "none" else getattr(losses, reduction)()


OF_ROWS: dict[str, tuple[Callable[..., Answer], Callable[..., Answer]]] = {
    "kl_div": (kl_div, divergence),  # both answer in float32 at least
    "logprob_entropy": (logprob_entropy, chosen),
}
WITH_TARGETS = OF_ROWS | {"cross_entropy": (cross_entropy, due)}
OURS = {called: ours for called, (ours, _) in (OF_A_DIMENSION | WITH_TARGETS).items()}


def pair(called: str, target: torch.Tensor | None, **options: Any) -> tuple[Function, Function]:
    """A function with options, and PyTorch's formula of it."""
    if called in WITH_TARGETS:
        ours, formula = WITH_TARGETS[called]
        return lambda x: ours(x, target, **options), lambda x: formula(x, target, **options)
    ours, pytorchs = OF_A_DIMENSION[called]
    temperature, dim = options.get("temperature", 1.0), options.get("dim", -1)
    dtype = options.get("dtype")
    cast = (lambda x: x.to(dtype).double()) if dtype else lambda x: x.double()
    return lambda x: ours(x, **options), lambda x: pytorchs(cast(x) / temperature, dim)


def as_due(x: torch.Tensor, called: str, target: torch.Tensor | None = None, **options: Any) -> Any:
    """Asserts the answers and the gradients of a call against float64; returns the answers.

    The gradient of a softmax or log-softmax in 16 bit is that of the rounded answer: left out.
    """
    ours, formula = pair(called, target, **options)
    dtype = options.get("dtype") or x.dtype
    dtype = torch.promote_types(x.dtype, torch.float32) if called in OF_ROWS else dtype
    leaf, wanted_of = x.detach().requires_grad_(), x.detach().double().requires_grad_()
    made, wanted = (
        (y,) if isinstance(y, torch.Tensor) else y for y in (ours(leaf), formula(wanted_of))
    )
    terms = {"atol": 1e-4} if called == "kl_div" and x.dtype != torch.float64 else {}  # cancel
    among = (dtype, x.dtype) if called == "softmax" else (dtype,)
    coarse = max(among, key=lambda one: torch.finfo(one).eps)
    for y, its in zip(made, wanted, strict=True):
        assert (y.shape, y.dtype) == (its.shape, dtype)
        assert y.is_contiguous()
        fine = CLOSE[torch.float32] if dtype is torch.float64 is not x.dtype else CLOSE[coarse]
        torch.testing.assert_close(y.double(), its, **(fine | terms), equal_nan=True)
    with torch.no_grad():
        again = ours(x)
        again = (again,) if isinstance(again, torch.Tensor) else again
    same = x.is_cpu or called in ("softmax", "cross_entropy")  # else another kernel, on a card
    close = {"rtol": 0, "atol": 0} if same else CLOSE[dtype]
    torch.testing.assert_close(again, made, **close, equal_nan=True)
    if called in OF_A_DIMENSION and (x.dtype.itemsize == 2 or dtype.itemsize == 2):
        return made
    close = CLOSE[x.dtype]  # a gradient adds terms that cancel
    close = {"rtol": 1e-4, "atol": 1e-5} if torch.float32 in (x.dtype, dtype) else close
    close = {"rtol": 1e-10, "atol": 1e-11} if x.dtype is dtype is torch.float64 else close
    close = CLOSE[x.dtype] if x.dtype.itemsize == 2 else close
    for there in [range(len(made))] if len(made) == 1 else ([0], [1], [0, 1]):
        # without 0, and rounded in no dtype
        dys = [torch.arange(made[i].numel(), device=x.device) % 4 / 4 + 0.5 for i in there]
        dys = [dy.view(made[i].shape).to(dtype) for i, dy in zip(there, dys, strict=True)]
        (dx,) = torch.autograd.grad([made[i] for i in there], leaf, dys, retain_graph=True)
        (wanted_dx,) = torch.autograd.grad(
            [wanted[i] for i in there], wanted_of, [dy.double() for dy in dys], retain_graph=True
        )
        assert (dx.shape, dx.dtype) == (x.shape, x.dtype)
        torch.testing.assert_close(dx.double(), wanted_dx, **(close | terms), equal_nan=True)
    return made


# --- answers and gradients ---

WIDE = (33, 250, 1001, 2049, 2500)


@st.composite
def tensors(draw: st.DrawFn, least: int = 0) -> torch.Tensor:
    """Of any shape of at least so many dimensions, sometimes a wide one, and with any strides."""
    shape = draw(st.lists(st.sampled_from(range(8)), min_size=least, max_size=4))
    if shape and math.prod(shape) < 24 and draw(st.sampled_from((False, False, True))):
        place = draw(st.sampled_from((-1, -1, 0)))
        shape[place] = draw(st.sampled_from(WIDE if place else WIDE[:2]))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))
    scale = draw(st.sampled_from((1.0, 20.0)))
    x = (torch.randn(shape, generator=generator) * scale).to(draw(st.sampled_from(DTYPES)))
    if shape and draw(st.booleans()):
        x = x.repeat_interleave(2, dim=draw(st.integers(0, len(shape) - 1)))
    x = x.permute(draw(st.permutations(range(len(shape)))))
    for dim in range(len(shape)):
        x = x.narrow(dim, start := min(draw(st.integers(0, 1)), x.shape[dim]), x.shape[dim] - start)
    return x


def drawn(draw: Any, called: str, x: torch.Tensor) -> tuple[torch.Tensor | None, Options]:
    """Targets where the function takes them, and options."""
    sampled = lambda *values: draw(st.sampled_from(values))  # noqa: E731
    if called in OF_A_DIMENSION:
        most = max(x.dim(), 1)
        options: Options = {"dim": draw(st.integers(-most, most - 1))}
        if called != "logsumexp":
            options["dtype"] = sampled(None, None, torch.float32, torch.float64)
        if called == "softmax":
            options["temperature"] = sampled(1.0, 0.3, 7)
        return None, options
    if called == "logprob_entropy":
        target = torch.randint(max(x.shape[-1], 1), x.shape[:-1], device=x.device)
        ignored = sampled(None, -100, 0)
        target[torch.rand(target.shape, device=x.device) < 0.4] = ignored or 0
        return target, {"temperature": sampled(1, 0.7), "ignore_index": ignored}
    if called == "kl_div":
        options = {"temperature": sampled(1, 0.7), "reverse": draw(st.booleans())}
        x.clamp_(-3, 3)  # terms cancel, and larger ones leave fewer digits
        teacher = torch.randn(x.shape[::-1]).to(x).permute(*reversed(range(x.dim())))
        return teacher, options | {"reduction": sampled(*REDUCTIONS)}
    dim = sampled(1, 1, -1) if x.dim() > 1 else 1
    place = dim % x.dim() if x.dim() > 1 else 0
    classes, shape = x.shape[place], x.shape[:place] + x.shape[place + 1 :]
    target = torch.randint(max(classes, 1), shape, device=x.device)
    ignored = sampled(-100, 0, -1)
    target[torch.rand(shape, device=x.device) < sampled(0.0, 0.4, 1.0)] = ignored
    options = {
        "reduction": sampled(*REDUCTIONS),
        "label_smoothing": sampled(0.0, 0.1, 1, 1.0),
        "ignore_index": ignored,
        "z_loss": sampled(0, 1e-2),
        "softcap": sampled(0, 5.0),
        "temperature": sampled(1, 0.7),
        "dim": dim,
        "dtype": sampled(None, None, torch.float32, torch.float64),
    }
    if draw(st.booleans()):
        options["weight"] = torch.rand(2 * classes, device=x.device)[::2] + 0.1
    if sampled(False, False, True):
        target = torch.rand(x.shape, device=x.device).to(x.dtype)
        del options["ignore_index"]
    return target, options


@every
@pytest.mark.timeout(240)
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_call_gets_the_answer_and_gradient_of_float64(
    device: str, called: str, data: st.DataObject
) -> None:
    x = data.draw(tensors(least=0 if called in OF_A_DIMENSION else 1)).to(device)
    target, options = drawn(data.draw, called, x)
    # PyTorch's own refuses no column and no class
    assume(0 not in x.shape or called not in ("logsumexp", *OF_ROWS))
    assume(called != "cross_entropy" or x.shape[options["dim"] if x.dim() > 1 else 0] > 0)
    assume(target is None or x.numel() < 33 * max(x.shape[-1], 1))  # a row's program takes a while
    as_due(x, called, target, **options)


@every
def test_rows_of_many_tiles_are_right(device: str, called: str) -> None:
    x = torch.randn(2, 20_000, device=device)
    # a whole tile of it first; gradients in PyTorch's formulas of the others are NaN for it
    x[1, :19_000] = -60 if called in OF_ROWS else -math.inf
    target = torch.tensor([7, 19_500], device=device)
    target = torch.randn_like(x) if called == "kl_div" else target
    as_due(x, called, target)
    if called == "softmax":
        as_due(x.t().contiguous(), called, dim=0, temperature=0.5)


@pytest.mark.parametrize("temperature", [1.0, 0.5])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_batch_invariant_rows_have_their_bits_in_any_matrix(
    device: str, dim: int, temperature: float, dtype: torch.dtype
) -> None:
    few = device == "cpu"
    for cols in (7, 300) if few else (1, 7, 64, 781, 1000, 32_768, 50_257, 300_000, 1 << 19):
        x = torch.randn(140 if few else 200, cols, device=device).to(dtype)
        x = (x if dim == 1 else x.t().contiguous()).requires_grad_()
        whole = softmax(x, dim, temperature=temperature, batch_invariant=True)
        dy = torch.randn_like(x)
        (dx,) = torch.autograd.grad(whole, x, dy)
        wanted = torch.softmax(x.double() / temperature, dim)
        close = CLOSE[dtype] if dtype.itemsize == 2 else {"rtol": 1e-4, "atol": 1e-8}
        torch.testing.assert_close(whole.double(), wanted, **close)
        for count in (1, 9, 130) if dim == 1 else (9, 130):  # a column alone lies as a row does
            some = x.narrow(1 - dim, 0, count).contiguous()
            found = softmax(some, dim, temperature=temperature, batch_invariant=True)
            assert torch.equal(found, whole.narrow(1 - dim, 0, count)), (cols, count)
            part = dy.narrow(1 - dim, 0, count).contiguous()
            (found,) = torch.autograd.grad(found, some, part)
            assert torch.equal(found, dx.narrow(1 - dim, 0, count)), (cols, count)


@pytest.mark.parametrize("called", OF_A_DIMENSION)
def test_infinities_and_nan_come_out_as_from_pytorch(device: str, called: str) -> None:
    ours, pytorchs = OF_A_DIMENSION[called]
    x = torch.randn(6, 6, device=device)
    x[0, 0], x[1, 1], x[2, 2], x[3] = math.inf, -math.inf, math.nan, -math.inf
    for dim in (0, 1):
        torch.testing.assert_close(ours(x, dim), pytorchs(x, dim), equal_nan=True)
    y = softmax(x, temperature=0.5)
    torch.testing.assert_close(y, torch.softmax(x / 0.5, -1), equal_nan=True)


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


@pytest.mark.parametrize("watches", [False, True])
def test_log_probability_and_entropy_of_infinite_logits_and_no_class(
    device: str, watches: bool
) -> None:
    x = torch.randn(3, 6, device=device)
    x[0, 1], x[1, 2:] = -math.inf, -math.inf
    target = torch.tensor([1, 0, 6], device=device)
    wanted = chosen(x, target.clamp(max=5))
    made = (watched(logprob_entropy) if watches else logprob_entropy)(x.requires_grad_(), target)
    for i, (y, due_) in enumerate(zip(made, wanted, strict=True)):
        (dx,) = torch.autograd.grad(y.sum(), x, retain_graph=True)
        known = 2 if i == 0 else 3  # of no class the log-probability is NaN
        torch.testing.assert_close(y[:known].double(), due_[:known], rtol=1e-6, atol=1e-6)
        assert y[known:].isnan().all()
        assert dx[:known].isfinite().all()
        assert dx[known:].isnan().all()


@pytest.mark.parametrize("reverse", [False, True])
def test_a_divergence_of_padded_classes_and_from_a_teacher_that_learns(
    device: str, reverse: bool
) -> None:
    x, teacher = torch.randn(2, 3, 96, device=device)
    for each in (x, teacher):
        each[:, 70:] = -math.inf
    loss = kl_div(x.requires_grad_(), teacher, reverse=reverse)
    wanted = divergence(x[:, :70], teacher[:, :70], reverse=reverse)
    found, right = (torch.autograd.grad(y, x)[0] for y in (loss, wanted))
    torch.testing.assert_close((loss, found), (wanted.float(), right), rtol=1e-5, atol=1e-6)
    x.detach()[:, :60] = -math.inf
    assert kl_div(x, teacher, reverse=reverse).isinf() == (not reverse)
    leaf, student = torch.randn(3, 96, device=device).requires_grad_(), x.detach().sigmoid()
    found, right = (torch.autograd.grad(f(student, leaf), leaf)[0] for f in (kl_div, divergence))
    torch.testing.assert_close(found, right, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("watches", [False, True])
def test_a_divergence_of_nan_or_of_no_finite_logit_is_nan(device: str, watches: bool) -> None:
    x, teacher = torch.randn(2, 4, 6, device=device)
    x[1, 2] = teacher[2, 3] = math.nan
    x[3] = teacher[3] = -math.inf
    function = watched(kl_div) if watches else kl_div
    for reverse in (False, True):
        loss = function(x.requires_grad_(), teacher, reverse=reverse, reduction="none")
        (dx,) = torch.autograd.grad(loss.sum(), x)
        assert loss.isnan().tolist() == [False, True, True, True]
        assert dx.isnan().all(1).tolist() == dx.isnan().any(1).tolist() == loss.isnan().tolist()


def test_a_divergence_of_extreme_logits_keeps_its_digits(device: str) -> None:
    x, teacher = torch.randn(2, 4, 9001, device=device)
    x[0], teacher[1], x[2] = x[0] * 1e20, teacher[1] - 1e10, x[2] * 1e12
    teacher[2] = teacher[2] * 1e15
    teacher[3, ::2] = torch.finfo(teacher.dtype).min
    found, wanted = (f(x, teacher, reduction="none") for f in (kl_div, divergence))
    assert (found - wanted).abs().le(1e-6 * KL_DIV.magnitude(x, teacher)).all()
    x[:, ::3] = teacher[:, ::3] = -math.inf
    kept = [
        each.unflatten(1, (-1, 3))[:, :, 1:].flatten(1) for each in (x[:, :9000], teacher[:, :9000])
    ]
    wanted = divergence(*kept, reduction="none")
    found = kl_div(x[:, :9000], teacher[:, :9000], reduction="none")
    assert (found - wanted).abs().le(1e-6 * KL_DIV.magnitude(*kept)).all()


def test_capped_and_large_logits_keep_their_digits(device: str) -> None:
    for dtype, rtol in ((torch.float32, 1e-6), (torch.float64, 1e-12)):
        x = torch.logspace(-6, 2.5, 200, dtype=dtype, device=device)[:, None]
        target = torch.zeros(200, dtype=torch.int64, device=device)  # one class: z² is the loss
        options: Options = {"softcap": 30.0, "z_loss": 1.0, "reduction": "none"}
        z = 30 * torch.tanh(x[:, 0].double() / 30)
        found = cross_entropy(x, target, **options).double()
        torch.testing.assert_close(found, z.square(), rtol=rtol, atol=0)
    for cols in (300, 16_401):
        x = torch.randn(3, cols, device=device) + 1e4  # a float32 near it has a spacing of 1e-3
        target, leaf = torch.tensor([1, 2, cols - 1], device=device), x.double().requires_grad_()
        (wanted,) = torch.autograd.grad(F.cross_entropy(leaf, target, reduction="sum"), leaf)
        over = x.clone().requires_grad_()
        loss = cross_entropy(over * 1, target, reduction="sum", inplace=True)
        (dx,) = torch.autograd.grad(loss, over)
        torch.testing.assert_close(dx.double(), wanted, rtol=2e-3, atol=1e-12)
        y = log_softmax(x).double()
        torch.testing.assert_close(y, torch.log_softmax(x.double(), 1), rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_small_temperatures_do_not_overflow_and_answers_are_rounded_once(
    device: str, dtype: torch.dtype
) -> None:
    x = torch.tensor([[6e4, 5e4, -6e4], [1.0, 2.0, 3.0]], dtype=dtype, device=device)
    for temperature in (1e-3, 1.0):
        wanted = torch.softmax(x.double() / temperature, -1).to(dtype)
        torch.testing.assert_close(softmax(x, temperature=temperature), wanted)
        with torch.autocast(device, dtype=torch.bfloat16):
            y, _ = func.jvp(lambda x: softmax(x, temperature=temperature), (x,), (x,))  # noqa: B023
        assert y.dtype == dtype
        torch.testing.assert_close(y, wanted)
    empty = torch.empty(2, 0, device=device)
    assert func.jvp(lambda x: softmax(x, temperature=2), (empty,), (empty,))[0].shape == (2, 0)


def test_several_dimensions_and_integers_as_pytorchs(device: str) -> None:
    x = torch.randn(2, 3, 5, device=device)
    for dim in (-1, 1, (0, 2)):
        wanted = torch.logsumexp(x, dim, keepdim=True)
        torch.testing.assert_close(logsumexp(x, dim, keepdim=True), wanted)  # type: ignore[arg-type]
    integers = torch.arange(6, device=device).view(2, 3)
    torch.testing.assert_close(logsumexp(integers), torch.logsumexp(integers, -1))
    for ours, pytorchs in (OF_A_DIMENSION["softmax"], OF_A_DIMENSION["log_softmax"]):
        found = ours(integers, dtype=torch.float64)
        torch.testing.assert_close(found, pytorchs(integers, -1, dtype=torch.float64))


ALONE = """
import torch
from kernels import calls
from tests.kernels.test_functions import CALLED, as_due
from tests.kernels.test_programs import compiled
from kernels.functions import softmax

assert not calls.INTERPRETED
for called in CALLED:
    x, teacher = torch.randn(2, 3, 4, dtype=torch.float64)
    as_due(x, called, teacher if called == "kl_div" else torch.tensor([1, 0, 3]))
x = torch.randn(3, 4)
torch.testing.assert_close(compiled(softmax)(x), torch.softmax(x, -1))
nested = torch.nested.nested_tensor([torch.randn(2, 3), torch.randn(4, 3)])
for ours, row in zip(softmax(nested).unbind(), nested.unbind(), strict=True):
    torch.testing.assert_close(ours, torch.softmax(row, -1))
print("done")
"""


def test_on_a_cpu_without_interpreter_pytorch_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    command = [sys.executable, "-c", ALONE]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == "done", done.stderr[-2000:]


# --- arguments ---


def watched(f: Function) -> Callable[..., Any]:
    """``f`` under a dispatch mode, which sees every operation and changes none."""

    def under(*given: Any, **options: Any) -> Any:
        with FlopCounterMode(display=False):
            return f(*given, **options)

    return under


NUMBERS = dict.fromkeys(("softmax", "logprob_entropy", "kl_div"), ("temperature",))
NUMBERS["cross_entropy"] = ("temperature", "softcap", "z_loss")


@pytest.mark.parametrize("watches", [False, True])  # and by PyTorch's operations
@pytest.mark.parametrize("called", NUMBERS)
def test_an_option_that_is_no_number_in_range_is_refused(
    device: str, called: str, watches: bool
) -> None:
    def call(**option: Any) -> None:
        function, _ = pair(called, (X if called == "kl_div" else T).to(device), **option)
        (watched(function) if watches else function)(X.to(device))

    for option in NUMBERS[called]:
        for good in (1, 1.0):  # == True, to a cache as well
            call(**{option: good})
        low = (0, -1.0, 1e-31) if option == "temperature" else ()
        for error, values in (
            (ValueError, (*low, math.nan, math.inf, -math.inf, 10**400)),
            (TypeError, ("1", None, True, False, torch.tensor(1.0))),
        ):
            for value in values:
                with pytest.raises(error, match=f"^{option} must be "):
                    call(**{option: value})


DIMENSIONS = ({"dim": 2}, {"dim": -3}, {"dim": "a"}, {"dim": 1.5})
WEIGHTS = ({"weight": w} for w in (torch.ones(4), [1.0] * 5, torch.ones(5, requires_grad=True)))
ERRORS = (IndexError, NotImplementedError, RuntimeError, TypeError, ValueError)
# The last is the error where PyTorch's function does not take the arguments, or not alike
REFUSED: list[tuple[str, tuple[Any, ...], dict[str, Any], type[Exception] | None]] = [
    *((called, (X,), options, None) for called in OF_A_DIMENSION for options in DIMENSIONS),
    *((called, ([1.0, 2.0], -1), {}, None) for called in OF_A_DIMENSION),
    ("softmax", (torch.ones(2, 3, dtype=torch.int64), -1), {}, None),
    ("softmax", (X, -1), {"dtype": torch.int32}, None),
    ("softmax", (torch.tensor(1.0), 1), {}, None),
    *(("softmax", (X, dim), {}, None) for dim in (True, 1.0, None, torch.tensor(1.0))),
    *(("softmax", (X, -1), {"dtype": dtype}, None) for dtype in ("float32", True)),
    ("softmax", (X,), {"batch_invariant": 1}, TypeError),
    ("log_softmax", (torch.ones(2, 3, dtype=torch.complex64), -1), {}, None),
    *(("cross_entropy", (X, T), {"label_smoothing": value}, None) for value in (2, "a")),
    *(("cross_entropy", (X, T), {"reduction": value}, None) for value in ("x", None)),
    *(("cross_entropy", (X, T), {"ignore_index": value}, None) for value in (1.5, True)),
    *(("cross_entropy", (X, T), options, None) for options in WEIGHTS),
    *(("cross_entropy", (X, target), {}, None) for target in (T.int(), T[:2], [1, 2, 3], None)),
    *(("cross_entropy", (x, T), {}, None) for x in ([1.0], X.int())),
    ("cross_entropy", (torch.tensor(1.0), torch.tensor(0)), {}, None),
    *(("cross_entropy", (X, T), {"dtype": dtype}, TypeError) for dtype in (torch.int32, "f4")),
    ("cross_entropy", (X, T), {"dim": 3}, IndexError),
    ("cross_entropy", (X, T), {"dim": "last"}, TypeError),
    *(("logprob_entropy", given, {}, TypeError) for given in (([1.0], T), (X, [1, 2]), (X, None))),
    ("logprob_entropy", (X, T[:2]), {}, ValueError),
    ("logprob_entropy", (torch.tensor(1.0), torch.tensor(0)), {}, ValueError),
    *(("logprob_entropy", given, {}, RuntimeError) for given in ((X, T.int()), (X.int(), T))),
    *(("logprob_entropy", (X, T), {"ignore_index": i}, TypeError) for i in (True, 1.0)),
    ("kl_div", (3, X), {}, TypeError),
    ("kl_div", (X, X[:2]), {}, ValueError),
    ("kl_div", (X, X.half()), {}, RuntimeError),
    ("kl_div", (X, X), {"reduction": "batchmean"}, ValueError),
    ("kl_div", (X, X), {"reverse": 1}, TypeError),
]


@pytest.mark.parametrize(("called", "arguments", "options", "error"), REFUSED)
def test_wrong_arguments_are_refused_as_by_pytorch_where_it_takes_them(
    device: str, called: str, arguments: tuple[Any, ...], options: dict[str, Any],
    error: type[Exception] | None,
) -> None:  # fmt: skip
    def there(value: Any) -> Any:
        return value.to(device) if isinstance(value, torch.Tensor) else value

    for ignored in (1, -100):  # what a cache may keep
        if called in OF_A_DIMENSION:
            OURS[called](X.to(device), 1)
        elif called == "cross_entropy":
            cross_entropy(X.to(device), T.to(device), ignore_index=ignored, label_smoothing=1)
    arguments = tuple(map(there, arguments))
    options = {key: there(value) for key, value in options.items()}
    with pytest.raises(ERRORS) as caught:
        OURS[called](*arguments, **options)
    if error is not None:
        assert issubclass(caught.type, error)
        assert called == "cross_entropy" or "\n" not in str(caught.value)
        return
    pytorchs = F.cross_entropy if called == "cross_entropy" else OF_A_DIMENSION[called][1]
    with pytest.raises(ERRORS) as theirs:
        pytorchs(*arguments, **options)
    assert caught.type in (theirs.type, TypeError)  # PyTorch 2.11 has others for a dimension


def test_a_call_like_an_earlier_one_is_not_taken_for_it(device: str) -> None:
    x = torch.randn(6, 6, device=device)
    target = torch.arange(6, device=device)
    for _ in range(2):  # what is remembered of the first time must not answer for another
        for logits in (x, x.t(), x.half(), x[:, :5], x[:1].expand(6, 6)):
            as_due(logits, "cross_entropy", target % logits.shape[1])
        as_due(x, "cross_entropy", target, weight=torch.rand(6, device=device) + 0.1)
        for reduction in REDUCTIONS:
            as_due(x, "cross_entropy", target, reduction=reduction, ignore_index=1)
        with torch.autocast(device, dtype=torch.float16):
            assert cross_entropy(x.half(), target).dtype == torch.float32
        assert cross_entropy(x.half(), target).dtype == torch.float16
        with pytest.raises(RuntimeError):
            cross_entropy(x, target, torch.rand(6, device=device, requires_grad=True))
        with pytest.raises((IndexError, RuntimeError, ValueError)):
            cross_entropy(x, target[:3])
