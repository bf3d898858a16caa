"""Copy by Triton: the roof as a kernel of the same make as the variants sees it.

Passes: one; reads MN, writes MN: 2MN. A program copies one tile of a row; a contiguous matrix is
taken as a single long row, so that narrow rows fill their tiles too.
On chip: a tile of `block_size` elements.
Source: Triton's tutorial 01 (vector addition), less the addition.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy
import torch

from kernels.copy.operation import COPY
from kernels.dependent import await_previous, dependent, launch_option
from kernels.device import Device, device_of
from kernels.kernel import Kernel, Shape
from kernels.language import LARGEST_BLOCK, MOST_PROGRAMS, jit, tl
from kernels.residency import load_hint, store_hint
from kernels.traffic import M, N, Traffic
from kernels.tunables import check_flag, check_power_of_two


@dataclass(frozen=True)
class CopyTriton(Kernel):
    """One program a tile.

    Attributes:
        block_size: Elements of a tile.
        num_warps: Warps a program.
        keep: Whether loads ask L2 to keep them longest; None asks by size (`kernels.residency`).
        keep_output: Whether stores ask for it; None likewise.
        dependent: Whether programs are placed while the kernel before ends; None where the device
            can.
    """

    operation = COPY
    backend = "triton"
    dtypes = (*Kernel.dtypes, torch.float64)

    block_size: int = 4096
    num_warps: int = 8
    keep: bool | None = False
    keep_output: bool | None = False
    dependent: bool | None = None

    def __post_init__(self) -> None:
        check_power_of_two("block_size", self.block_size, 1, LARGEST_BLOCK)
        check_power_of_two("num_warps", self.num_warps, 1, 32)
        check_flag("keep", self.keep)
        check_flag("keep_output", self.keep_output)
        check_flag("dependent", self.dependent)

    def unsupported(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        """See `Kernel`."""
        reason = super().unsupported(shape, dtype, device)
        if reason is not None:
            return reason
        programs = shape[0] * -(-shape[1] // self.block_size)  # as for rows that are strided
        if programs > MOST_PROGRAMS:
            return f"starts a program a tile, and a launch takes {MOST_PROGRAMS}, not {programs}"
        return None

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """See `Kernel`."""
        y = torch.empty_like(x, memory_format=torch.contiguous_format)
        if x.numel() > 0:
            flat = x.view(1, -1) if x.is_contiguous() else x
            rows, cols = flat.shape
            tiles = -(-cols // self.block_size)
            depends = dependent(device_of(x), self.dependent)
            _copy[(rows * tiles,)](
                flat,
                y,
                tiles,
                cols,
                flat.stride(0),
                flat.stride(1),
                BLOCK=self.block_size,
                LOADS=load_hint(x, self.keep),
                STORES=store_hint(x, self.keep_output),
                DEPENDENT=depends,
                num_warps=self.num_warps,
                **launch_option(depends),
            )
        return y

    def traffic(self) -> Traffic:
        """See `Kernel`."""
        return Traffic(reads=M * N, writes=M * N)

    def on_chip_elements(self) -> sympy.Expr:
        """See `Kernel`."""
        return sympy.Integer(self.block_size)


@jit
def _copy(
    x: tl.tensor,
    y: tl.tensor,
    tiles: tl.tensor,
    cols: tl.tensor,
    row_stride: tl.tensor,
    col_stride: tl.tensor,
    BLOCK: tl.constexpr,
    LOADS: tl.constexpr,
    STORES: tl.constexpr,
    DEPENDENT: tl.constexpr,
) -> None:
    # 64-bit offsets: a matrix of more than 2³¹ elements overflows 32-bit ones
    program = tl.program_id(0)
    row = (program // tiles).to(tl.int64)
    columns = (program % tiles).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < cols
    places = x + row * row_stride + columns * col_stride
    await_previous(DEPENDENT)
    values = tl.load(places, mask=inside, eviction_policy=LOADS)
    tl.store(y + row * cols + columns, values, mask=inside, eviction_policy=STORES)
