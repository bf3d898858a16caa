from __future__ import annotations

import dataclasses
import re

import pytest
import torch

from kernels.copy.copy_triton import CopyTriton
from kernels.device import Device
from kernels.kernel import Kernel
from kernels.softmax.fused import Fused
from kernels.softmax.fused_multirow import FusedMultirow
from kernels.softmax.fused_row import FusedRow
from kernels.softmax.hybrid import Hybrid
from kernels.softmax.online import Online
from kernels.softmax.three_pass import ThreePass
from tests.kernels.variants import CLUSTERED, COPIES, SOFTMAXES, name

EVERY = SOFTMAXES + COPIES
ANYWHERE = [kernel for kernel in EVERY if kernel not in CLUSTERED]
F16, F32, F64 = torch.float16, torch.float32, torch.float64


@pytest.mark.parametrize(
    ("kernel", "cols", "dtype", "reason"),
    [
        (Fused(), 32768, F32, None),
        (Fused(), 32000, F16, None),
        (Fused(), 65536, F16, None),
        (
            Fused(),
            65536,
            F32,
            "a row of 65536 float32 takes 262144 bytes of shared memory, "
            "and this device gives a block 232448",
        ),
        (
            Fused(),
            40000,
            F32,
            "a row of 40000 float32 (padded to 65536) takes 262144 bytes of shared memory, "
            "and this device gives a block 232448",
        ),
        (Fused(), 131072, F16, "262144 bytes of shared memory"),
        (Fused(), 32768, F64, "262144 bytes of shared memory"),
        (Fused(num_stages=2), 32768, F32, None),
        (Fused(num_stages=3), 32768, F32, "num_stages=3 needs more than a block's 232448"),
        (FusedRow(), 65536, F32, None),
        (FusedRow(), 65536, F16, None),
        (
            FusedRow(),
            131072,
            F32,
            "a row of 131072 takes 131072 registers (padded to 131072, as float32), "
            "and an SM of this device has 65536",
        ),
        (FusedRow(accumulate="float64"), 65536, F32, "131072 registers"),
        (Hybrid(), 1 << 24, F32, None),
        (Online(), 1 << 24, F32, None),
        (ThreePass(), 1 << 24, F32, None),
        (FusedMultirow(), 4096, F64, None),
        (FusedMultirow(), 4097, F16, "takes rows of at most 4096 elements, not 4097"),
        (FusedMultirow(64, 8), 512, F32, None),
        (
            FusedMultirow(64, 4),
            513,
            F32,
            "rows_per_program=64 and num_warps=4 leave a lane 512 elements of rows of 513, "
            "and it takes at most 128",
        ),
        (Online(4096, num_stages=8), 1 << 24, F64, None),
        (
            Online(8192, num_stages=8),
            1 << 24,
            F64,
            "num_stages=8 with tiles of 8192 takes 458752 bytes of shared memory, "
            "and this device gives a block 232448",
        ),
    ],
    ids=str,
)
def test_row_too_wide_for_an_h200_is_refused_with_a_reason(
    h200: Device, kernel: Kernel, cols: int, dtype: torch.dtype, reason: str | None
) -> None:
    said = kernel.unsupported((4096, cols), dtype, h200)
    if reason is None:
        assert said is None
    else:
        assert said is not None
        assert re.search(re.escape(reason), said)


@pytest.mark.parametrize("kernel", [Fused(), FusedRow()], ids=name)
def test_row_beyond_tritons_largest_block_is_refused_by_the_interpreter_too(
    monkeypatch: pytest.MonkeyPatch, kernel: Kernel
) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    cpu = Device(kind="cpu", name="cpu")
    assert kernel.unsupported((1, 1 << 20), F32, cpu) is None
    assert "1048576" in (kernel.unsupported((1, (1 << 20) + 1), F32, cpu) or "")


@pytest.mark.parametrize("kernel", ANYWHERE, ids=name)
def test_more_than_two_dimensions_and_whole_numbers_are_refused(
    h200: Device, kernel: Kernel
) -> None:
    assert "3 dimensions" in (kernel.unsupported((2, 3, 4), F32, h200) or "")
    assert "int32" in (kernel.unsupported((2, 3), torch.int32, h200) or "")
    for shape in ((0, 5), (5, 0), (1, 1), (1823, 781)):
        for dtype in (F32, F16, torch.bfloat16, F64):
            assert kernel.unsupported(shape, dtype, h200) is None


@pytest.mark.parametrize(
    "kernel", [ThreePass(), FusedRow(), Online(), CopyTriton(), FusedMultirow(1)], ids=name
)
def test_more_programs_than_a_launch_takes_are_refused(h200: Device, kernel: Kernel) -> None:
    assert "2147483647" in (kernel.unsupported((1 << 31, 1), F16, h200) or "")


@pytest.mark.parametrize("kernel", EVERY, ids=name)
def test_triton_without_a_gpu_needs_its_interpreter(
    monkeypatch: pytest.MonkeyPatch, kernel: Kernel
) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    said = kernel.unsupported((2, 3), F32, Device(kind="cpu", name="cpu"))
    assert (said is not None and "CUDA" in said) == (kernel.backend == "triton")


@pytest.mark.parametrize("kernel", EVERY, ids=name)
def test_kernels_are_frozen(kernel: Kernel) -> None:
    assert hash(kernel) == hash(dataclasses.replace(kernel))  # type: ignore[type-var]
