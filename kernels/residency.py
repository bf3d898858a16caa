"""What asks to stay in L2: the loads and stores of a matrix that is larger.

What is read once and what is written pass through L2 together, and by default the oldest line
gives way, of either kind. Loads and stores may ask for `evict_last`: such lines give way last. On
an H200 (docs/lab_book.md), by the bytes of the input:

- from once L2 on loads ask for it. A smaller matrix would take 0.3 to 0.6 µs less too, but leave L2
  full of an input that nobody reads again: who reads from L2 next waits 2 to 4 µs for DRAM.
- from once to eight times L2 stores ask too. The next kernel, which reads the output, finds more
  of it: both together take 1 to 4 % less. Of a larger output nothing stays, and a kernel by itself
  is up to 1 % faster if its stores do not ask.

Why the hints help a kernel by itself was not measured; no counter was read that would show it.
Source: PTX ISA, cache eviction priority hints.
"""

from __future__ import annotations

import torch

from kernels.device import device_of

LARGE, HUGE = 1, 8  # times L2
LAST = "evict_last"


def load_hint(x: torch.Tensor, keep: bool | None) -> str:
    """Triton's eviction policy for the loads of ``x``, ``"evict_last"`` or none.

    Args:
        x: The input.
        keep: Whether loads are to ask for it; None asks from once L2 on.
    """
    wanted = _times_l2(x) >= LARGE if keep is None else keep
    return LAST if wanted else ""


def store_hint(x: torch.Tensor, keep: bool | None) -> str:
    """Triton's eviction policy for the stores of an output as large as ``x``.

    Args:
        x: The input.
        keep: Whether stores are to ask for it; None asks from once to eight times L2.
    """
    wanted = LARGE <= _times_l2(x) < HUGE if keep is None else keep
    return LAST if wanted else ""


def _times_l2(x: torch.Tensor) -> float:
    """Bytes of a matrix over those of its device's L2, 0 where that is not known."""
    l2_bytes = device_of(x).l2_bytes
    return x.numel() * x.element_size() / l2_bytes if l2_bytes else 0.0
