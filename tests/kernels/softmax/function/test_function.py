"""`softmax(x)` beside `torch.softmax`; on a GPU the launches are repeated ones, see also `gpu`."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.softmax import softmax
from tests.kernels.variants import DTYPES

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


@settings(max_examples=60, deadline=None)
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
@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_infinities_and_nan_come_out_as_from_pytorch(
    device: str, dim: int, temperature: float
) -> None:
    x = torch.randn(6, 6, device=device)
    x[0, 0], x[1, 1], x[2, 2], x[3] = math.inf, -math.inf, math.nan, -math.inf
    y = softmax(x, dim, temperature=temperature)
    torch.testing.assert_close(y, torch.softmax(x / temperature, dim), equal_nan=True)


@pytest.mark.parametrize("dim", [0, 1])
def test_lines_wider_than_a_tile_are_taken_in_two_passes(device: str, dim: int) -> None:
    x = torch.randn(2, 40000, device=device)
    x[1, :39000] = -math.inf  # a whole tile of it first
    x = x if dim == 1 else x.t().contiguous()
    wanted = due(x, dim, 0.5)
    torch.testing.assert_close(softmax(x, dim, temperature=0.5).double(), wanted, **CLOSE[x.dtype])


def test_a_small_temperature_does_not_overflow(device: str) -> None:
    y = softmax(
        torch.tensor([6e4, 5e4, -6e4], dtype=torch.float16, device=device), temperature=1e-3
    )
    assert y.tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("temperature", [0, -1.0, math.nan, math.inf, 1e-31, "1", None])
def test_a_temperature_out_of_reach_is_refused_in_one_line(temperature: object) -> None:
    with pytest.raises(ValueError, match=r"^temperature must be a number from 1e-30 to 1e30, not"):
        softmax(torch.ones(2), temperature=temperature)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("x", "options"),
    [
        (torch.ones(2, 3, dtype=torch.int64), {}),
        (torch.ones(2, 3, dtype=torch.bool), {}),
        (torch.ones(2, 3), {"dtype": torch.int32}),
        (torch.ones(2, 3), {"dim": 2}),
        (torch.ones(2, 3), {"dim": -3}),
        (torch.tensor(1.0), {"dim": 1}),
    ],
    ids=str,
)
def test_what_pytorch_refuses_is_refused_alike(x: torch.Tensor, options: dict[str, object]) -> None:
    refused: list[type[BaseException]] = []
    for function in (torch.softmax, softmax):
        with pytest.raises((IndexError, NotImplementedError)) as caught:
            function(x, **({"dim": -1} | options))  # type: ignore[operator]
        refused.append(caught.type)
    assert refused[0] == refused[1]


def test_integers_are_cast_where_a_dtype_is_given(device: str) -> None:
    x = torch.arange(6, device=device).view(2, 3)
    wanted = torch.softmax(x, -1, dtype=torch.float32)
    torch.testing.assert_close(softmax(x, dtype=torch.float32), wanted)


def test_without_gpu_or_interpreter_pytorch_computes() -> None:
    code = """
import os; os.environ.pop("TRITON_INTERPRET", None); os.environ["CUDA_VISIBLE_DEVICES"] = ""
import torch
from kernels.softmax import softmax
x = torch.randn(3, 4, requires_grad=True)
torch.testing.assert_close(softmax(x, 0, temperature=2.0), torch.softmax(x / 2, 0))
assert "Softmax" in softmax(x).grad_fn.name(), softmax(x).grad_fn
print("right")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parents[4], capture_output=True, text=True
    )
    assert done.stdout.strip() == "right", done.stderr[-1000:]


def test_importing_a_variant_does_not_import_the_function() -> None:
    code = "import sys, kernels.softmax.online; print('kernels.softmax.function' in sys.modules)"
    root = Path(__file__).parents[4]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr[-1000:]
