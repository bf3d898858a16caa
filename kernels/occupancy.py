"""How many programs of a compiled kernel a device holds at once, by its registers and warps."""

from __future__ import annotations

from kernels.device import Device

REGISTER_STEP = 8  # a thread's registers are given out in such steps, to whole warps,
WARP_STEP = 4  # and an SM's four schedulers each have a quarter of the registers
SHARED_STEP = 128
SHARED_RESERVED = 1024  # bytes that the driver takes for itself in each block


def resident_programs(registers: int, warps: int, shared: int, device: Device) -> int:
    """Programs resident on the whole device, none where not even one fits an SM.

    Args:
        registers: Of a thread.
        warps: Of a program.
        shared: Of a program, bytes.
        device: A CUDA device.

    Raises:
        ValueError: the device is described without one of its limits.
    """
    a_warp = -(-max(registers, 1) // REGISTER_STEP) * REGISTER_STEP * known(device.warp_size)
    with_registers = known(device.registers_per_sm) // a_warp // WARP_STEP * WARP_STEP
    a_program = -(-(shared + SHARED_RESERVED) // SHARED_STEP) * SHARED_STEP
    an_sm = min(
        with_registers // warps,
        known(device.warps_per_sm) // warps,
        known(device.shared_bytes_per_sm) // a_program,
    )
    return known(device.sms) * an_sm


def known(limit: int | None) -> int:
    """A limit of a CUDA device.

    Raises:
        ValueError: the device is described without it.
    """
    if limit is None:
        raise ValueError("a CUDA device is described without one of its limits")
    return limit
