from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

from kernels.kernel import NotCompiled
from kernels.softmax.compiled import MODES, Compiled
from kernels.softmax.naive_script import NaiveScript


@pytest.fixture
def without_inductor(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Dynamo's graphs, run as they are: Inductor would take seconds for each."""
    graphs: list[Any] = []

    def keep(graph: Any, inputs: Any, **_: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    monkeypatch.setattr("torch._inductor.compile_fx.compile_fx", keep)
    return graphs


def test_compiling_happens_once_and_in_prepare(without_inductor: list[Any], device: str) -> None:
    x = torch.randn(4, 9, device=device)
    call = Compiled().prepare(x)
    assert len(without_inductor) == 1
    for _ in range(3):
        torch.testing.assert_close(call(x), torch.softmax(x, dim=1))
    assert len(without_inductor) == 1


def test_mode_reaches_inductor_and_never_brings_cuda_graphs(
    monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
    asked: list[dict[str, Any]] = []

    def keep(graph: Any, inputs: Any, config_patches: dict[str, Any]) -> Any:
        asked.append(config_patches)
        return graph.forward

    monkeypatch.setattr("torch._inductor.compile_fx.compile_fx", keep)
    x = torch.randn(4, 9, device=device)
    for mode in MODES:
        torch.testing.assert_close(Compiled(mode=mode)(x), torch.softmax(x, dim=1))
    plain, tuned = asked
    assert plain == {}
    assert tuned["max_autotune"]
    assert not tuned.get("triton.cudagraphs")


def test_more_shapes_than_dynamos_limit_are_each_compiled_and_stay_usable(
    without_inductor: list[Any], device: str
) -> None:
    inputs = [torch.randn(4, cols, device=device) for cols in range(2, 13)]
    calls = [Compiled().prepare(x) for x in inputs]
    assert len(without_inductor) == len(inputs)
    for call, x in zip(calls, inputs, strict=True):
        torch.testing.assert_close(call(x), torch.softmax(x, dim=1))
    assert len(without_inductor) == len(inputs)


def test_prepared_call_refuses_another_shape(without_inductor: list[Any], device: str) -> None:
    call = Compiled().prepare(torch.randn(4, 9, device=device))
    with pytest.raises(Exception, match="compiled for another shape"):
        call(torch.randn(4, 10, device=device))


def test_falling_back_to_eager_is_an_error(device: str) -> None:
    x = torch.randn(4, 9, device=device)
    with torch.compiler.set_stance("force_eager"), pytest.raises(NotCompiled, match="eagerly"):
        Compiled().prepare(x)


def test_inductor_that_fails_is_an_error(monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    def broken(graph: Any, inputs: Any, **_: Any) -> Any:
        raise RuntimeError("no C++ compiler")

    monkeypatch.setattr("torch._inductor.compile_fx.compile_fx", broken)
    x = torch.randn(4, 9, device=device)
    with (
        torch._dynamo.config.patch(suppress_errors=True),
        pytest.raises(Exception, match=r"no C\+\+ compiler|eagerly"),
    ):
        Compiled().prepare(x)


def test_no_elements_are_nothing_to_compile(without_inductor: list[Any], device: str) -> None:
    for shape in ((0, 5), (5, 0)):
        assert Compiled()(torch.empty(shape, device=device)).shape == shape
    assert not without_inductor
    x = torch.randn(7, 1, device=device)
    assert torch.equal(Compiled()(x), torch.ones_like(x))


@pytest.mark.usefixtures("without_inductor")
def test_it_accumulates_in_float64(device: str) -> None:
    x = torch.randn(4, 9000, device=device, generator=torch.Generator(device).manual_seed(1))
    assert not torch.equal(Compiled(accumulate="float64")(x), Compiled()(x))


def test_no_shape_leaves_a_trace_in_the_next(device: str) -> None:
    for cols in range(1, 12):
        x = torch.randn(3, cols, device=device)
        torch.testing.assert_close(NaiveScript().prepare(x)(x), torch.softmax(x, dim=1))


def test_prepare_ends_with_an_optimised_graph(device: str) -> None:
    call = NaiveScript().prepare(torch.randn(3, 4, device=device))
    graph = str(torch.jit.last_executed_optimized_graph())
    assert callable(call)  # it owns the graph
    assert "aten::max" in graph
    assert "prim::profile" not in graph


def test_deprecation_of_torchscript_is_not_the_users_concern(device: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        NaiveScript().prepare(torch.randn(3, 4, device=device))
