"""What `kernels.kernel.Kernel` promises, asked of every kernel of conf/kernel that can run here."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from experiments.worker.describe import build_kernel
from experiments.worker.gate import check
from experiments.worker.inputs import HARD_TOLERANCE, hard
from kernels.kernel import Kernel, Operation, as_tuple
from tests.conf import KERNELS
from tests.conf import kernel as configured
from tests.kernels.variants import HERE, INTERPRETED, LAYOUTS, lay_out

# Tiles so small that rows of a few elements take several
TILES: dict[str, dict[str, int]] = {
    name: {"block_size": 16}
    for name in (
        *("three_pass", "hybrid", "online", "copy_triton", "copy_in_place"),
        *("add_hinted", "backward", "weighted_online"),
    )
} | {
    "attention_io": {"block_size": 32},
    "exponentials": {"block_size": 32},
    "ce_online": {"block_size": 64, "num_warps": 1},
    "ce_backward_online": {"block_size": 64, "num_warps": 1},
    "logsumexp_online": {"block_size": 64, "num_warps": 2},
    "logprob_entropy_online": {"block_size": 64, "num_warps": 1},
    "read": {"thread_bytes": 256, "num_warps": 1},
    "backward_multirow": {"rows_per_program": 8, "num_warps": 2},
    "fused_multirow": {"rows_per_program": 8},
    "attention_online": {"block_m": 32, "block_n": 16, "num_warps": 4},
}
FLOAT64 = ("softmax", "softmax_backward", "log_softmax", "copy", "read", "add")
NARROW = st.integers(0, 70) | st.sampled_from((8, 64))
COMPILED = "inductor"  # takes seconds a shape: tried on a card, and by test_compiled here


@cache
def kernels() -> dict[str, Kernel]:
    """Each kernel by its name in conf/kernel; with small tiles besides, where it has tiles."""
    made = {name: build_kernel(configured(name)) for name in KERNELS}
    small = {
        f"{name} in small tiles": build_kernel(configured(name) | tiles)
        for name, tiles in TILES.items()
    }
    return made | small


def runs(kernel: Kernel) -> bool:
    """Whether the kernel runs here, at the smallest shape."""
    quick = HERE.kind != "cpu" or kernel.backend != COMPILED
    return quick and kernel.unsupported((64, 64), torch.float32, HERE) is None


HERE_RUN = [name for name, kernel in kernels().items() if runs(kernel)]
every = pytest.mark.parametrize("name", HERE_RUN)


def of_heads(operation: Operation) -> bool:
    """Whether M counts the queries of several heads of N."""
    return operation.name.startswith(("attention", "matmul", "exponentials"))


@st.composite
def points(draw: st.DrawFn, name: str) -> tuple[tuple[int, int], torch.dtype]:
    """A shape and a dtype that a kernel takes."""
    kernel = kernels()[name]
    operation, dtypes = kernel.operation, kernel.dtypes
    if kernel.backend in ("torch", "eager") and operation.name not in ("softmax", "copy"):
        dtypes = (torch.float32,)  # PyTorch's 16-bit losses on a CPU are of rounded logarithms
    elif operation.name in FLOAT64:
        dtypes = (*dtypes, torch.float64) if kernel.backend != "cute" else dtypes
    if of_heads(operation):
        heads, cols = draw(st.integers(1, 3)), draw(st.integers(1, 70))
        shape = (heads * cols, cols)
    else:
        wide = "small" not in name and draw(st.booleans())
        rows = draw(st.sampled_from((1, 3) if wide else (0, 1, 2, 9, 33)))
        shape = (rows, draw(st.sampled_from((256, 781, 2056, 4099)) if wide else NARROW))
    dtype = draw(st.sampled_from(dtypes))
    (first, *more), (answer, *_) = operation.inputs, operation.outputs
    # without a class there is no target, and the logsumexp of no column is infinite
    assume(shape[1] > 0 or (not more and answer.shape == first.shape))
    assume(dtype is torch.float64 or kernel.unsupported(shape, dtype, HERE) is None)
    return shape, dtype


def backend(kernel: Kernel) -> str:
    return "interpreter" if kernel.backend == "triton" and HERE.kind == "cpu" else kernel.backend


def laid_out(kernel: Kernel, inputs: tuple[torch.Tensor, ...], layout: str) -> list[torch.Tensor]:
    """The inputs' matrices with other strides; one that is overwritten has rows of its own."""
    repeats = kernel.overwrites is not None and layout == "one row repeated"
    if kernel.backend == "cute" or repeats:
        return list(inputs)
    return [lay_out(x, layout) if x.dim() == 2 else x for x in inputs]


def assert_right(kernel: Kernel, inputs: Any, call: Any, factor: float = 1) -> None:
    """Asserts an answer by the gate, and that only the input that may be overwritten was."""
    asked = tuple(x.clone() for x in inputs)
    answers = as_tuple(call(*inputs))
    verdict = check(answers, asked, kernel.operation, backend(kernel), factor=factor)
    assert verdict.reason is None
    assert kernel.overwrites or all(y.is_contiguous() for y in answers)
    for array, x, before in zip(kernel.operation.inputs, inputs, asked, strict=True):
        assert array.name == kernel.overwrites or torch.equal(x.nan_to_num(), before.nan_to_num())


@every
# The same points every time: a logsumexp that happens to be near zero has few digits
@settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data(), layout=st.sampled_from(LAYOUTS), seed=st.integers(0, 99))
def test_a_prepared_kernel_is_right_for_other_values_of_any_shape_and_layout(
    name: str, data: st.DataObject, layout: str, seed: int
) -> None:
    kernel = kernels()[name]
    shape, dtype = data.draw(points(name))
    first, inputs = (
        laid_out(kernel, kernel.operation.make_inputs(shape, dtype, HERE.kind, which), layout)
        for which in (seed + 100, seed)
    )
    assert_right(kernel, inputs, kernel.prepare(*first))


