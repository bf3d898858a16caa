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
from typing import Annotated, Any

import torch
from typing_extensions import override

from ..device import Device, device_of, resident_programs
from ..kernel import Kernel, Shape, power_of_two, whole_number
from ..language import jit, next_power_of_two, tl
from ..traffic import M, N, Traffic
from .operation import SOFTMAX
from .tiles import empty_result, load_tile, store_tile, too_wide

INTERPRETED_PROGRAMS = 8  # few, so that the interpreter too takes a program over several rows
ROOMY_SHARED_BYTES = 200_000  # tutorial 02: four stages above this, two below
SCRATCH_BYTES = 1024  # for reductions across warps, beside the rows: an upper bound


@dataclass(frozen=True)
class Fused(Kernel):
    """Persistent programs, each holding one whole row at a time.

    Attributes:
        num_warps: Warps per program.
        num_stages: Depth of the pipeline of rows: one is computed, the others are in flight. None
            takes 4, or 2 if shared memory is short, and fewer if rows do not fit. A value that does
            not fit is launched anyway, and the card's refusal is the result.
    """

    operation = SOFTMAX
    backend = "triton"
    dtypes = (*Kernel.dtypes, torch.float64)
    moves = Traffic(reads=M * N, writes=M * N)
    on_chip = N

    num_warps: Annotated[int, power_of_two(1, 32)] = 8
    num_stages: Annotated[int | None, whole_number(1, 16)] = None

    @override
    def unsupported(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        """See `Kernel`; also rows wider than any Triton tile."""
        return super().unsupported(shape, dtype, device) or too_wide(shape)

    @override
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """See `Kernel`. It derives the launch at every call; `prepare` does so once."""
        return self.prepare(x)(x)

    def prepare(self, x: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
        """A launch for inputs like ``x``, with derived stages and number of programs."""
        if x.numel() == 0:
            return empty_result
        rows, cols = x.shape
        device = device_of(x)
        options = {
            "BLOCK": next_power_of_two(cols),
            "STAGES": self._stages(next_power_of_two(cols), x.dtype, device),
            "num_warps": self.num_warps,
        }

        def arguments(x: torch.Tensor, y: torch.Tensor) -> tuple[Any, ...]:
            return x, y, rows, cols, x.stride(0), x.stride(1)

        compiled = _fused.warmup(*arguments(x, empty_result(x)), **options, grid=(1,))
        programs = INTERPRETED_PROGRAMS
        if compiled is not None and device.sms is not None:
            compiled._init_handles()  # loads it, after which its registers are known
            shared = compiled.metadata.shared
            held = resident_programs(compiled.n_regs, self.num_warps, shared, device)
            programs = max(held, device.sms)
        programs = min(rows, programs)

        def launch(x: torch.Tensor) -> torch.Tensor:
            y = empty_result(x)
            _fused[(programs,)](*arguments(x, y), **options)
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
    cols: tl.tensor,
    row_stride: tl.tensor,
    col_stride: tl.tensor,
    BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
) -> None:
    STATISTICS: tl.constexpr = tl.float64 if x.dtype.element_ty == tl.float64 else tl.float32
    first = tl.program_id(0)
    step = tl.num_programs(0)
    for index in tl.range(first, rows, step, num_stages=STAGES):
        row = tl.cast(index, tl.int64)
        values = load_tile(x + row * row_stride, 0, cols, col_stride, BLOCK, STATISTICS, "")
        # Triton's maximum passes over NaN; it comes back through the sum
        exponentials = tl.exp(values - tl.max(values))
        store_tile(y + row * cols, 0, exponentials / tl.sum(exponentials), cols, BLOCK, "")
