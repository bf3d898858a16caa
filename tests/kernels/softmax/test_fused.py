from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kernels.device import Device
from kernels.softmax import fused
from kernels.softmax.fused import Fused, _resident_programs


def compiled(registers: int, shared: int) -> Any:
    """What a warm-up returns, as far as occupancy asks."""
    return SimpleNamespace(
        n_regs=registers, metadata=SimpleNamespace(shared=shared), _init_handles=lambda: None
    )


@pytest.mark.parametrize(
    ("registers", "shared", "per_sm"),
    [
        (32, 16416, 8),  # 65536 / (32 · 32 · 8) registers bind, as do the 64 warps
        (64, 16416, 4),  # registers bind
        (16, 196640, 1),  # shared memory binds
        (16, 0, 8),  # none used: warps bind, and nothing is divided by zero
        (255, 233473, 1),  # nothing fits by the numbers, yet one program always runs
    ],
)
def test_programs_follow_the_scarcest_resource(
    h200: Device, registers: int, shared: int, per_sm: int
) -> None:
    assert _resident_programs(compiled(registers, shared), 8, h200) == 132 * per_sm


def test_interpreter_has_no_compiled_kernel_and_takes_few_programs(h200: Device) -> None:
    assert _resident_programs(None, 8, h200) == fused.INTERPRETED_PROGRAMS


def test_warm_up_works_under_the_interpreter(device: str) -> None:
    x = torch.randn(3 * fused.INTERPRETED_PROGRAMS + 1, 9, device=device)
    torch.testing.assert_close(Fused().prepare(x)(x), torch.softmax(x, dim=1))


@pytest.mark.parametrize(
    ("cols", "dtype", "stages"),
    [
        (4096, torch.float32, 4),
        (16384, torch.float32, 4),  # three rows of 64 KiB
        (32768, torch.float32, 2),  # one of 128 KiB
        (32768, torch.float16, 4),
        (65536, torch.float16, 2),
    ],
)
def test_stages_are_as_many_as_rows_fit(
    h200: Device, cols: int, dtype: torch.dtype, stages: int
) -> None:
    assert Fused()._stages(cols, dtype, h200) == stages


def test_stages_are_two_where_shared_memory_is_short(h200: Device) -> None:
    small = replace(h200, shared_bytes_per_block=101_376)
    assert Fused()._stages(1024, torch.float32, small) == 2
    assert Fused(num_stages=3)._stages(1024, torch.float32, small) == 3


@pytest.mark.parametrize("num_stages", [1, 2, 5])
def test_any_depth_gives_the_same_answer(device: str, num_stages: int) -> None:
    x = torch.randn(20, 33, device=device)
    torch.testing.assert_close(Fused(num_stages=num_stages)(x), torch.softmax(x, dim=1))
