"""The public functions beside PyTorch's, and beside whatever differentiates or traces them.

What only `cross_entropy` promises is in cross_entropy/test_functions.py. On a GPU launches are
repeated ones, see test_functions_gpu.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import func
from torch._dynamo.compiled_autograd import _enable
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.flop_counter import FlopCounterMode

from kernels import functions
from kernels.cross_entropy import functions as losses
from kernels.cross_entropy.functions import cross_entropy
from kernels.functions import softmax
from kernels.log_softmax import functions as logs
from kernels.log_softmax.functions import log_softmax, logprob_entropy, logsumexp
from tests.kernels.variants import DTYPES, name

Answer = torch.Tensor | tuple[torch.Tensor, ...]
Function = Callable[[torch.Tensor], torch.Tensor]
Options = dict[str, Any]
# Half a spacing for the rounding, one for the interpreter, which cuts bfloat16 instead
CLOSE = {dtype: {"rtol": 2 * torch.finfo(dtype).eps, "atol": 1e-5} for dtype in DTYPES}
CLOSE[torch.float32] = {"rtol": 1e-5, "atol": 1e-6}
CLOSE[torch.float64] = {"rtol": 1e-12, "atol": 1e-12}
REDUCTIONS = ("none", "mean", "sum")
# Of a matrix of three rows and four columns
NAMES = ("softmax", "log_softmax", "logsumexp", "cross_entropy", "loss of rows", "logprob_entropy")
SHAPE = (3, 4)


# --- PyTorch's formulas, in float64 or as transforms have them ---


def chosen(x: torch.Tensor, target: torch.Tensor, *, temperature: float) -> Answer:
    """Log-probability and entropy."""
    logp = torch.log_softmax(x.double() / temperature, -1)
    entropy = -torch.where(logp.exp() > 0, logp.exp() * logp, 0.0).sum(-1)
    return logp.gather(-1, target[..., None])[..., 0], entropy


def due(input: torch.Tensor, target: torch.Tensor, **options: Any) -> torch.Tensor:
    """The loss."""
    z_loss, softcap, temperature = (
        options.pop(key, 0.0) for key in ("z_loss", "softcap", "temperature")
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


def both(called: str, device: str) -> tuple[Function, Function]:
    """A function of `NAMES` with its other arguments, and PyTorch's formula of the same."""
    target = torch.tensor([1, -100, 3], device=device)
    options: Options = {
        "weight": torch.tensor([0.3, 0.9, 0.5, 0.2], dtype=torch.float64, device=device),
        "label_smoothing": 0.1,
        "reduction": "none" if called == "loss of rows" else "mean",
        "softcap": 3.0,
        "temperature": 0.7,
    }
    if called == "softmax":
        return (
            lambda x: softmax(x, 0, temperature=0.7, dtype=x.dtype),
            lambda x: torch.softmax(x / 0.7, 0, x.dtype),
        )
    if called in OF_A_DIMENSION:
        ours, pytorchs = OF_A_DIMENSION[called]
        return lambda x: ours(x, -1), lambda x: pytorchs(x, -1)
    if called == "logprob_entropy":
        classes = target.clamp(min=0)
        return (
            lambda x: torch.stack(logprob_entropy(x, classes, temperature=0.7)),
            lambda x: torch.stack(chosen(x, classes, temperature=0.7)),  # type: ignore[arg-type]
        )
    return lambda x: cross_entropy(x, target, **options), lambda x: due(x, target, **options)


OF_A_DIMENSION: dict[str, tuple[Callable[..., torch.Tensor], Callable[..., torch.Tensor]]] = {
    "softmax": (softmax, torch.softmax),
    "log_softmax": (log_softmax, torch.log_softmax),
    "logsumexp": (logsumexp, torch.logsumexp),
}
every = pytest.mark.parametrize("called", NAMES)
of_a_dimension = pytest.mark.parametrize("called", OF_A_DIMENSION)


# --- answers and gradients ---


