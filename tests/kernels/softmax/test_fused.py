from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kernels.device import Device
from kernels.softmax import fused
from kernels.softmax.fused import Fused


class Function:
    """What ``@triton.jit`` makes, as far as a launch of `fused` asks."""

    def __init__(self, registers: int, shared: int) -> None:
        self.compiled = SimpleNamespace(
            n_regs=registers, metadata=SimpleNamespace(shared=shared), _init_handles=lambda: None
        )
        self.grids: list[Any] = []

    def warmup(self, *_: Any, **__: Any) -> Any:
        return self.compiled

    def __getitem__(self, grid: Any) -> Any:
        return lambda *_, **__: self.grids.append(grid)


@pytest.mark.parametrize(
    ("rows", "registers", "shared", "programs"),
    [
        (4096, 64, 16416, 132 * 4),  # as many as the registers of all SMs hold
        (300, 64, 16416, 300),  # no more than there are rows
        (4096, 255, 233473, 132),  # nothing fits by the numbers, yet an SM always runs one
    ],
)
def test_as_many_programs_as_the_device_holds_share_out_the_rows(
    h200: Device,
    monkeypatch: pytest.MonkeyPatch,
    rows: int,
    registers: int,
    shared: int,
    programs: int,
) -> None:
    function = Function(registers, shared)
    monkeypatch.setattr(fused, "_fused", function)
    monkeypatch.setattr(fused, "device_of", lambda _: h200)
    Fused()(torch.empty(rows, 9))
    assert function.grids == [(programs,)]


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
