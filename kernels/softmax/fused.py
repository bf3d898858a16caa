"""Fused softmax, persistent: as many programs as the device holds at once share out the rows.

Passes: one; reads MN, writes MN: 2MN. Each program strides over the rows and, while it works on
one, has the next on their way through shared memory.
On chip: the row, N elements padded to a power of two, once in registers and once in shared memory
for every row in flight. If shared memory holds none, a row is loaded straight to registers, which
may spill. No row is refused here for its size: the card decides whether it runs.
The number of programs is derived, not tuned: a warm-up compilation reports the registers and shared
memory of a program, and the device's limits give the number that fits an SM.
Source: Triton's tutorial 02, "Fused Softmax".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import torch
from typing_extensions import override

from ..device import Device, device_of, resident_programs
from ..kernel import Shape, power_of_two, whole_number
from ..language import jit, next_power_of_two, tl
from .tiles import Rows, TritonSoftmax, empty_result, load_tile, rows_of, store_tile, too_wide

INTERPRETED_PROGRAMS = 8  # few, so that the interpreter too takes a program over several rows
ROOMY_SHARED_BYTES = 200_000  # tutorial 02: four stages above this, two below
SCRATCH_BYTES = 1024  # for reductions across warps, beside the rows: an upper bound


@dataclass(frozen=True)
class Fused(TritonSoftmax):
    """Persistent programs, each holding one whole row at a time.

    Attributes:
        num_warps: Warps per program.
        num_stages: Depth of the pipeline of rows: one is computed, the others are in flight. None
            takes 4, or 2 if shared memory is short, and fewer if rows do not fit. A value that does
            not fit is launched anyway, and the card's refusal is the result.
    """

    num_warps: Annotated[int, power_of_two(1, 32)] = 8
    num_stages: Annotated[int | None, whole_number(1, 16)] = None

    @override
    def limits(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        """See `Kernel`: rows wider than any Triton tile."""
        return too_wide(shape)

    @override
    def into(self, x: torch.Tensor, y: torch.Tensor) -> None:
        """See `TritonSoftmax`. It derives the launch at every call; `prepare` does so once."""
        self.prepare(x)(x, y)

    @override
    def prepare(self, x: torch.Tensor) -> Callable[..., torch.Tensor]:
        """A launch for inputs like ``x``, with derived stages and number of programs."""
        if x.numel() == 0:
            return empty_result
        sizes, device = (len(x), rows_of(x)), device_of(x)
        block = next_power_of_two(x.shape[1])
        stages = self._stages(block, x.dtype, device)
        options = {"BLOCK": block, "STAGES": stages, "num_warps": self.num_warps}
        compiled = _fused.warmup(x, empty_result(x), *sizes, **options, grid=(1,))
        programs = INTERPRETED_PROGRAMS
        if compiled is not None and device.sms is not None:
            compiled._init_handles()  # loads it, after which its registers are known
            shared = compiled.metadata.shared
            held = resident_programs(compiled.n_regs, self.num_warps, shared, device)
            programs = max(held, device.sms)
        programs = min(len(x), programs)

        def launch(x: torch.Tensor, y: torch.Tensor | None = None) -> torch.Tensor:
            y = empty_result(x) if y is None else y
            _fused[(programs,)](x, y, *sizes, **options)
            return y

        return launch

    def _stages(self, block: int, dtype: torch.dtype, device: Device) -> int:
        room = device.shared_bytes_per_block
        if self.num_stages is not None or room is None:
            return self.num_stages or 2
        stages = 4 if room > ROOMY_SHARED_BYTES else 2
        # all rows of the pipeline but the one that is worked on, which has moved to registers
        rows = (room - SCRATCH_BYTES) // (block * dtype.itemsize)
        return max(1, min(stages, rows + 1))


@jit
def _fused(
    x: tl.tensor,
    y: tl.tensor,
    rows: tl.tensor,
    at: Rows,
    BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
) -> None:
    STATISTICS: tl.constexpr = tl.float64 if x.dtype.element_ty == tl.float64 else tl.float32
    first = tl.program_id(0)
    step = tl.num_programs(0)
    for index in tl.range(first, rows, step, num_stages=STAGES):
        row = tl.cast(index, tl.int64)
        values = load_tile(x + row * at.row_stride, 0, at, BLOCK, STATISTICS, "")
        # Triton's maximum passes over NaN; it comes back through the sum
        exponentials = tl.exp(values - tl.max(values))
        store_tile(y + row * at.cols, 0, exponentials / tl.sum(exponentials), at.cols, BLOCK, "")
