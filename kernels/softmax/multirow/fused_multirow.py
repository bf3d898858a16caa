"""Fused softmax, several narrow rows a program: each row is loaded once and stays in registers.

Passes: one; reads MN, writes MN: 2MN.
On chip: the rows of a program, N elements each, padded to whole vectors of a warp.

A narrow matrix costs what a launch costs: an empty kernel takes the longer the more programs it
starts, and a row of a few hundred elements keeps a program busy for less than that. So a program
takes several rows, as tiles of (rows, what a warp's 32 lanes load at once), in vectors of 16
bytes where rows and strides are whole vectors. Triton lays warps along the rows of such a tile: a
row is reduced in registers and by shuffles, without shared memory or a barrier, and all loads are
under way before the first maximum is asked for. Two short rows share a warp; where there are more
warps than rows, each row is shared by several. Behind another kernel a program takes its place
while that one ends (`kernels/dependent.py`).
Source: PyTorch's PersistentSoftmax.cuh, whose warps take one or two rows of up to 1024 elements.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy
import torch

from kernels.dependent import dependent, launch_option
from kernels.device import Device, device_of
from kernels.kernel import Kernel, Shape
from kernels.language import MOST_PROGRAMS, next_power_of_two
from kernels.launch import launch
from kernels.residency import load_hint, store_hint
from kernels.softmax.multirow.program import _fused_multirow
from kernels.softmax.multirow.tile import WARP, lanes_by_tile, tile
from kernels.softmax.operation import SOFTMAX
from kernels.softmax.statistics import check_accumulate
from kernels.softmax.tiles import empty_result, triton_statistics
from kernels.traffic import M, N, Traffic
from kernels.tunables import check_flag, check_power_of_two
from kernels.vectors import vector

WIDEST = 4096  # elements of a row: a wider one fills a program of its own
MOST_ROWS = 1024  # a program
MOST_A_LANE = 128  # elements: with temporaries what 255 registers hold


@dataclass(frozen=True)
class FusedMultirow(Kernel):
    """Several rows a program, which it holds whole.

    Attributes:
        rows_per_program: Rows a program; None takes them by width and number of rows.
        num_warps: Warps a program; None takes them by the rows and their width.
        keep: Whether loads ask L2 to keep them longest; None asks by size (`kernels.residency`).
        keep_output: Whether stores ask for it; None likewise.
        dependent: Whether programs are placed while the kernel before ends; None where the device
            can.
        accumulate: dtype of the statistics, ``"float32"`` or ``"float64"``.
    """

    operation = SOFTMAX
    backend = "triton"
    dtypes = (*Kernel.dtypes, torch.float64)

    rows_per_program: int | None = None
    num_warps: int | None = None
    keep: bool | None = None
    keep_output: bool | None = None
    dependent: bool | None = None
    accumulate: str = "float32"

    def __post_init__(self) -> None:
        if self.rows_per_program is not None:
            check_power_of_two("rows_per_program", self.rows_per_program, 1, MOST_ROWS)
        if self.num_warps is not None:
            check_power_of_two("num_warps", self.num_warps, 1, 32)
        check_flag("keep", self.keep)
        check_flag("keep_output", self.keep_output)
        check_flag("dependent", self.dependent)
        check_accumulate(self.accumulate)

    def unsupported(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        """See `Kernel`; also rows too wide to share a program, and more of them than it holds."""
        reason = super().unsupported(shape, dtype, device)
        if reason is not None:
            return reason
        if shape[1] > WIDEST:
            return f"takes rows of at most {WIDEST} elements, not {shape[1]}"
        rows, warps = self._tile(shape, dtype)
        held = rows * next_power_of_two(shape[1]) // (WARP * warps)
        if held > MOST_A_LANE:
            return (
                f"rows_per_program={rows} and num_warps={warps} leave a lane {held} elements of "
                f"rows of {shape[1]}, and it takes at most {MOST_A_LANE}"
            )
        programs = -(-shape[0] // rows)
        if programs > MOST_PROGRAMS:
            return f"a launch takes {MOST_PROGRAMS} programs, not {programs}"
        return None

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """See `Kernel`."""
        y = empty_result(x)
        if x.numel() > 0:
            rows, cols = x.shape
            tile_rows, warps = self._tile(x.shape, x.dtype)
            elements = vector(x)
            lanes = lanes_by_tile(tile_rows, warps, cols * x.element_size())
            width = min(lanes * elements, next_power_of_two(cols))
            depends = dependent(device_of(x), self.dependent)
            launch(
                _fused_multirow,
                (-(-rows // tile_rows),),
                (x, y, rows, cols // elements, x.stride(0) // elements, x.stride(1)),
                {
                    "VECTOR": elements,
                    "ROWS": tile_rows,
                    "WIDTH": width,
                    "PIECES": -(-cols // width),
                    "LOADS": load_hint(x, self.keep),
                    "STORES": store_hint(x, self.keep_output),
                    "DEPENDENT": depends,
                    "STATISTICS": triton_statistics(x.dtype, self.accumulate),
                },
                num_warps=warps,
                **launch_option(depends),
            )
        return y

    def traffic(self) -> Traffic:
        """See `Kernel`."""
        return Traffic(reads=M * N, writes=M * N)

    def on_chip_elements(self) -> sympy.Expr:
        """See `Kernel`."""
        return N

    def _tile(self, shape: Shape, dtype: torch.dtype) -> tuple[int, int]:
        return tile(shape, dtype.itemsize, self.rows_per_program, self.num_warps)