def as_due(
    ours: Callable[[torch.Tensor], Answer],
    wanted_by: Callable[[torch.Tensor], Answer],
    x: torch.Tensor,
    dtype: torch.dtype | None = None,
) -> tuple[torch.Tensor, ...]:
    """Asserts the answers, in ``dtype`` or else as ``x``, and the gradient; against float64."""
    dtype = dtype or x.dtype
    leaf, wanted_of = x.detach().requires_grad_(), x.detach().double().requires_grad_()
    made, wanted = (
        (y,) if isinstance(y, torch.Tensor) else y for y in (ours(leaf), wanted_by(wanted_of))
    )
    for y, its in zip(made, wanted, strict=True):
        assert (y.shape, y.dtype) == (its.shape, dtype)
        assert y.is_contiguous()
        torch.testing.assert_close(y.double(), its, **CLOSE[dtype], equal_nan=True)
    with torch.no_grad():
        again = ours(x)
        again = (again,) if isinstance(again, torch.Tensor) else again
        torch.testing.assert_close(again, made, rtol=0, atol=0, equal_nan=True)
    close = CLOSE[x.dtype]  # a gradient adds terms that cancel
    close = {"rtol": 1e-4, "atol": 1e-5} if x.dtype is torch.float32 else close
    close = {"rtol": 1e-10, "atol": 1e-11} if x.dtype is torch.float64 else close
    for there in [range(len(made))] if len(made) == 1 else ([0], [1], [0, 1]):
        # without 0, and rounded in no dtype
        dys = [torch.arange(made[i].numel(), device=x.device) % 4 / 4 + 0.5 for i in there]
        dys = [dy.view(made[i].shape).to(dtype) for i, dy in zip(there, dys, strict=True)]
        (dx,) = torch.autograd.grad([made[i] for i in there], leaf, dys, retain_graph=True)
        (wanted_dx,) = torch.autograd.grad(
            [wanted[i] for i in there], wanted_of, [dy.double() for dy in dys], retain_graph=True
        )
        assert (dx.shape, dx.dtype) == (x.shape, x.dtype)
        torch.testing.assert_close(dx.double(), wanted_dx, **close, equal_nan=True)
    return made


def loss_as_due(x: torch.Tensor, target: torch.Tensor, **options: Any) -> torch.Tensor:
    """Asserts a loss and its gradient; returns the loss."""
    (loss,) = as_due(
        lambda x: cross_entropy(x, target, **options), lambda x: due(x, target, **options), x
    )
    return loss


def entropy_as_due(x: torch.Tensor, target: torch.Tensor, **options: Any) -> None:
    """Asserts log-probability, entropy and their gradients."""
    temperature = options.get("temperature", 1.0)
    as_due(
        lambda x: logprob_entropy(x, target, temperature=temperature),
        lambda x: chosen(x, target, temperature=temperature),
        x,
        torch.promote_types(x.dtype, torch.float32),
    )


@st.composite
def tensors(draw: st.DrawFn, least: int = 0) -> torch.Tensor:
    """Of any shape of at least so many dimensions, and with any strides."""
    shape = draw(st.lists(st.integers(0, 7), min_size=least, max_size=4))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))
    scale = draw(st.sampled_from((1.0, 20.0)))
    x = (torch.randn(shape, generator=generator) * scale).to(draw(st.sampled_from(DTYPES)))
    if shape and draw(st.booleans()):
        x = x.repeat_interleave(2, dim=draw(st.integers(0, len(shape) - 1)))
    x = x.permute(draw(st.permutations(range(len(shape)))))
    for dim in range(len(shape)):
        x = x.narrow(dim, start := min(draw(st.integers(0, 1)), x.shape[dim]), x.shape[dim] - start)
    return x


