"""Fused softmax with a row held by a thread-block cluster, as the compiler makes it by itself.

It is the kernel of `fused_row`, unchanged, launched with `num_ctas`: Triton deals the row out to
the CTAs of a cluster, and from 3.8 on its maximum and sum cross them through distributed shared
memory. So it shows what ordinary reductions give for free, beside `cluster`, which writes the
exchange by hand.
Passes: one; reads MN, writes MN: 2MN.
On chip: the row, N elements padded to a power of two, spread over the registers of up to 16 SMs.
Source: the kernel as in `fused_row`; clusters as in NVIDIA's CUDA C++ Programming Guide, "Thread
Block Clusters", compute capability 9.0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

import torch
from typing_extensions import override

from ..device import Device
from ..kernel import Kernel, Shape, power_of_two
from ..language import next_power_of_two, triton_version
from ..traffic import M, N, Traffic
from .fused_row import whole_rows
from .operation import SOFTMAX
from .tiles import Accumulate, statistics_dtype, too_many_rows, too_wide

CLUSTERS_FROM = (9, 0)  # compute capability
REDUCES_FROM = (3, 8)  # Triton; in older ones a reduction across CTAs does not compile
MOST_CTAS = 16  # a cluster


@dataclass(frozen=True)
class ClusterReduce(Kernel):
    """One cluster a row, which it holds whole.

    Attributes:
        num_ctas: CTAs a cluster; None takes one for each 8192 elements, up to 16.
        num_warps: Warps a CTA; None takes 4, 8 from 4096 elements a CTA and 16 from 16384.
        accumulate: dtype of the statistics, ``"float32"`` or ``"float64"``.
    """

    operation = SOFTMAX
    backend = "triton"
    dtypes = (*Kernel.dtypes, torch.float64)
    moves = Traffic(reads=M * N, writes=M * N)
    on_chip = N

    num_ctas: Annotated[int | None, power_of_two(1, MOST_CTAS)] = None
    num_warps: Annotated[int | None, power_of_two(1, 32)] = None
    accumulate: Accumulate = "float32"

    @override
    def unsupported(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        """See `Kernel`; also a card or a Triton without clusters, and a row that none holds."""
        reason = super().unsupported(shape, dtype, device) or too_many_rows(shape)
        reason = reason or without_clusters(device) or too_wide(shape)
        if reason is not None:
            return reason
        block = next_power_of_two(shape[1])
        ctas, _ = self._cluster(block)
        registers = block * statistics_dtype(dtype, self.accumulate).itemsize // 4 // ctas
        if device.registers_per_sm is not None and registers > device.registers_per_sm:
            return (
                f"a row of {shape[1]} takes {registers} registers of each CTA of a cluster of "
                f"{ctas}, and an SM of this device has {device.registers_per_sm}"
            )
        return None

    @override
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        ctas, warps = self._cluster(next_power_of_two(x.shape[1]))
        return whole_rows(x, self.accumulate, num_warps=warps, num_ctas=ctas)

    def _cluster(self, block: int) -> tuple[int, int]:
        ctas = self.num_ctas or max(1, min(block // 8192, MOST_CTAS))
        held = block // ctas
        return ctas, self.num_warps or (16 if held >= 16384 else 8 if held >= 4096 else 4)


def without_clusters(device: Device) -> str | None:
    """Why no reduction crosses a cluster's CTAs there, or None where it does.

    Triton's interpreter takes a cluster for one program, and reduces it in any version.
    """
    if device.kind != "cuda":
        return None
    if device.capability is not None and device.capability < CLUSTERS_FROM:
        major, minor = device.capability
        return f"needs thread-block clusters, compute capability 9.0 or newer, not {major}.{minor}"
    version = triton_version()
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is None or (int(found[1]), int(found[2])) < REDUCES_FROM:
        return f"needs Triton 3.8 or newer, whose reductions cross a cluster, not {version}"
    return None
