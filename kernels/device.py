"""The limits of a device, and the number of programs that it holds at once."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import lru_cache
from struct import pack

import torch

REGISTER_STEP = 8  # a thread's registers are given out in such steps, to whole warps,
WARP_STEP = 4  # and an SM's four schedulers each have a quarter of the registers
SHARED_STEP = 128
SHARED_RESERVED = 1024  # bytes that the driver takes for itself in each block
PROGRAMS_PER_SM, CLUSTER_PROGRAMS_PER_SM = 32, 8  # at most; 8 of those that are of clusters

CLUSTERS_FROM, DATA_CENTRE = (9, 0), (9, 10)  # compute capability, and its first digit
CLUSTER_DIMENSION, NON_PORTABLE_CLUSTERS = 4, 14  # CUlaunchAttributeID, CUfunction_attribute
EMPTY_KERNEL = (
    b".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry empty() { ret; }\n\0"
)


@dataclass(frozen=True)
class Device:
    """The limits of a device that a variant needs before it launches.

    A limit is None where it does not apply (a CPU, Triton's interpreter).
    """

    kind: str  # "cuda" or "cpu"
    name: str  # the driver's, e.g. "NVIDIA H200"
    capability: tuple[int, int] | None = None  # CUDA's, e.g. (9, 0); None where it is not NVIDIA's
    sms: int | None = None  # streaming multiprocessors
    warp_size: int | None = None  # threads
    registers_per_sm: int | None = None  # of 32 bit
    shared_bytes_per_sm: int | None = None
    shared_bytes_per_block: int | None = None  # the most that a block may ask for
    warps_per_sm: int | None = None  # the most that are resident
    l2_bytes: int | None = None  # on a CPU of the last-level cache
    memory_bytes: int | None = None
    # Of 2, 4, 8 and 16 programs of one warp, as many as the driver keeps resident at once
    clusters: tuple[int, int, int, int] | None = None

    def at_least(self, capability: tuple[int, int]) -> bool:
        """Whether it is a CUDA device of this compute capability or a newer one."""
        return self.capability is not None and self.capability >= capability


@lru_cache
def cuda_device(index: int) -> Device:
    """The limits of CUDA device ``index`` of this process."""
    p = torch.cuda.get_device_properties(index)
    return Device(
        kind="cuda",
        name=p.name,
        capability=None if torch.version.hip else (p.major, p.minor),
        sms=p.multi_processor_count,
        warp_size=p.warp_size,
        registers_per_sm=p.regs_per_multiprocessor,  # type: ignore[attr-defined]
        shared_bytes_per_sm=p.shared_memory_per_multiprocessor,
        shared_bytes_per_block=p.shared_memory_per_block_optin,  # type: ignore[attr-defined]
        warps_per_sm=p.max_threads_per_multi_processor // p.warp_size,
        l2_bytes=p.L2_cache_size,
        memory_bytes=p.total_memory,
        clusters=_clusters(index) if (p.major, p.minor) >= CLUSTERS_FROM else None,
    )


def device_of(x: torch.Tensor) -> Device:
    """The device a tensor lies on."""
    if x.device.type == "cuda":
        return cuda_device(x.device.index or 0)
    return Device(kind=x.device.type, name=x.device.type)


def resident_programs(registers: int, warps: int, shared: int, device: Device) -> int:
    """Programs resident on the whole device; 0 where not even one fits an SM.

    A program has so many warps, ``registers`` in each thread, and ``shared`` bytes of memory.

    Raises:
        ValueError: the device is described without one of its limits.
    """
    a_warp = -(-max(registers, 1) // REGISTER_STEP) * REGISTER_STEP * known(device.warp_size)
    with_registers = known(device.registers_per_sm) // a_warp // WARP_STEP * WARP_STEP
    a_program = -(-(shared + SHARED_RESERVED) // SHARED_STEP) * SHARED_STEP
    an_sm = min(
        PROGRAMS_PER_SM,
        with_registers // warps,
        known(device.warps_per_sm) // warps,
        known(device.shared_bytes_per_sm) // a_program,
    )
    return known(device.sms) * an_sm


def largest_cluster(device: Device) -> int:
    """Programs of the largest cluster that a device launches; 0 where it has no clusters."""
    if device.capability is None or not device.at_least(CLUSTERS_FROM):
        return 0
    return 16 if device.capability[0] in DATA_CENTRE else 8


def resident_clusters(programs: int, device: Device) -> int:
    """Clusters of ``programs``, 2 to 16, of one warp each, resident on the whole device.

    Without an answer of the driver, the number that would fit if every SM could be used.
    """
    if device.clusters is None:
        return known(device.sms) * CLUSTER_PROGRAMS_PER_SM // programs
    return device.clusters[programs.bit_length() - 2]


def _clusters(index: int) -> tuple[int, int, int, int] | None:
    """The driver's count for an empty kernel; None where there is no driver.

    Source: CUDA driver API, ``cuOccupancyMaxActiveClusters``.
    """
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    module, function, counts = ctypes.c_void_p(), ctypes.c_void_p(), []
    with torch.cuda.device(index):
        torch.cuda.current_stream()  # makes the device's context
        if driver.cuModuleLoadData(ctypes.byref(module), EMPTY_KERNEL) != 0:
            return None
        driver.cuModuleGetFunction(ctypes.byref(function), module, b"empty")
        driver.cuFuncSetAttribute(function, NON_PORTABLE_CLUSTERS, 1)
        for programs in (2, 4, 8, 16):
            # CUlaunchAttribute, and a CUlaunchConfig with it: grid, block, shared bytes, stream
            size = (ctypes.c_uint * 18)(CLUSTER_DIMENSION, 0, programs, 1, 1)
            sizes = pack("7IPPI0P", programs, 1, 1, 32, 1, 1, 0, 0, ctypes.addressof(size), 1)
            count = ctypes.c_int(0)
            driver.cuOccupancyMaxActiveClusters(ctypes.byref(count), function, sizes)
            counts.append(count.value)
        driver.cuModuleUnload(module)
    two, four, eight, sixteen = counts
    return two, four, eight, sixteen


def known(limit: int | None) -> int:
    """A limit of a CUDA device.

    Raises:
        ValueError: the device is described without it.
    """
    if limit is None:
        raise ValueError("a CUDA device is described without one of its limits")
    return limit
