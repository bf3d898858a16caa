"""`compiled` and `naive_script`: what is compiled is compiled once, for one shape, or says so."""

import warnings
from typing import Any

import pytest
import torch

from kernels.kernel import NotCompiled
from tests.conf import built
from tests.kernels.conftest import HERE, extremes, lay_out

Compiled, CompiledSoftmax, NaiveScript = (
    type(built(name)) for name in ("compiled", "compiled_softmax", "naive_script")
)
EVERY = pytest.mark.parametrize("variant", [Compiled, CompiledSoftmax])


class Asked(list[dict[str, Any]]):
    """Stands for Inductor, which takes seconds a graph: runs it as it is; holds its options."""

    def __call__(self, graph: Any, inputs: Any, config_patches: dict[str, Any]) -> Any:
        self.append(config_patches)
        return graph.forward


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    monkeypatch.setattr("torch._inductor.compile_fx.compile_fx", inductor := Asked())
    return inductor


def test_inductor_gives_the_answer_of_float64() -> None:
    x = lay_out(extremes().to(HERE.kind, torch.bfloat16), "transposed")
    reason = Compiled().unsupported((10, 40), x.dtype, HERE)
    if reason is not None:
        pytest.skip(reason)
    y = Compiled()(x)
    assert y.is_contiguous()
    wanted = torch.softmax(x.double(), 1)
    torch.testing.assert_close(y.double(), wanted, rtol=2e-2, atol=1e-6, equal_nan=True)


def test_a_path_with_a_space_is_said_to_be_pytorchs_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    for path, refused in (("/a b/torch/__init__.py", True), ("/ab/torch/__init__.py", False)):
        monkeypatch.setattr(torch, "__file__", path)
        assert (Compiled().unsupported((4, 8), torch.float32, HERE) is not None) == refused


@EVERY
def test_more_shapes_than_dynamos_limit_are_each_compiled_once_and_in_prepare(
    asked: Asked, device: str, variant: Any
) -> None:
    assert variant()(torch.empty(0, 5, device=device)).shape == (0, 5)
    assert not asked, "no elements are nothing to compile"
    inputs = [torch.randn(4, cols, device=device) for cols in range(2, 12)]
    calls = [variant().prepare(x) for x in inputs]
    assert len(asked) == len(inputs)
    for call, x in zip(calls, inputs, strict=True):
        for _ in range(2):
            torch.testing.assert_close(call(x), torch.softmax(x, dim=1))
    assert len(asked) == len(inputs)
    with pytest.raises(Exception, match="compiled for another shape"):
        calls[0](inputs[1])


def test_mode_reaches_inductor_and_never_brings_cuda_graphs(asked: Asked, device: str) -> None:
    x = torch.randn(4, 9, device=device)
    for kernel in (Compiled(), Compiled(mode="max-autotune-no-cudagraphs")):
        torch.testing.assert_close(kernel(x), torch.softmax(x, dim=1))
    plain, tuned = asked
    assert plain == {}
    assert tuned["max_autotune"]
    assert not tuned.get("triton.cudagraphs")


@EVERY
def test_code_that_is_not_compiled_is_an_error(
    variant: Any, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = torch.randn(4, 9, device=device)
    with torch.compiler.set_stance("force_eager"), pytest.raises(NotCompiled, match="eagerly"):
        variant().prepare(x)

    def broken(graph: Any, inputs: Any, **_: Any) -> Any:
        raise RuntimeError("no C++ compiler")

    monkeypatch.setattr("torch._inductor.compile_fx.compile_fx", broken)
    with (
        torch._dynamo.config.patch(suppress_errors=True),
        pytest.raises(Exception, match=r"no C\+\+ compiler|eagerly"),
    ):
        variant().prepare(x)


def test_a_script_is_optimised_in_prepare_whatever_shapes_came_before(device: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # that TorchScript is deprecated is not the user's concern
        for cols in range(1, 12):
            x = torch.randn(3, cols, device=device)
            call = NaiveScript().prepare(x)
            graph = str(torch.jit.last_executed_optimized_graph())
            assert "aten::max" in graph
            assert "prim::profile" not in graph
            torch.testing.assert_close(call(x), torch.softmax(x, dim=1))