@of_a_dimension
@settings(max_examples=25, deadline=None)
@given(x=tensors(), data=st.data())
def test_any_tensor_along_any_dimension_gets_the_answer_and_gradient_of_float64(
    device: str, called: str, x: torch.Tensor, data: st.DataObject
) -> None:
    most, x = max(x.dim(), 1), x.to(device)
    dim = data.draw(st.integers(-most, most - 1))
    ours, pytorchs = OF_A_DIMENSION[called]
    if called != "logsumexp" or 0 not in x.shape:  # PyTorch's own refuses no column
        y = ours(x, dim)
        torch.testing.assert_close(y.double(), pytorchs(x.double(), dim), **CLOSE[x.dtype])
        if x.dtype.itemsize > 2:  # a 16-bit gradient is of the rounded answer
            as_due(lambda x: ours(x, dim), lambda x: pytorchs(x, dim), x)
    if called == "softmax":
        temperature = data.draw(st.sampled_from((0.3, 7)))
        dtype = data.draw(st.sampled_from((None, torch.float32, torch.float64)))
        y = softmax(x, dim, temperature=temperature, dtype=dtype)
        wanted = torch.softmax(x.to(dtype or x.dtype).double() / temperature, dim)
        torch.testing.assert_close(y.double(), wanted, **CLOSE[dtype or x.dtype])


@settings(max_examples=40, deadline=None)
@given(x=tensors(least=1), data=st.data())
def test_any_call_with_targets_gets_the_answer_and_gradient_of_float64(
    device: str, x: torch.Tensor, data: st.DataObject
) -> None:
    draw, x = data.draw, x.to(device)
    temperature = draw(st.sampled_from((1, 0.7)))
    if (classes := x.shape[-1]) > 0:
        target = torch.randint(classes, x.shape[:-1], device=device)
        entropy_as_due(x, target, temperature=temperature)
    if (classes := x.shape[min(1, x.dim() - 1)]) == 0:
        return
    shape = x.shape[:1] + x.shape[2:] if x.dim() > 1 else ()
    target = torch.randint(classes, shape, device=device)
    ignored = draw(st.sampled_from((-100, 0, -1)))
    target[torch.rand(shape, device=device) < draw(st.sampled_from((0.0, 0.4)))] = ignored
    options: Options = {
        "reduction": draw(st.sampled_from(REDUCTIONS)),
        "label_smoothing": draw(st.sampled_from((0.0, 0.1, 1, 1.0))),
        "ignore_index": ignored,
        "z_loss": draw(st.sampled_from((0, 1e-2))),
        "softcap": draw(st.sampled_from((0, 5.0))),
        "temperature": temperature,
    }
    if draw(st.booleans()):
        options["weight"] = torch.rand(classes, device=device) + 0.1
    if draw(st.sampled_from((False, False, True))):
        target = torch.rand(x.shape, device=device).to(x.dtype)
        del options["ignore_index"]
    loss_as_due(x, target, **options)


@every
@pytest.mark.parametrize("dtype", DTYPES, ids=name)
def test_rows_wider_than_a_tile_and_in_every_layout(
    device: str, called: str, dtype: torch.dtype
) -> None:
    x = torch.randn(3, 4, 2060, device=device).to(dtype)
    for each in (
        *(x[0], x[:, :2, 5:2050], x[:, :, 0], x.transpose(0, 1)[..., :2049], x[:1, 1:2, :40].mT),
        *(x.permute(2, 0, 1)[:9], x[0, :1, :7].expand(5, 7), x[0, 0, :7]),
    ):
        target = torch.randint(each.shape[-1], (*each.shape[:-1], 2), device=device)[..., 0]
        if called in OF_A_DIMENSION:
            ours, pytorchs = OF_A_DIMENSION[called]
            y, wanted = ours(each, -1), pytorchs(each.double(), -1)
            torch.testing.assert_close(y.double(), wanted, **CLOSE[dtype])
            if dtype.itemsize > 2:
                as_due(lambda x: ours(x, -1), lambda x: pytorchs(x, -1), each)  # noqa: B023
        elif called == "logprob_entropy":
            entropy_as_due(each, target)
        else:
            logits = each.movedim(-1, min(1, each.dim() - 1))
            weight = torch.rand(2 * each.shape[-1], device=device)[::2]
            for options in ({}, {"weight": weight}):
                loss_as_due(
                    logits, target, **options, reduction="none" if "rows" in called else "mean"
                )


