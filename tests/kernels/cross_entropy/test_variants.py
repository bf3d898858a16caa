"""The variants that a sweep measures: right by the gate, and their traffic as they declare it."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.worker.counting import difference
from experiments.worker.gate import check
from experiments.worker.requests import requested
from kernels.cross_entropy.auto import CeAuto, CeGradAuto
from kernels.cross_entropy.library import (
    CeBackwardCompiled,
    CeCompiled,
    CeGradCompiled,
    CeGradTorch,
    CeNaive,
    CeTorch,
    LogprobEntropyCompiled,
    LogprobEntropyTorch,
)
from kernels.cross_entropy.online import (
    CeBackward,
    CeBackwardInPlace,
    CeGradInPlace,
    CeGradOnline,
    CeOnline,
    LogprobEntropyOnline,
    Streaming,
)
from kernels.cross_entropy.peers import (
    CeBackwardQuack,
    CeFlagGems,
    CeGradLiger,
    CeGradQuack,
    CeLiger,
    CeQuack,
)
from kernels.device import Device
from kernels.kernel import Kernel
from kernels.log_softmax.library import (
    LogSoftmaxCompiled,
    LogSoftmaxTorch,
    LogSumExpCompiled,
    LogSumExpTorch,
)
from kernels.log_softmax.online import LogSoftmaxOnline, LogSumExpOnline
from tests.kernels.variants import HERE, name

OURS: tuple[Kernel, ...] = (
    *(CeOnline(), CeAuto(), CeBackward(), CeBackwardInPlace(), CeGradOnline(), CeGradInPlace()),
    *(LogprobEntropyOnline(), LogSumExpOnline(), LogSoftmaxOnline()),
    CeGradAuto(),
    *(CeOnline(256, 1), CeBackward(256, 1), LogSumExpOnline(512, 2), LogprobEntropyOnline(64, 1)),
)
LIBRARY: tuple[Kernel, ...] = (
    *(CeNaive(), CeTorch(), CeGradTorch(), LogprobEntropyTorch()),
    *(LogSoftmaxTorch(), LogSumExpTorch()),
)
COMPILED: tuple[Kernel, ...] = (
    *(CeCompiled(), CeBackwardCompiled(), CeGradCompiled(), LogprobEntropyCompiled()),
    *(LogSoftmaxCompiled(), LogSumExpCompiled()),
)
PEERS: tuple[Kernel, ...] = (
    *(CeQuack(), CeGradQuack(), CeBackwardQuack(), CeLiger(), CeGradLiger(), CeFlagGems()),
)


def assert_right(kernel: Kernel, shape: tuple[int, int], dtype: torch.dtype, seed: int = 0) -> None:
    inputs = kernel.operation.make_inputs(shape, dtype, HERE.kind, seed)
    asked = tuple(x.clone() for x in inputs)
    answer = kernel.prepare(*inputs)(*inputs)
    ran = "interpreter" if kernel.backend == "triton" and HERE.kind == "cpu" else kernel.backend
    verdict = check(answer, asked, kernel.operation, ran)
    assert verdict.reason is None, f"{kernel} at {shape} {dtype}: {verdict.reason}"
    for array, x, before in zip(kernel.operation.inputs, inputs, asked, strict=True):
        if x.numel():
            assert torch.equal(x, before) == (array.name != kernel.overwrites), array.name


@settings(max_examples=20, deadline=None)
@given(
    kernel=st.sampled_from(OURS + LIBRARY),
    rows=st.integers(0, 9),
    cols=st.sampled_from((1, 3, 13, 64, 781, 2047, 2056, 4099)),
    place=st.integers(0, 2),
    seed=st.integers(0, 99),
)
def test_any_rows_pass_the_gate(
    kernel: Kernel, rows: int, cols: int, place: int, seed: int
) -> None:
    # PyTorch's gradient in float16 on a CPU is of a rounded logarithm: the gate may refuse it
    dtype = torch.float32 if kernel in LIBRARY else kernel.dtypes[place]
    assert_right(kernel, (rows, cols), dtype, seed)


@pytest.mark.parametrize("kernel", COMPILED, ids=name)
def test_a_compiled_formula_passes_the_gate(kernel: Kernel) -> None:
    assert_right(kernel, (5, 33), torch.float32)


@pytest.mark.parametrize("kernel", PEERS, ids=name)
@pytest.mark.parametrize("shape", [(7, 64), (3, 4096), (0, 8)], ids=str)
def test_a_peer_passes_the_gate(kernel: Kernel, shape: tuple[int, int]) -> None:
    if reason := kernel.unsupported(shape, torch.float32, HERE):
        pytest.skip(reason)
    assert_right(kernel, shape, torch.float32)


def test_peers_say_what_they_need_and_give_empty_answers_of_the_right_shape(h200: Device) -> None:
    for kernel in PEERS:
        reason = kernel.unsupported((8, 50257), torch.bfloat16, h200)
        quack = isinstance(kernel, CeQuack | CeBackwardQuack)
        assert (reason is not None) >= quack, f"{kernel} takes odd rows"
        inputs = kernel.operation.make_inputs((0, 16), torch.float32, "cpu", 0)
        answer = kernel.prepare(*inputs)(*inputs)
        assert check(answer, inputs, kernel.operation, kernel.backend).reason is None


def test_pytorchs_gradient_is_held_to_what_rounded_log_probabilities_give() -> None:
    operation = CeGradTorch().operation
    logits, target = operation.make_inputs((40, 50_000), torch.bfloat16, "cpu", 0)
    logp = logits.double().log_softmax(1)
    rounded = logp.to(torch.bfloat16).double().exp()  # as a GPU keeps it for the backward pass
    rounded.scatter_add_(1, target[:, None], torch.full((40, 1), -1.0, dtype=torch.float64))
    answer = -logp.gather(1, target[:, None])[:, 0].float(), rounded.to(torch.bfloat16)
    verdict = check(answer, (logits, target), operation, CeGradTorch().backend)
    assert verdict.reason is None
    assert "1.5 spacings" in str(check(answer, (logits, target), operation, "triton").reason)


@pytest.mark.skipif(HERE.kind != "cpu", reason="a count runs on the CPU")
@pytest.mark.parametrize("kernel", OURS + LIBRARY, ids=str)
def test_counted_equals_modelled_exactly(kernel: Kernel) -> None:
    points = [((7, 13), torch.float32), ((3, 1000), torch.float16), ((1, 4096), torch.float16)]
    if isinstance(kernel, Streaming) and kernel.block_size is None:
        points.append(((1, 20_001), torch.float32))
    for shape, dtype in points:
        inputs = kernel.operation.make_inputs(shape, dtype, "cpu", 0)
        tensors = requested(kernel, *inputs)
        found = difference(kernel, kernel.operation.sizes(shape), tensors)
        assert found is None, f"{shape} {dtype}: {found}"


def test_what_a_triton_kernel_keeps_beside_the_operations_arrays_is_counted_in_bytes() -> None:
    inputs = CeOnline().operation.make_inputs((4, 30), torch.float16, "cpu", 0)
    tensors = {t["name"]: t for t in requested(CeOnline(), *inputs)}
    (kept,) = set(tensors) - {"logits", "target", "loss"}
    assert tensors[kept]["dtype"] == "float32"
    assert tensors[kept]["store_bytes"] == tensors["loss"]["store_bytes"] == 16
