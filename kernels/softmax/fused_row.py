"""Fused softmax, one program per row: the row is loaded once and stays in registers.

Passes: one; reads MN, writes MN: 2MN.
On chip: the row, N elements padded to a power of two. A program gets more warps as rows widen.
Source: "Softmax in OpenAI Triton", after the softmax of Triton's first tutorials.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from typing_extensions import override

from ..device import Device
from ..kernel import Kernel, Shape, power_of_two
from ..language import jit, next_power_of_two, tl
from ..launch import launch
from ..traffic import M, N, Traffic
from .operation import SOFTMAX
from .tiles import (
    empty_result,
    load_tile,
    statistics_dtype,
    store_tile,
    too_many_rows,
    too_wide,
    triton_statistics,
)


@dataclass(frozen=True)
class FusedRow(Kernel):
    """One program per row, which it holds whole.

    Attributes:
        num_warps: Warps per program; None takes 4, 8 for rows of 2048 and 16 for rows of 4096 on.
    """

    operation = SOFTMAX
    backend = "triton"
    dtypes = (*Kernel.dtypes, torch.float64)
    moves = Traffic(reads=M * N, writes=M * N)
    on_chip = N

    num_warps: Annotated[int | None, power_of_two(1, 32)] = None

    @override
    def unsupported(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        """See `Kernel`; also a row that no register file holds."""
        reason = super().unsupported(shape, dtype, device) or too_many_rows(shape)
        if reason is not None:
            return reason
        block = next_power_of_two(shape[1])
        statistics = statistics_dtype(dtype)
        registers = block * statistics.itemsize // 4
        if device.registers_per_sm is not None and registers > device.registers_per_sm:
            name = str(statistics).removeprefix("torch.")
            return (
                f"a row of {shape[1]} takes {registers} registers (padded to {block}, as {name}), "
                f"and an SM of this device has {device.registers_per_sm}"
            )
        return too_wide(shape)

    @override
    def __call__(self, x: torch.Tensor, y: torch.Tensor | None = None) -> torch.Tensor:
        y = empty_result(x) if y is None else y
        if x.numel() > 0:
            rows, cols = x.shape
            block = next_power_of_two(cols)
            launch(
                _fused_row,
                (rows,),
                (x, y, cols, x.stride(0), x.stride(1)),
                {"BLOCK": block, "STATISTICS": triton_statistics(x.dtype)},
                num_warps=self.num_warps or warps_by_width(block),
            )
        return y


def warps_by_width(block: int) -> int:
    """Warps for a row padded to ``block`` elements, as the source has it."""
    return 16 if block >= 4096 else 8 if block >= 2048 else 4


@jit
def _fused_row(
    x: tl.tensor,
    y: tl.tensor,
    cols: tl.tensor,
    row_stride: tl.tensor,
    col_stride: tl.tensor,
    BLOCK: tl.constexpr,
    STATISTICS: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    values = load_tile(x + row * row_stride, 0, cols, col_stride, BLOCK, STATISTICS, "")
    # Triton's maximum passes over NaN; it comes back through the sum
    exponentials = tl.exp(values - tl.max(values))
    store_tile(y + row * cols, 0, exponentials / tl.sum(exponentials), cols, BLOCK, "")