@pytest.mark.parametrize("dim", [0, 1])
def test_softmax_of_lines_wider_than_a_tile(device: str, dim: int) -> None:
    x = torch.randn(2, 40000, device=device)
    x[1, :39000] = -math.inf  # a whole tile of it first
    x = x if dim == 1 else x.t().contiguous()
    as_due(lambda x: softmax(x, dim, temperature=0.5), lambda x: torch.softmax(x / 0.5, dim), x)


@pytest.mark.parametrize("temperature", [1.0, 0.5])
@pytest.mark.parametrize("dim", [0, 1])
def test_batch_invariant_rows_have_their_bits_in_any_matrix(
    device: str, dim: int, temperature: float
) -> None:
    def ours(x: torch.Tensor) -> torch.Tensor:
        return softmax(x, dim, temperature=temperature, batch_invariant=True)

    few = device == "cpu"
    for cols in (7, 300) if few else (7, 64, 1000, 32_768, 1 << 19):
        x = torch.randn(140 if few else 200, cols, device=device)
        x = x if dim == 1 else x.t().contiguous()
        whole = ours(x)
        torch.testing.assert_close(whole, torch.softmax(x / temperature, dim), rtol=1e-4, atol=1e-8)
        for count in (1, 9, 130) if dim == 1 else (9, 130):  # a column alone lies as a row does
            some = x[:count] if dim == 1 else x[:, :count].contiguous()
            assert torch.equal(ours(some), whole.narrow(1 - dim, 0, count)), (cols, count)


@of_a_dimension
def test_infinities_and_nan_come_out_as_from_pytorch(device: str, called: str) -> None:
    ours, due = OF_A_DIMENSION[called]
    x = torch.randn(6, 6, device=device)
    x[0, 0], x[1, 1], x[2, 2], x[3] = math.inf, -math.inf, math.nan, -math.inf
    for dim in (0, 1):
        torch.testing.assert_close(ours(x, dim), due(x, dim), equal_nan=True)
    y = softmax(x, temperature=0.5)
    torch.testing.assert_close(y, torch.softmax(x / 0.5, -1), equal_nan=True)


def test_options_as_pytorchs(device: str) -> None:
    x = torch.randn(2, 3, 5, device=device)
    for dim in (-1, 1, (0, 2)):
        wanted = torch.logsumexp(x, dim, keepdim=True)
        torch.testing.assert_close(logsumexp(x, dim, keepdim=True), wanted)  # type: ignore[arg-type]
    one = torch.tensor(2.0, device=device)
    assert logsumexp(one, keepdim=True).shape == torch.logsumexp(one, -1, keepdim=True).shape
    integers = torch.arange(6, device=device).view(2, 3)
    torch.testing.assert_close(logsumexp(integers), torch.logsumexp(integers, -1))
    for function, pytorchs in ((log_softmax, torch.log_softmax), (softmax, torch.softmax)):
        for dtype in (torch.float32, torch.float64):
            for given_ in (integers, x.bfloat16()):
                wanted = pytorchs(given_, -1, dtype=dtype)  # type: ignore[operator]
                torch.testing.assert_close(function(given_, dtype=dtype), wanted)  # type: ignore[operator]


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


# --- arguments ---


X, T = torch.ones(3, 5), torch.tensor([1, 2, 3])


def numbers(called: str, device: str, **options: Any) -> Any:
    """A call with options that are numbers."""
    x, target = X.to(device), T.to(device)
    if called == "softmax":
        return softmax(x, **options)
    if called == "logprob_entropy":
        return logprob_entropy(x, target, **options)
    if called == "cross_entropy":
        return cross_entropy(x, target, **options)
    return watched(lambda x: cross_entropy(x, target, **options))(x)


@pytest.mark.parametrize(
    ("called", "option"),
    [
        *(("softmax", "temperature"), ("logprob_entropy", "temperature")),
        *(
            (called, option)
            for called in ("cross_entropy", "by PyTorch's operations")
            for option in ("temperature", "softcap", "z_loss")
        ),
    ],
)
def test_an_option_that_is_no_number_in_range_is_refused(
    device: str, called: str, option: str
) -> None:
    for good in (1, 1.0):  # == True, to a cache as well
        numbers(called, device, **{option: good})
    low = (0, -1.0, 1e-31) if option == "temperature" else ()
    for error, values in (
        (ValueError, (*low, math.nan, math.inf, -math.inf, 10**400)),
        (TypeError, ("1", None, True, torch.tensor(1.0))),
    ):
        for value in values:
            with pytest.raises(error, match=f"^{option} must be "):
                numbers(called, device, **{option: value})