OF_LOGITS = [name for name in HERE_RUN if kernels()[name].operation.logits]


@pytest.mark.parametrize("name", OF_LOGITS)
def test_rows_that_break_unsafe_kernels_are_right(name: str) -> None:
    kernel = kernels()[name]
    operation, shape = kernel.operation, (12, 96)
    inputs = list(operation.make_inputs(shape, torch.float32, HERE.kind, 0))
    for place, array in enumerate(operation.inputs):
        kinds = operation.logits.get(array.name, ())
        for row in range(len(inputs[place]) if kinds else 0):
            inputs[place][row] = hard(inputs[place][row], kinds[row % len(kinds)])
    assert_right(kernel, inputs, kernel, HARD_TOLERANCE)


OF_A_MATRIX = [
    name
    for name in HERE_RUN
    if [array.name for array in kernels()[name].operation.inputs] == ["x"]
    and kernels()[name].backend == "triton"
]


@pytest.mark.parametrize("name", OF_A_MATRIX)
@pytest.mark.parametrize("strides", [(2**30, 1), (1, 2**30)], ids=["rows", "columns"])
def test_offsets_are_64_bit(name: str, strides: tuple[int, int]) -> None:
    kernel = kernels()[name]
    try:  # the last element starts where 32 bits end; most of the memory is never touched
        storage = torch.empty(2**31 + 64, dtype=torch.float16, device=HERE.kind)
    except RuntimeError as error:
        pytest.skip(f"no room for 4 GiB: {error}")
    x = storage.as_strided((3, 40) if strides[1] == 1 else (40, 3), strides)
    x.copy_(torch.randn(x.shape, generator=torch.Generator().manual_seed(0)))
    assert_right(kernel, (x,), kernel)


@pytest.mark.parametrize("name", KERNELS)
def test_no_elements_are_an_answer_without_any_package(name: str) -> None:
    kernel = kernels()[name]
    operation = kernel.operation
    for shape in ((0, 16), (16, 0)):
        if of_heads(operation) or (0 in shape[1:] and len(operation.inputs) > 1):
            continue  # no class, no target
        inputs = operation.make_inputs(shape, torch.float32, HERE.kind, 0)
        for call in (kernel, kernel.prepare(*inputs)):
            answers = as_tuple(call(*inputs))
            due = operation.layout(operation.outputs, shape, torch.float32)
            assert [tuple(y.shape) for y in answers] == [size for size, _ in due]


# PyTorch's own round some 16-bit answers twice; a whole block of 65536 takes ptxas minutes
REAL = [
    name
    for name in HERE_RUN
    if kernels()[name].backend in ("triton", "cute", "inductor") and name != "hybrid_whole"
]


@pytest.mark.gpu
@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_real_widths_on_a_card(name: str, dtype: torch.dtype) -> None:
    kernel, ran = kernels()[name], 0
    shapes = [(70, cols) for cols in (3, 256, 781, 4096, 32_000, 50_257, 128_256, 262_144)]
    if kernel.operation.name == "softmax" and kernel.backend == "triton":
        shapes += [(300, cols) for cols in (1, 760, 1024, 4095, 12_672, 16_384, 32_776, 65_536)]
        widest = (131_072, 400_000, 524_288, 786_432, 1_000_003, 1 << 20, (1 << 20) + 16)
        shapes += [(rows, cols) for cols in widest for rows in (1, 9)]
    if of_heads(kernel.operation):
        shapes = [(4096, min(cols, 4096)) for _, cols in shapes]
    for shape in shapes:
        if shape[1] > (4096 if "small" in name else 1 << 14 if name == "fused" else 1 << 21):
            continue  # unrolled blocks take ptxas minutes
        if kernel.unsupported(shape, dtype, HERE) is None:
            inputs = kernel.operation.make_inputs(shape, dtype, HERE.kind, 1)
            # a sum in one order over so many tiles is off by more roundings
            factor = 2 if shape[1] > 1 << 19 else 1
            assert_right(kernel, inputs, kernel.prepare(*inputs), factor)
            ran += 1
    if not ran:
        pytest.skip("takes none of these shapes")


OPERATIONS = {kernel.operation.name: kernel.operation for kernel in kernels().values()}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_gate_takes_the_right_answer_and_no_other(operation: str, dtype: torch.dtype) -> None:
    of = OPERATIONS[operation]
    inputs = of.make_inputs((120, 40), dtype, HERE.kind, 0)
    due = of.layout(of.outputs, (120, 40), dtype)
    right = [y.to(own) for y, (_, own) in zip(as_tuple(of.reference(*inputs)), due, strict=True)]
    wrong = {
        "zeros": [torch.zeros_like(y) for y in right],
        "a twentieth more": [y * 1.05 for y in right],
        "other rows": [y.flip(0) for y in right],
    }
    assert check(tuple(right), inputs, of, "torch").reason is None
    for kind, answer in wrong.items():
        assert check(tuple(answer), inputs, of, "torch").reason is not None, kind
    if right[0].shape == inputs[0].shape and right[0].dtype == inputs[0].dtype:
        verdict = check((inputs[0], *right[1:]), inputs, of, "torch")
        assert verdict.reason is not None


def test_kernels_run_here() -> None:
    assert len(HERE_RUN) > (30 if INTERPRETED or HERE.kind == "cuda" else 10)
