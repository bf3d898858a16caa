"""Cards by their limits, for which launches are planned without one at hand.

Sources: CUDA C++ Programming Guide, technical specifications per compute capability (registers,
shared memory, warps); NVIDIA's datasheets and architecture whitepapers (SMs, L2, memory).
"""

from __future__ import annotations

from kernels.device import Device

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


def _card(
    name: str,
    capability: tuple[int, int],
    sms: int,
    shared_kib: tuple[int, int],
    warps: int,
    l2_mib: int,
    memory_gib: int,
) -> Device:
    """``shared_kib`` is of an SM, and the most of a block."""
    an_sm, a_block = shared_kib
    return Device(
        kind="cuda",
        name=name,
        capability=capability,
        sms=sms,
        warp_size=32,
        registers_per_sm=65536,
        shared_bytes_per_sm=an_sm * KIB,
        shared_bytes_per_block=a_block * KIB,
        warps_per_sm=warps,
        l2_bytes=l2_mib * MIB,
        memory_bytes=memory_gib * GIB,
    )


CARDS = (
    _card("A100", (8, 0), 108, (164, 163), 64, 40, 80),
    _card("L40S", (8, 9), 142, (100, 99), 48, 96, 48),
    _card("RTX 4090", (8, 9), 128, (100, 99), 48, 72, 24),
    _card("RTX 5090", (12, 0), 170, (100, 99), 48, 96, 32),
    _card("H100 SXM", (9, 0), 132, (228, 227), 64, 50, 80),
    _card("H100 PCIe", (9, 0), 114, (228, 227), 64, 50, 80),
    _card("H200", (9, 0), 132, (228, 227), 64, 60, 141),
    _card("B200", (10, 0), 148, (228, 227), 64, 126, 180),
)
