"""Cooperative softmax: a row is split over several programs, and each slice stays in registers.

Passes: one; reads MN, writes MN: 2MN. A program reduces its slice to (m, d), its maximum and the
sum of its exponentials against it, and publishes the two; it collects those of the whole row,
combines them and scales what it holds. How they pass through L2 is told in `exchange`; they are
two words a program, which one launch hands to the next, and no part of the 2MN.
On chip: the row, N elements, spread over the registers of as many SMs as it takes, so that what
ends is the whole chip. Programs are persistent: groups of them, each of a row's width, share out
the rows, and while one group waits another, on the same SMs, loads.

It cannot hang. A program that waits keeps its place on the card, so that all for which it waits
must have one too: the launch is cooperative, and the driver refuses a grid that the card cannot
hold at once. All programs of a group take the same rows in the same order and publish a row's word
before they wait for another's; of all words not yet published, the first in that order has nobody
in its way, so one always comes. Should a word stay away against all this (memory overwritten from
elsewhere), the program traps after 2²⁶ polls. It does not go on: a lost context is an error that
says so, an invented answer is none.
Source: Milakov & Gimelshein 2018, arXiv 1805.02867, section 3.1, "parallel online normalizer
calculation"; co-residency as in NVIDIA's CUDA C++ Programming Guide, "Grid Synchronization".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sympy
import torch

from kernels.device import Device, device_of
from kernels.kernel import Kernel, Shape
from kernels.language import tl
from kernels.occupancy import resident_programs
from kernels.residency import load_hint, store_hint
from kernels.softmax.cooperative.program import _cooperative
from kernels.softmax.cooperative.slices import LARGEST_SLICE, LEAST_WARPS, Slices, slices_of
from kernels.softmax.operation import SOFTMAX
from kernels.softmax.tiles import empty_result
from kernels.traffic import M, N, Traffic
from kernels.tunables import check_choice, check_flag, check_power_of_two
from kernels.workspace import Workspaces

WHOLE = 16  # elements: what Triton asks of sizes and strides to load vectors
NOT_HERE = (
    "needs a CUDA device: its programs wait for one another, and Triton's interpreter "
    "runs each to its end before the next"
)


@dataclass(frozen=True)
class Cooperative(Kernel):
    """A group of persistent programs for a row, each holding a slice of it.

    Attributes:
        block_size: Elements of a slice; a row takes N / `block_size` programs, rounded up. None
            takes slices that spread the matrix over all SMs, from 1024 to 16384 elements.
        num_warps: Warps a program, at least 4; None takes 4, or 8 for slices of 8192 on.
        loads: When the next row's slice is asked for: ``"after"`` this row's is stored, or
            ``"before"`` this row's words are awaited, which keeps both slices in registers.
        keep: Whether loads ask L2 to keep them longest; None asks by size (`kernels.residency`).
        keep_output: Whether stores ask for it; None likewise.
    """

    operation = SOFTMAX
    backend = "triton"

    block_size: int | None = None
    num_warps: int | None = None
    loads: str = "after"
    keep: bool | None = None
    keep_output: bool | None = None

    def __post_init__(self) -> None:
        if self.block_size is not None:
            check_power_of_two("block_size", self.block_size, 1, LARGEST_SLICE)
        if self.num_warps is not None:
            check_power_of_two("num_warps", self.num_warps, LEAST_WARPS, 32)
        check_choice("loads", self.loads, ("after", "before"))
        check_flag("keep", self.keep)
        check_flag("keep_output", self.keep_output)

    def unsupported(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        """See `Kernel`; also a row that the registers of the whole device do not hold."""
        if tl is not None and device.kind != "cuda":
            return NOT_HERE
        reason = super().unsupported(shape, dtype, device)
        if reason is not None or 0 in shape or device.sms is None:
            return reason
        slices = self._slices(shape, True, device)
        held = slices.most_at_once(self._ahead, device)
        if slices.number > held:
            return (
                f"a row of {shape[1]} takes {slices.number} programs of {slices.block} elements "
                f"at once, and this device holds {held}"
            )
        return None

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """See `Kernel`. It derives the launch and zeroes words at every call, `prepare` once."""
        return self.prepare(x)(x)

    def prepare(self, x: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
        """A launch for inputs like ``x``, with words of its own for each stream it runs on.

        Raises:
            RuntimeError: on a launch that the device cannot hold at once.
        """
        if x.numel() == 0:
            return empty_result
        rows, cols = x.shape
        device = device_of(x)
        whole = cols % WHOLE == 0 and x.stride(0) % WHOLE == 0 and x.stride(1) == 1
        slices = self._slices((rows, cols), whole, device)
        options = {
            "SLOTS": slices.slots,
            "BLOCK": slices.block,
            "AHEAD": self._ahead,
            "LOADS": load_hint(x, self.keep),
            "STORES": store_hint(x, self.keep_output),
            "num_warps": slices.warps,
            "maxnreg": slices.registers(self._ahead, whole, device),
            "enable_fp_fusion": False,  # all threads of all programs are to sum alike
            "launch_cooperative_grid": True,
        }

        def arguments(x: torch.Tensor, y: torch.Tensor, words: torch.Tensor) -> tuple[Any, ...]:
            return x, y, words, rows, cols, x.stride(0), x.stride(1), slices.number

        some = torch.empty(1, dtype=torch.int64, device=x.device)
        compiled = _cooperative.warmup(*arguments(x, empty_result(x), some), **options, grid=(1,))
        compiled._init_handles()  # loads it, after which its registers are known
        held = resident_programs(compiled.n_regs, slices.warps, compiled.metadata.shared, device)
        # at least one group: were the count wrong, the driver would refuse the launch
        programs = slices.number * min(rows, max(held // slices.number, 1))
        words = Workspaces(2 * programs, x.device)

        def launch(x: torch.Tensor) -> torch.Tensor:
            y = empty_result(x)
            _cooperative[(programs,)](*arguments(x, y, words.current()), **options)
            return y

        return launch

    @property
    def _ahead(self) -> bool:
        return self.loads == "before"

    def _slices(self, shape: Shape, whole: bool, device: Device) -> Slices:
        rows, cols = shape
        return slices_of(rows, cols, device, whole, self._ahead, self.block_size, self.num_warps)

    def traffic(self) -> Traffic:
        """See `Kernel`."""
        return Traffic(reads=M * N, writes=M * N)

    def on_chip_elements(self) -> sympy.Expr:
        """See `Kernel`."""
        return N
