"""How loads of a matrix larger than L2 ask to be cached.

What is read once and what is written pass through L2 together, and by default the oldest line
gives way, of either kind. If loads ask for `evict_last`, written lines give way first. On an H200 a
matrix of three times L2 and more then streams 2 to 4 % faster, a copy of it too. A smaller one
gains up to 2 % or loses up to 2 % by events, and gains up to 6 % in a CUDA graph; it is left alone
until somebody measures what that costs the next kernel, which reads the output. Why the hint helps
was not measured: presumably written lines leave for DRAM early and in order, instead of scattered
among the reads of other rows (docs/lab_book.md).
Source: PTX ISA, cache eviction priority hints.
"""

from __future__ import annotations

import torch

from kernels.device import Device, device_of

LARGE = 3  # times L2, from which on an input streams


def load_hint(x: torch.Tensor, keep: bool | None) -> str:
    """Triton's eviction policy for the loads of ``x``, ``"evict_last"`` or none.

    Args:
        x: The input.
        keep: Whether loads are to ask for it; None asks where the input is three times L2.
    """
    wanted = streams(x.numel() * x.element_size(), device_of(x)) if keep is None else keep
    return "evict_last" if wanted else ""


def streams(size: int, device: Device) -> bool:
    """Whether an input of ``size`` bytes is so much larger than L2 that it streams through it."""
    return device.l2_bytes is not None and size >= LARGE * device.l2_bytes