PAIRS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = OF_A_DIMENSION | {
    "cross_entropy": (cross_entropy, F.cross_entropy)
}
DIMENSIONS = ({"dim": 2}, {"dim": -3}, {"dim": "a"}, {"dim": 1.5})
WEIGHTS = ({"weight": w} for w in (torch.ones(4), [1.0] * 5, torch.ones(5, requires_grad=True)))
REFUSED: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    *((called, (X,), options) for called in OF_A_DIMENSION for options in DIMENSIONS),
    *((called, ([1.0, 2.0], -1), {}) for called in OF_A_DIMENSION),
    ("softmax", (torch.ones(2, 3, dtype=torch.int64), -1), {}),
    ("softmax", (X, -1), {"dtype": torch.int32}),
    ("softmax", (torch.tensor(1.0), 1), {}),
    *(("softmax", (X, dim), {}) for dim in (True, 1.0, None, torch.tensor(1.0))),
    *(("softmax", (X, -1), {"dtype": dtype}) for dtype in ("float32", True)),
    ("log_softmax", (torch.ones(2, 3, dtype=torch.complex64), -1), {}),
    *(("cross_entropy", (X, T), {"label_smoothing": value}) for value in (2, "a")),
    *(("cross_entropy", (X, T), {"reduction": value}) for value in ("x", None)),
    *(("cross_entropy", (X, T), {"ignore_index": value}) for value in (1.5, True)),
    *(("cross_entropy", (X, T), options) for options in WEIGHTS),
    *(("cross_entropy", (X, target), {}) for target in (T.int(), T[:2], [1, 2, 3], None)),
    *(("cross_entropy", (x, T), {}) for x in ([1.0], X.int(), torch.empty(3, 0))),
    ("cross_entropy", (torch.tensor(1.0), torch.tensor(0)), {}),
]
ERRORS = (IndexError, NotImplementedError, RuntimeError, TypeError, ValueError)


@pytest.mark.parametrize(("called", "arguments", "options"), REFUSED)
def test_what_pytorch_refuses_is_refused_alike(
    device: str, called: str, arguments: tuple[Any, ...], options: dict[str, Any]
) -> None:
    def there(value: Any) -> Any:
        return value.to(device) if isinstance(value, torch.Tensor) else value

    ours, pytorchs = PAIRS[called]
    for ignored in (1, -100):  # what a cache may keep
        ours(X.to(device), 1) if called in OF_A_DIMENSION else ours(
            X.to(device), T.to(device), ignore_index=ignored, label_smoothing=1
        )
    options = {key: there(value) for key, value in options.items()}
    refused: list[type[BaseException]] = []
    for function in (pytorchs, ours):
        with pytest.raises(ERRORS) as caught:
            function(*map(there, arguments), **options)
        refused.append(caught.type)
    assert refused[0] == refused[1]


@pytest.mark.parametrize(
    ("function", "arguments", "options", "error"),
    [
        (logprob_entropy, ([1.0], T), {}, TypeError),
        (logprob_entropy, (X, [1, 2, 3]), {}, TypeError),
        (logprob_entropy, (X, None), {}, TypeError),
        (logprob_entropy, (X, T[:2]), {}, ValueError),
        (logprob_entropy, (torch.tensor(1.0), torch.tensor(0)), {}, ValueError),
        (logprob_entropy, (X, T.int()), {}, RuntimeError),
        (logprob_entropy, (X.int(), T), {}, RuntimeError),
        *((cross_entropy, (X, T), {"dtype": dtype}, TypeError) for dtype in (torch.int32, "f4")),
        (cross_entropy, (X, T), {"dim": 3}, IndexError),
        (cross_entropy, (X, T), {"dim": "last"}, TypeError),
        (softmax, (X,), {"batch_invariant": 1}, TypeError),
        (softmax, (X.cfloat(),), {"dtype": torch.float32}, NotImplementedError),
    ],
)
def test_what_only_ours_take_is_refused(
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    options: dict[str, Any],
    error: type[Exception],
) -> None:
    with pytest.raises(error) as caught:
        function(*arguments, **options)
    assert function is cross_entropy or "\n" not in str(caught.value)


