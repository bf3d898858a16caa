"""`softmax(x)` beside `torch.softmax`; on a GPU the launches are repeated ones, see also `gpu`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import func
from torch._dynamo.compiled_autograd import _enable
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.flop_counter import FlopCounterMode

from kernels import functions
from kernels.functions import backward_operator, softmax, softmax_operator
from tests.kernels.variants import DTYPES, name

Function = Callable[[torch.Tensor], torch.Tensor]
# Half a spacing for the rounding, one for the interpreter, which cuts bfloat16 instead
CLOSE = {dtype: {"rtol": 2 * torch.finfo(dtype).eps, "atol": 1e-7} for dtype in DTYPES}
CLOSE[torch.float32] = {"rtol": 5e-6, "atol": 1e-30}
CLOSE[torch.float64] = {"rtol": 1e-13, "atol": 1e-300}


def due(x: torch.Tensor, dim: int, temperature: float = 1.0) -> torch.Tensor:
    """The answer in float64."""
    return torch.softmax(x.double() / temperature, dim)


@st.composite
def tensors(draw: st.DrawFn) -> torch.Tensor:
    shape = draw(st.lists(st.integers(0, 7), min_size=0, max_size=4))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))
    scale = draw(st.sampled_from((1.0, 20.0)))
    x = (torch.randn(shape, generator=generator) * scale).to(draw(st.sampled_from(DTYPES)))
    if shape and draw(st.booleans()):
        x = x.repeat_interleave(2, dim=draw(st.integers(0, len(shape) - 1)))
    x = x.permute(draw(st.permutations(range(len(shape)))))
    for dim in range(len(shape)):
        x = x.narrow(dim, start := min(draw(st.integers(0, 1)), x.shape[dim]), x.shape[dim] - start)
    return x


@settings(max_examples=40, deadline=None)
@given(x=tensors(), data=st.data(), temperature=st.sampled_from((1.0, 0.3, 7)))
def test_any_tensor_along_any_dimension_gets_the_answer_of_float64(
    device: str, x: torch.Tensor, data: st.DataObject, temperature: float
) -> None:
    most = max(x.dim(), 1)
    dim = data.draw(st.integers(-most, most - 1))
    dtype = data.draw(st.sampled_from((None, torch.float32, torch.float64)))
    given_ = x.to(device)
    y = softmax(given_, dim, temperature=temperature, dtype=dtype)
    assert (y.shape, y.dtype) == (x.shape, dtype or x.dtype)
    assert y.is_contiguous()
    wanted = due(given_ if dtype is None else given_.to(dtype), dim, temperature)
    torch.testing.assert_close(y.double(), wanted, **CLOSE[y.dtype])


@pytest.mark.parametrize("dim", [0, 1])
def test_infinities_and_nan_come_out_as_from_pytorch(device: str, dim: int) -> None:
    x = torch.randn(6, 6, device=device)
    x[0, 0], x[1, 1], x[2, 2], x[3] = math.inf, -math.inf, math.nan, -math.inf
    for temperature in (1.0, 0.5):
        y = softmax(x, dim, temperature=temperature)
        torch.testing.assert_close(y, torch.softmax(x / temperature, dim), equal_nan=True)


@pytest.mark.parametrize("dim", [0, 1])
def test_lines_wider_than_a_tile_are_taken_in_two_passes(device: str, dim: int) -> None:
    x = torch.randn(2, 40000, device=device)
    x[1, :39000] = -math.inf  # a whole tile of it first
    x = x if dim == 1 else x.t().contiguous()
    wanted = due(x, dim, 0.5)
    torch.testing.assert_close(softmax(x, dim, temperature=0.5).double(), wanted, **CLOSE[x.dtype])


@pytest.mark.parametrize(
    ("temperature", "error"),
    [(bad, ValueError) for bad in (0, -1.0, math.nan, math.inf, 1e-31, 10**400)]
    + [(bad, TypeError) for bad in ("1", None, True, torch.tensor(1.0))],
)
def test_a_temperature_that_is_no_number_in_range_is_refused(
    device: str, temperature: Any, error: type[Exception]
) -> None:
    x = torch.ones(2, device=device)
    softmax(x, temperature=1), softmax(x, temperature=1.0)  # 1 == 1.0 == True, to a cache as well
    with pytest.raises(error, match=r"^temperature must be a number from 1e-30 to 1e\+30, not"):
        softmax(x, temperature=temperature)


@pytest.mark.parametrize(
    ("x", "options"),
    [
        (torch.ones(2, 3, dtype=torch.int64), {}),
        (torch.ones(2, 3), {"dtype": torch.int32}),
        (torch.ones(2, 3), {"dim": 2}),
        (torch.ones(2, 3), {"dim": -3}),
        (torch.tensor(1.0), {"dim": 1}),
        *((torch.ones(2, 3), {"dim": dim}) for dim in (True, 1.0, "1", None, torch.tensor(1.0))),
        *((torch.ones(2, 3), {"dtype": dtype}) for dtype in ("float32", True)),
        ([1.0, 2.0], {}),
    ],
    ids=str,
)
def test_what_pytorch_refuses_is_refused_alike(
    device: str, x: Any, options: dict[str, object]
) -> None:
    x = x.to(device) if isinstance(x, torch.Tensor) else x
    softmax(torch.ones(2, 3, device=device), 1, dtype=torch.float32)  # what a cache may keep
    refused: list[type[BaseException]] = []
    for function in (torch.softmax, softmax):
        with pytest.raises((IndexError, NotImplementedError, TypeError)) as caught:
            function(x, **({"dim": -1} | options))  # type: ignore[operator]
        refused.append(caught.type)
    assert refused[0] == refused[1]


def test_no_elements_whatever_their_strides_are_an_answer_and_a_gradient(device: str) -> None:
    x = torch.empty(2, 3, 4, 0, device=device).permute(2, 0, 3, 1)[:, :1].requires_grad_()
    for dim in range(4):
        y = softmax(x, dim, temperature=0.5)
        (dx,) = torch.autograd.grad(y.sum(), x)
        assert y.shape == dx.shape == x.shape


def test_integers_are_cast_where_a_dtype_is_given(device: str) -> None:
    x = torch.arange(6, device=device).view(2, 3)
    wanted = torch.softmax(x, -1, dtype=torch.float32)
    torch.testing.assert_close(softmax(x, dtype=torch.float32), wanted)


def test_without_gpu_or_interpreter_pytorch_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernels.calls.INTERPRETED", False)
    monkeypatch.setattr(functions, "_RECENT", {})
    monkeypatch.setattr(functions, "_kept_plan", functions.Plan)
    x = torch.randn(3, 4, requires_grad=True)
    made_by = softmax(x).grad_fn
    assert made_by is not None
    assert "Softmax" in made_by.name()

    def scaled(x: torch.Tensor) -> torch.Tensor:
        return softmax(x, 0, temperature=2.0)

    for function in (scaled, compiled(scaled)):
        torch.testing.assert_close(function(x), torch.softmax(x / 2, 0))
    nested = torch.nested.nested_tensor([torch.randn(2, 3), torch.randn(4, 3)])
    for ours, row in zip(softmax(nested).unbind(), nested.unbind(), strict=True):
        torch.testing.assert_close(ours, torch.softmax(row, -1))


def test_gradients_of_first_and_second_order(device: str) -> None:
    x = torch.randn(2, 3, 2, dtype=torch.float64, device=device, requires_grad=True)

    def f(x: torch.Tensor) -> torch.Tensor:
        return softmax(x, 1, temperature=0.7)

    assert torch.autograd.gradcheck(f, (x,), check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(f, (x,))
    scalar = torch.tensor(2.0, dtype=torch.float64, device=device, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: softmax(x, 0), (scalar,))


@pytest.mark.parametrize("dtype", DTYPES, ids=name)
def test_gradient_is_pytorchs_and_of_the_inputs_dtype(device: str, dtype: torch.dtype) -> None:
    x = torch.randn(3, 5, 7, device=device).to(dtype).requires_grad_()
    ours, wanted = (
        torch.autograd.grad(f(x.transpose(1, 2), 1, dtype=torch.float32).square().sum(), x)[0]  # type: ignore[operator]
        for f in (softmax, torch.softmax)
    )
    assert ours.dtype == dtype
    torch.testing.assert_close(ours, wanted)


def test_operators_keep_the_rules_of_pytorchs_operators(device: str) -> None:
    for x in (torch.randn(3, 4, 5, device=device), torch.randn(4, 3, device=device).t()):
        arguments = (x.requires_grad_(), 1, 0.5, torch.float32)
        torch.library.opcheck(softmax_operator, arguments)
        y, dy = torch.softmax(x.detach(), 1), torch.randn_like(x)
        torch.library.opcheck(backward_operator, (y, dy, 1, 0.5, torch.float32))


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


def of_kept_rows(f: Callable[..., Any], kept: list[bool], *tensors: torch.Tensor) -> Any:
    """``f`` of the rows that a mask keeps, in one graph: how many they are, the data decide."""
    mask = torch.tensor(kept, device=tensors[0].device)
    torch.compiler.reset()
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        return torch.compile(
            lambda *each: f(*(x[mask] for x in each)), backend="aot_eager", fullgraph=True
        )(*tensors)


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
        (dx,) = torch.autograd.grad(y, leaf, forward_ad.make_dual(x, t))
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


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("program", PROGRAMS)
def test_whatever_differentiates_or_traces_it_gets_the_answer_of_pytorchs(
    device: str, program: str
) -> None:
    x, t = torch.randn(2, 3, 4, dtype=torch.float64, device=device)
    ours = PROGRAMS[program](lambda x: softmax(x, 0, temperature=0.7, dtype=x.dtype), x, t)
    wanted = PROGRAMS[program](lambda x: torch.softmax(x / 0.7, 0, x.dtype), x, t)
    assert wanted is not None
    torch.testing.assert_close(ours, wanted)


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


def test_fake_tensors_and_parameters(device: str) -> None:
    with FakeTensorMode():
        y = softmax(torch.empty(3, 4, device=device), dtype=torch.float64)
        assert (y.shape, y.dtype) == ((3, 4), torch.float64)
    parameter = torch.nn.Parameter(torch.randn(3, 4, device=device))
    assert softmax(parameter).grad_fn is not None
    with torch.no_grad():
        assert softmax(parameter).grad_fn is None
