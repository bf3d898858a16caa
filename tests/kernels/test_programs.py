"""The public functions under whatever differentiates, traces, compiles and watches them."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import func
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx

from kernels.cross_entropy.functions import cross_entropy
from kernels.functions import softmax
from kernels.kl_div.functions import kl_div
from kernels.log_softmax.functions import log_softmax, logprob_entropy, logsumexp
from tests.kernels.test_functions import (
    CLOSE,
    OF_A_DIMENSION,
    OURS,
    Answer,
    Function,
    Options,
    pair,
    watched,
)

# Options of each, for a matrix of three rows and four columns
SHAPE = (3, 4)
LOSS = {"label_smoothing": 0.1, "softcap": 3.0, "temperature": 0.7}
NAMES: dict[str, Options] = {
    "softmax": {"dim": 0, "temperature": 0.7, "dtype": torch.float64},
    "log_softmax": {"dim": -1},
    "logsumexp": {"dim": -1},
    "cross_entropy": LOSS,
    "loss of rows": LOSS | {"reduction": "none"},
    "kl_div": {"temperature": 0.7, "reduction": "none"},
    "logprob_entropy": {"temperature": 0.7, "ignore_index": -100},
}
every = pytest.mark.parametrize("called", NAMES)


def both(called: str, device: str) -> tuple[Function, Function]:
    """A function of `NAMES` with its other arguments, and PyTorch's formula of the same."""
    target, options = torch.tensor([1, -100, 3], device=device), dict(NAMES[called])
    if called == "kl_div":
        target = torch.linspace(-2, 2, 12, dtype=torch.float64, device=device).view(SHAPE)
    if options.items() >= LOSS.items():
        options["weight"] = torch.tensor([0.3, 0.9, 0.5, 0.2], dtype=torch.float64, device=device)
    ours, formula = pair(called if called in OURS else "cross_entropy", target, **options)
    if called == "logprob_entropy":
        return lambda x: torch.stack(ours(x)), lambda x: torch.stack(formula(x))
    return ours, formula