# --- who differentiates, traces and watches ---


def dual(f: Function, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor | None:
    """The derivative along ``t``, by PyTorch's own forward mode."""
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(f(forward_ad.make_dual(x, t))).tangent


def squared(f: Function) -> Function:
    return lambda x: f(x).square().sum()


def negated(x: torch.Tensor) -> torch.Tensor:
    """−x by a bit that says so: what a kernel finds in memory is x."""
    y = torch.complex(x, x).conj().imag
    assert y.is_neg()
    return y


class Subclass(torch.Tensor):
    pass


class Module(torch.nn.Module):
    def __init__(self, f: Function) -> None:
        super().__init__()
        self.forward = f


def watched(f: Function) -> Function:
    """``f`` under a dispatch mode, which sees every operation and changes none."""

    def under(x: torch.Tensor) -> torch.Tensor:
        with FlopCounterMode(display=False):
            return f(x)

    return under


def traced(f: Function, x: torch.Tensor) -> Function:
    return torch.jit.trace(f, (x,), check_trace=False)  # type: ignore[no-any-return]


def exported(f: Function, x: torch.Tensor) -> Function:
    return torch.export.export(Module(f), (x,)).module()


def compiled(f: Function) -> Function:
    torch.compiler.reset()
    return torch.compile(f, backend="aot_eager")


def gradient(f: Function, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    leaf = x.clone().requires_grad_()
    return torch.autograd.grad(f(leaf), leaf)


def compiled_autograd(f: Function, x: torch.Tensor) -> torch.Tensor | None:
    """A graph whose gradient Dynamo traces as it is computed."""
    leaf = x.clone().requires_grad_()
    y = squared(f)(leaf)
    with _enable(torch.compile(backend="eager")):
        y.backward()
    return leaf.grad


def forward_over_reverse(f: Function, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor | None:
    """A graph made before the dual level, run backwards with a dual gradient."""
    leaf = x.clone().requires_grad_()
    y = f(leaf)
    with forward_ad.dual_level():
        dy = forward_ad.make_dual(torch.ones_like(y), 2 * torch.ones_like(y))
        (dx,) = torch.autograd.grad(y, leaf, dy)
        return forward_ad.unpack_dual(dx).tangent


PROGRAMS: dict[str, Callable[[Function, torch.Tensor, torch.Tensor], Any]] = {
    "jvp": lambda f, x, t: func.jvp(f, (x,), (t,)),
    "gradient of jvp": lambda f, x, t: func.grad(
        lambda x: func.jvp(f, (x,), (t,))[1].square().sum()
    )(x),
    "jacfwd": lambda f, x, t: func.jacfwd(f)(x),
    "vmap": lambda f, x, t: func.vmap(f, in_dims=2)(torch.stack((x, t), 2)),
    "functionalize": lambda f, x, t: func.functionalize(f)(x),
    "forward mode": dual,
    "forward mode, negated": lambda f, x, t: dual(lambda x: f(negated(x)), x, t),
    "forward mode, dispatch mode": lambda f, x, t: dual(watched(f), x, t),
    "forward mode, subclass": lambda f, x, t: dual(lambda x: f(x.as_subclass(Subclass)), x, t),
    "forward mode over a gradient": forward_over_reverse,
    "gradient, negated": lambda f, x, t: gradient(squared(lambda x: f(negated(x))), x),
    "gradient, dispatch mode": lambda f, x, t: gradient(squared(watched(f)), x),
    "gradient, compiled autograd": lambda f, x, t: compiled_autograd(f, x),
    "jit.trace, forward mode of it": lambda f, x, t: dual(traced(f, x), x, t),
    "make_fx, jvp of it": lambda f, x, t: func.jvp(make_fx(f)(x), (x,), (t,)),
    "make_fx of symbolic shapes, vmap": lambda f, x, t: make_fx(
        func.vmap(f, in_dims=2), tracing_mode="symbolic"
    )(torch.stack((x, t), 2))(torch.stack((x, t), 2)),
    "export, jvp of it": lambda f, x, t: func.jvp(exported(f, x), (x,), (t,)),
    "export, vmap of it": lambda f, x, t: func.vmap(exported(f, x))(torch.stack((x, t))),
    "export, second gradient": lambda f, x, t: gradient(
        lambda x: func.jacrev(exported(f, t))(x).square().sum(), x
    ),
    "compiled, gradient of it": lambda f, x, t: gradient(squared(compiled(f)), x),
    "compiled, forward mode of it": lambda f, x, t: dual(compiled(f), x, t),
    "compiled hessian": lambda f, x, t: compiled(func.hessian(squared(f)))(x),
}
# Symbolic shapes ask for targets that are traced too; a compiler takes a second and more
WITH_TARGETS = ("cross_entropy", "loss of rows", "logprob_entropy")


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize(
    ("called", "program"),
    [
        (called, program)
        for called in NAMES
        for program in PROGRAMS
        if not (called in WITH_TARGETS and "symbolic" in program)
        and not (called == "loss of rows" and "compiled" in program)
    ],
)
def test_whatever_differentiates_or_traces_it_gets_the_answer_of_pytorchs(
    device: str, called: str, program: str
) -> None:
    x, t = torch.randn(2, *SHAPE, dtype=torch.float64, device=device)
    ours, wanted = (PROGRAMS[program](each, x, t) for each in both(called, device))
    assert wanted is not None
    torch.testing.assert_close(ours, wanted)


@every
def test_gradients_of_first_and_second_order(device: str, called: str) -> None:
    x = torch.randn(SHAPE, dtype=torch.float64, device=device, requires_grad=True)
    ours, _ = both(called, device)
    assert torch.autograd.gradcheck(ours, (x,), check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(ours, (x,))


@every
@pytest.mark.parametrize("kept", [[True, False, True], [False] * 3], ids=["two", "none"])
def test_compiled_of_rows_whose_number_the_data_decide(
    device: str, called: str, kept: list[bool]
) -> None:
    x = torch.randn(SHAPE, dtype=torch.float64, device=device, requires_grad=True)
    target = torch.tensor([1, -100, 3], device=device)
    reduction = "none" if called == "loss of rows" else "mean"

    def ours(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        if called == "softmax":
            return softmax(x)
        if called == "logprob_entropy":
            return torch.stack(logprob_entropy(x, target.clamp(min=0)))
        if called in WITH_TARGETS:
            return cross_entropy(x, target, reduction=reduction)
        return OF_A_DIMENSION[called][0](x)

    mask = torch.tensor(kept, device=device)
    torch.compiler.reset()
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        in_one_graph = torch.compile(
            lambda *each: ours(*(one[mask] for one in each)), backend="aot_eager", fullgraph=True
        )
        y, wanted = in_one_graph(x, target), ours(x[mask], target[mask])
    torch.testing.assert_close(y, wanted, equal_nan=True)
    dx, wanted_dx = (torch.autograd.grad(each.sum(), x)[0] for each in (y, wanted))
    torch.testing.assert_close(dx, wanted_dx)


def test_operators_keep_the_rules_of_pytorchs_operators(device: str) -> None:
    opcheck, target = torch.library.opcheck, torch.tensor([1, -100, 3], device=device)
    for x in (torch.randn(3, 4, 5, device=device), torch.randn(4, 3, device=device).t()):
        opcheck(functions.SOFTMAX.operator, (x.requires_grad_(), 1, 0.5, False, torch.float32))
        y, dy = torch.softmax(x.detach(), 1), torch.randn_like(x)
        opcheck(functions.GRADIENT.operator, (y, dy, 1, 0.5, torch.float32))
    for x in (torch.randn(3, 4, device=device), torch.randn(3, 5, device=device)[:, :4]):
        opcheck(logs.LOG_SOFTMAX.operator, (x.clone().requires_grad_(), -1, x.dtype))
        for given_ in (None, target.clamp(min=0)):
            opcheck(logs.NUMBERS.operator, (x.clone().requires_grad_(), given_, 0.7))
            made = logs.NUMBERS.operator(x, given_, 0.7)
            entropy, lse = (None, made[0]) if given_ is None else made[1:]
            grad = torch.rand(3, device=device)
            rest = (given_, entropy, lse, grad, None if given_ is None else grad, 0.7)
            opcheck(logs.GRADIENT.operator, (x, *rest))
    x = torch.randn(3, 8, device=device)[:, :5]
    for reduction in ("none", "mean", "sum"):
        weight = torch.rand(5, device=device) if reduction == "mean" else None
        rest = (reduction, torch.float32, -100, 0.1, 2.0, 0.5, 0.0)
        opcheck(losses.LOSS.operator, (x.clone().requires_grad_(), target, weight, *rest))
        loss, lse = losses.LOSS.operator(x, target, weight, *rest)
        dloss = torch.rand_like(loss)
        opcheck(losses.GRADIENT.operator, (x, target, weight, lse, dloss, *rest))


@every
def test_fake_and_meta_tensors_parameters_and_subclasses(device: str, called: str) -> None:
    ours, pytorchs = both(called, device)
    x = torch.randn(SHAPE, device=device, dtype=torch.float64)
    wanted = pytorchs(x)
    if called in OF_A_DIMENSION:  # whose targets would be real tensors
        with FakeTensorMode():
            assert ours(torch.empty(SHAPE, device=device)).shape == wanted.shape
        assert ours(torch.empty(SHAPE, device="meta")).shape == wanted.shape
    if called == "loss of rows":
        with FakeTensorMode():
            fake = torch.empty(SHAPE, device=device), torch.empty(3, device=device).long()
            assert cross_entropy(*fake, reduction="none").shape == (3,)
        meta = torch.empty(SHAPE, device="meta"), torch.empty(3, device="meta").long()
        assert cross_entropy(*meta).shape == ()
    parameter = torch.nn.Parameter(x)
    assert ours(parameter).grad_fn is not None
    with torch.no_grad():
        assert ours(parameter).grad_fn is None
    assert isinstance(ours(x.as_subclass(Subclass)), Subclass)  # type: ignore[arg-type]


@of_a_dimension
def test_under_autocast_the_answer_keeps_the_dtype(device: str, called: str) -> None:
    ours, pytorchs = OF_A_DIMENSION[called]
    x = torch.randn(SHAPE, device=device).bfloat16()
    with torch.autocast(device, dtype=torch.float16):
        for function in (ours, watched(ours), compiled(ours)):
            y = function(x)
            assert y.dtype == torch.bfloat16
            torch.testing.assert_close(y, pytorchs(x.float(), -1).bfloat16(), rtol=2e-2, atol=1e-3)


@every
def test_without_gpu_or_interpreter_pytorch_computes(
    monkeypatch: pytest.MonkeyPatch, called: str
) -> None:
    monkeypatch.setattr("kernels.calls.INTERPRETED", False)
    for op in (functions.SOFTMAX, logs.LOG_SOFTMAX, logs.NUMBERS, losses.LOSS):
        op._plans.clear()
    monkeypatch.setattr(functions, "AUTO", None)  # whose use would be an error
    monkeypatch.setattr(logs, "auto", None)
    monkeypatch.setattr(losses, "auto", None)
    ours, pytorchs = both(called, "cpu")
    x = torch.randn(SHAPE, dtype=torch.float64, requires_grad=True)
    for function in (ours, compiled(ours)):
        torch.testing.assert_close(function(x), pytorchs(x))

    nested = torch.nested.nested_tensor([torch.randn(2, 3), torch.randn(4, 3)])
    for ours, row in zip(softmax(nested).unbind(), nested.unbind(), strict=True):
        torch.testing.assert_close(ours, torch.softmax(row, -1))
