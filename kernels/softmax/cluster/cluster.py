"""One row for a cluster of programs that keep it on chip and meet once: Gluon, sm_90 and up.

Passes: one; reads MN, writes MN: 2MN.
Idea: a row is cut into as many slices as its cluster has warps. A warp loads its slice straight
into registers, takes its maximum m and the sum d of exp(x − m) among its own lanes, and sends the
pair to all programs of the cluster (`mailbox`), its only word to the others. With everybody's pairs
it scales and stores. No reduction passes through a program's barrier; where the row is in registers
the wait for the letters is the only one, and other clusters' loads fill the memory meanwhile.
On chip: the row. A thread holds up to 64 float32 elements, or 128 of 16 bit, which stay packed (its
exponentials are computed twice: half the registers, so twice the warps in flight). What goes
beyond waits in shared memory, filled by asynchronous copies.
At the start: programs take their places while the kernel before ends (`kernels/dependent.py`).
At L2: what is read and written may ask to stay, by size (`kernels/residency.py`).
A row is covered by chunks, tiles [warps of the cluster, 32 lanes × one vector], as many as it
needs: any N, and only the last chunk is masked.
Source: this project; clusters for softmax after QuACK (Guo, Zadouri, Dao 2025), the warp-local
statistics after Milakov & Gimelshein 2018, arXiv 1805.02867.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy
import torch

from kernels.dependent import dependent, launch_option
from kernels.device import Device, device_of
from kernels.gluon import gl
from kernels.kernel import Kernel, Shape
from kernels.language import MOST_PROGRAMS
from kernels.launch import launch
from kernels.residency import load_hint, store_hint
from kernels.softmax.cluster.cut import Cut, cut
from kernels.softmax.cluster.program import _cluster
from kernels.softmax.operation import SOFTMAX
from kernels.softmax.tiles import empty_result
from kernels.traffic import M, N, Traffic
from kernels.tunables import check_flag, check_power_of_two
from kernels.vectors import vector, whole_vectors


@dataclass(frozen=True)
class Cluster(Kernel):
    """A cluster a row.

    Attributes:
        programs: Programs of a cluster, up to 16; None takes them by the row's bytes.
        num_warps: Warps a program; None likewise.
        keep: Whether loads ask L2 to keep them longest; None asks by size (`kernels.residency`).
        keep_output: Whether stores ask for it; None likewise.
        dependent: Whether programs are placed while the kernel before ends; None where the device
            can.
    """

    operation = SOFTMAX
    backend = "triton"

    programs: int | None = None
    num_warps: int | None = None
    keep: bool | None = None
    keep_output: bool | None = None
    dependent: bool | None = None

    def __post_init__(self) -> None:
        if self.programs is not None:
            check_power_of_two("programs", self.programs, 1, 16)
        if self.num_warps is not None:
            check_power_of_two("num_warps", self.num_warps, 1, 16)
        check_flag("keep", self.keep)
        check_flag("keep_output", self.keep_output)
        check_flag("dependent", self.dependent)

    def unsupported(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        """See `Kernel`."""
        if (reason := super().unsupported(shape, dtype, device)) is not None:
            return reason
        if gl is None or device.capability is None or device.capability < (9, 0):
            return "needs thread-block clusters: a CUDA device of sm_90 or newer, and Gluon"
        rows, cols = shape
        if rows * cols == 0:
            return None
        plan = self.plan(shape, dtype, whole_vectors(cols, dtype), device)
        if plan is None:
            return f"keeps a row in registers and shared memory of a cluster; {cols} do not fit"
        if plan.programs > most_programs(device):
            return f"a row of {cols} takes a cluster of {plan.programs}; {device.name} has fewer"
        if rows * plan.programs > MOST_PROGRAMS:
            return f"a launch takes {MOST_PROGRAMS} programs; here it is {plan.programs} a row"
        return None

    def plan(self, shape: Shape, dtype: torch.dtype, width: int, device: Device) -> Cut | None:
        """How a row is cut, or None where it does not fit on chip.

        Args:
            shape: Rows and columns, at least one of each.
            dtype: The elements'.
            width: Elements of the vectors that rows can be read by.
            device: Where it would run.
        """
        rows, cols = shape
        sms = device.sms or 1
        return cut((rows, cols), dtype.itemsize, width, sms, self.programs, self.num_warps)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """See `Kernel`.

        Raises:
            ValueError: the row does not fit on chip; strided columns fit less.
        """
        y = empty_result(x)
        if x.numel() > 0:
            rows, cols = x.shape
            width = vector(x)
            plan = self.plan((rows, cols), x.dtype, width, device_of(x))
            if plan is None:
                raise ValueError(f"cluster: {cols} elements read by {width} do not fit on chip")
            depends = dependent(device_of(x), self.dependent)
            launch(
                _cluster,
                (rows,),
                (x, y, cols // width, x.stride(0) // width, x.stride(1)),
                {
                    "CHUNKS": plan.chunks,
                    "SHARED": plan.shared,
                    "VECTOR": width,
                    "EVEN": cols == plan.chunks * plan.chunk,
                    "PACKED": plan.packed,
                    "LOADS": load_hint(x, self.keep),
                    "STORES": store_hint(x, self.keep_output),
                    "DEPENDENT": depends,
                },
                num_warps=plan.warps,
                num_ctas=plan.programs,
                **launch_option(depends),
            )
        return y

    def traffic(self) -> Traffic:
        """See `Kernel`."""
        return Traffic(reads=M * N, writes=M * N)

    def on_chip_elements(self) -> sympy.Expr:
        """See `Kernel`."""
        return N


def most_programs(device: Device) -> int:
    """Programs of the largest cluster: 16 on data-centre cards, 8 on all others of sm_90 and up."""
    assert device.capability is not None
    return 16 if device.capability[0] in (9, 10) else 8