def dual(f: Function, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor | None:
    """The derivative along ``t``, by PyTorch's own forward mode."""
    f(x)  # whose launches must not be repeated
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


def exported(f: Function, x: torch.Tensor) -> Function:
    return torch.export.export(Module(f), (x,)).module()


def compiled(f: Function) -> Function:
    torch.compiler.reset()
    return torch.compile(f, backend="aot_eager")


def gradient(f: Function, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    leaf = x.clone().requires_grad_()
    return torch.autograd.grad(f(leaf), leaf)


def traced(f: Function, x: torch.Tensor) -> Any:
    """By `make_fx`, after an ordinary call, whose launches must not be repeated."""
    f(x)
    return make_fx(f)(x)


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
    "vmap": lambda f, x, t: func.vmap(f, in_dims=2)(torch.stack((x, t), 2)),
    "forward mode": dual,
    "forward mode over a gradient": forward_over_reverse,
    "gradient, negated": lambda f, x, t: gradient(squared(lambda x: f(negated(x))), x),
    "jit.trace, forward mode of it": lambda f, x, t: dual(
        torch.jit.trace(f, (x,), check_trace=False), x, t
    ),
    "make_fx, jvp of it": lambda f, x, t: func.jvp(traced(f, x), (x,), (t,)),
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
WITH_TARGETS = ("cross_entropy", "loss of rows", "kl_div", "logprob_entropy")


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize(
    ("called", "program"),
    [
        (called, program)
        for called in NAMES
        for program in PROGRAMS
        if not (called in WITH_TARGETS and "symbolic" in program)
        and not (called in ("loss of rows", "kl_div") and "compiled" in program)
        and not (called in ("log_softmax", "logsumexp") and program == "compiled hessian")
    ],
)
def test_whatever_differentiates_or_traces_it_gets_the_answer_of_pytorchs(
    device: str, called: str, program: str
) -> None:
    x, t = torch.randn(2, *SHAPE, dtype=torch.float64, device=device)
    for _ in range(2):  # ordinary gradients, whose launches a later one may repeat
        leaf = x.clone().requires_grad_()
        y = both(called, device)[0](leaf)
        torch.autograd.grad(y, leaf, torch.ones_like(y))
    ours, wanted = (PROGRAMS[program](each, x, t) for each in both(called, device))
    assert wanted is not None
    torch.testing.assert_close(ours, wanted)


@every
def test_gradients_of_first_and_second_order(device: str, called: str) -> None:
    x = torch.randn(SHAPE, dtype=torch.float64, device=device, requires_grad=True)
    ours, _ = both(called, device)
    assert torch.autograd.gradcheck(ours, (x,), check_forward_ad=True, check_batched_grad=True)
    dy = torch.rand_like(ours(x))  # needs no gradient itself
    for given in (None, dy):
        assert torch.autograd.gradgradcheck(ours, (x,), given)


def test_operators_keep_the_rules_of_pytorchs_operators(device: str) -> None:
    """Of the gradients' operators too, which a compiler traces."""
    opcheck, ops = torch.library.opcheck, torch.ops.softmax_roofline
    target = torch.tensor([1, -100, 3], device=device)
    for x in (torch.randn(3, 4, 5, device=device), torch.randn(4, 3, device=device).t()):
        opcheck(ops.softmax.default, (x.requires_grad_(), 1, 0.5, False, torch.float32))
    for x in (torch.randn(3, 4, device=device), torch.randn(3, 5, device=device)[:, :4]):
        opcheck(ops.log_softmax.default, (x.clone().requires_grad_(), -1, x.dtype))
        for given in (None, target.clamp(min=0)):
            opcheck(ops.row_numbers.default, (x.clone().requires_grad_(), given, 0.7))
    x = torch.randn(3, 8, device=device)[:, :5]
    for reduction in ("none", "mean", "sum"):
        weight = torch.rand(5, device=device) if reduction == "mean" else None
        rest = (reduction, torch.float32, -100, 0.1, 2.0, 0.5, 0.0)
        opcheck(ops.cross_entropy.default, (x.clone().requires_grad_(), target, weight, *rest))
    opcheck(ops.kl_div.default, (x.clone().requires_grad_(), torch.randn_like(x), 0.7, True))


@pytest.mark.parametrize("called", ["softmax", "cross_entropy"])
def test_compiled_whole_it_is_one_operator(device: str, called: str) -> None:
    x = torch.randn(2, 3, 9, device=device, requires_grad=True)
    target = torch.randint(9, (2, 3), device=device)
    seen: list[str] = []

    def backend(graph: Any, inputs: Any) -> Any:
        seen.extend(str(node.target) for node in graph.graph.nodes)
        return graph

    torch.compiler.reset()
    if called == "softmax":
        torch.compile(softmax, backend=backend, fullgraph=True)(x * 2, 1, temperature=0.7)
    else:
        whole = torch.compile(cross_entropy, backend=backend, fullgraph=True)
        whole(x.transpose(1, 2) * 2, target, inplace=True)
    assert [n for n in seen if "softmax" in n] == [f"softmax_roofline.{called}.default"]


@every
def test_a_parameter_has_a_gradient_and_a_subclass_stays_one(device: str, called: str) -> None:
    ours, _ = both(called, device)
    x = torch.randn(SHAPE, device=device, dtype=torch.float64)
    parameter = torch.nn.Parameter(x)
    assert ours(parameter).grad_fn is not None
    with torch.no_grad():
        assert ours(parameter).grad_fn is None
    assert isinstance(ours(x.as_subclass(Subclass)), Subclass)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("called", [*OF_A_DIMENSION, "cross_entropy"])
def test_under_autocast_a_loss_has_the_dtype_of_pytorchs_and_others_keep_theirs(
    device: str, called: str, dtype: torch.dtype
) -> None:
    target = torch.tensor([1, 2, 3], device=device)
    x = torch.randn(3, 5, device=device).to(dtype).requires_grad_()
    ours, formula = pair(called, target)
    with torch.autocast(device, dtype=torch.float16):
        wanted = F.cross_entropy(x, target).dtype if called == "cross_entropy" else dtype
        close = CLOSE[wanted] if wanted is torch.float32 else {"rtol": 2e-2, "atol": 1e-3}
        for function in (ours, watched(ours), compiled(ours)):
            y = function(x)
            assert y.dtype == wanted
            torch.testing.assert_close(y.double(), formula(x), **close)
            assert torch.autograd.grad(y.sum(), x)[0].dtype == dtype


# --- options that change from call to call of one compiled function ---

ROWS, COLS = 6, 37
# A loss without any of them first
NUMBERS = ("ignore_index", "label_smoothing", "z_loss", "softcap", "temperature")
LOSSES: list[Options] = [
    dict(zip(NUMBERS, values, strict=True))
    for values in ((-100, 0.0, 0.0, 0.0, 1.0), (3, 0.1, 1e-3, 5.0, 0.7), (5, 0.3, 0.1, 30.0, 2.5))
]
OPTIONS: dict[str, tuple[Callable[..., Answer], list[Any]]] = {
    "softmax temperature": (lambda x, t, v: softmax(x, temperature=v), [1.0, 0.7, 3]),
    "softmax dim": (lambda x, t, v: softmax(x, v), [-1, 0]),
    "softmax dtype": (lambda x, t, v: softmax(x, dtype=v), [None, torch.float64, torch.float16]),
    "log_softmax dim": (lambda x, t, v: log_softmax(x, v), [-1, 0]),
    "log_softmax dtype": (lambda x, t, v: log_softmax(x, dtype=v), [None, torch.float64]),
    "logsumexp dim": (lambda x, t, v: logsumexp(x, v), [-1, 0]),
    "logsumexp keepdim": (lambda x, t, v: logsumexp(x, 1, v), [False, True]),
    "entropy": (
        lambda x, t, v: logprob_entropy(x, t, temperature=v[0], ignore_index=v[1]),
        [(1.0, None), (0.7, 3), (2, -100)],
    ),
    "kl": (
        lambda x, t, v: kl_div(x, x.detach().sin(), temperature=v[0], reverse=v[1]),
        [(1.0, False), (0.7, True), (2, True)],
    ),
    "numbers of a loss": (lambda x, t, v: cross_entropy(x, t, **v), LOSSES),
    "reduction": (lambda x, t, v: cross_entropy(x, t, reduction=v), ["mean", "sum", "none"]),
    "weight": (lambda x, t, v: cross_entropy(x, t, x.detach()[0].exp() if v else None), [0, 1]),
    "probabilities": (lambda x, t, v: cross_entropy(x, x.detach().softmax(1) if v else t), [0, 1]),
    "dtype": (lambda x, t, v: cross_entropy(x, t, dtype=v), [None, torch.float64]),
    "dim": (
        lambda x, t, v: cross_entropy(x.mT[None] if v == 1 else x[None], t[None], dim=v),
        [1, 2],
    ),
    "inplace": (lambda x, t, v: cross_entropy(x * 1, t, inplace=v), [False, True]),
}


def summed(answer: Answer) -> torch.Tensor:
    """A number that has a gradient of each tensor: of a softmax, one that is not zero."""
    several = answer if isinstance(answer, tuple) else (answer,)
    return torch.stack([one.double().square().sum() for one in several]).sum()


# A number may be a symbol of the graph from the start; what else changes is compiled anew anyway
SYMBOLS = ("softmax temperature", "entropy", "kl", "numbers of a loss", "weight")
WAYS = [
    *((option, None, "aot_eager") for option in OPTIONS),
    *((option, True, "aot_eager") for option in SYMBOLS),
    *(
        pytest.param(option, dynamic, "inductor", marks=pytest.mark.gpu)
        for dynamic in (None, True)
        for option in OPTIONS
    ),
]


@pytest.mark.parametrize(("option", "dynamic", "backend"), WAYS)
# Past its limit a function would silently run uncompiled: then it is an error
@torch._dynamo.config.patch(recompile_limit=64, fail_on_recompile_limit_hit=True)
def test_an_option_that_changes_from_call_to_call_of_a_compiled_function(
    option: str, dynamic: bool | None, backend: str, device: str
) -> None:
    function, values = OPTIONS[option]
    torch.manual_seed(0)
    x = torch.randn(ROWS, COLS, device=device, requires_grad=True)
    target = torch.randint(COLS, (ROWS,), device=device)
    target[0] = 3
    torch.compiler.reset()
    compiled = torch.compile(function, fullgraph=True, dynamic=dynamic, backend=backend)
    for value in values[-2:] if dynamic else values:
        found, expected = (call(x, target, value) for call in (compiled, function))
        torch.testing.assert_close(found, expected)
        gradients = [torch.autograd.grad(summed(answer), x) for answer in (found, expected)]
        torch.testing.assert_close(*gradients)


# One of each function, and a loss of rows
MASKED = ("softmax temperature", "log_softmax dtype", "logsumexp keepdim", "numbers of a loss",
           "reduction", "entropy", "kl")  # fmt: skip


@pytest.mark.parametrize("option", MASKED)
@pytest.mark.parametrize("kept", [[True, False, True], [False] * 3], ids=["two", "none"])
@torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)
def test_compiled_of_rows_whose_number_the_data_decide(
    device: str, option: str, kept: list[bool]
) -> None:
    x = torch.randn(SHAPE, dtype=torch.float64, device=device, requires_grad=True)
    target, mask = torch.tensor([1, -100, 3], device=device), torch.tensor(kept, device=device)
    function, values = OPTIONS[option]

    def selected(x: torch.Tensor, t: torch.Tensor) -> Answer:
        return function(x[mask], t[mask], values[-1])

    torch.compiler.reset()
    in_one_graph = torch.compile(selected, backend="aot_eager", fullgraph=True)
    found, wanted = in_one_graph(x, target), selected(x, target)
    torch.testing.assert_close(found, wanted, equal_nan=True)
    dx, wanted_dx = (torch.autograd.grad(summed(each), x)[0] for each in (found, wanted))
    torch.testing.assert_close(dx, wanted_dx, equal_nan=True)
