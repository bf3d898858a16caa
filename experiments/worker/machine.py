"""The state of the card around a measurement, through NVML where there is one, and free memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

CGROUP = Path("/sys/fs/cgroup")
SM_CLOCK, MEMORY_CLOCK, GPU_SENSOR = 1, 2, 0  # NVML's numbers of them

# NVML's clock event reasons that slow a kernel down, by the bit that reports them. Idle and
# application-set clocks are how the card was left, not a fault of the moment.
SLOWDOWNS = {
    0x0000000000000004: "software power cap",
    0x0000000000000008: "hardware slowdown",
    0x0000000000000020: "software thermal slowdown",
    0x0000000000000040: "hardware thermal slowdown",
    0x0000000000000080: "hardware power brake",
}


@dataclass(frozen=True)
class State:
    """Clocks in MHz, power in watts, temperature in °C, the reasons for any slowdown.

    ``other_processes`` counts the compute processes on the card that are not this sweep's.
    """

    sm_clock_mhz: float | None
    memory_clock_mhz: float | None
    power_w: float | None
    temperature_c: float | None
    throttled: list[str] | None
    other_processes: int | None


class Monitor:
    """Reads the state of one CUDA device; every field is None where NVML does not give it."""

    def __init__(self, uuid: str | None) -> None:
        self._card = None if uuid is None else ask_nvml("DeviceGetHandleByUUID", uuid)

    def read(self) -> State:
        """The state now. It takes about a millisecond, so never inside a timed window."""
        milliwatts = self._get("PowerUsage")
        bits = self._get("CurrentClocksEventReasons")
        pids = [int(process.pid) for process in self._get("ComputeRunningProcesses") or []]
        return State(
            sm_clock_mhz=self._get("ClockInfo", SM_CLOCK),
            memory_clock_mhz=self._get("ClockInfo", MEMORY_CLOCK),
            power_w=None if milliwatts is None else milliwatts * 1e-3,
            temperature_c=self._get("Temperature", GPU_SENSOR),
            throttled=None if bits is None else [SLOWDOWNS[bit] for bit in SLOWDOWNS if bits & bit],
            other_processes=foreign(pids, os.getpid(), os.getppid(), parent),
        )

    def setup(self) -> dict[str, Any]:
        """How the card was left by whoever runs it: what a repetition would have to set alike.

        Power in watts, clocks in MHz; a mode is 1 where it is on.
        """
        if self._card is None:
            return {}
        milliwatts = self._get("PowerManagementLimit")
        return {
            "driver_cuda": ask_nvml("SystemGetCudaDriverVersion"),
            "power_limit_w": None if milliwatts is None else milliwatts * 1e-3,
            "max_sm_clock_mhz": self._get("MaxClockInfo", SM_CLOCK),
            "max_memory_clock_mhz": self._get("MaxClockInfo", MEMORY_CLOCK),
            "persistence_mode": self._get("PersistenceMode"),
            "compute_mode": self._get("ComputeMode"),
            "mig_mode": (self._get("MigMode") or [None])[0],
            "ecc_mode": (self._get("EccMode") or [None])[0],
        }

    def _get(self, fact: str, *arguments: int) -> Any:
        if self._card is None:
            return None
        return ask_nvml(f"DeviceGet{fact}", self._card, *arguments)


@cache
def _nvml() -> Any:
    import pynvml

    pynvml.nvmlInit()
    return pynvml


def ask_nvml(fact: str, *arguments: Any) -> Any:
    """The answer of NVIDIA's management library, such as to ``DeviceGetCount``.

    None without the library, a driver or permission, and for a fact that the card does not give.
    """
    with suppress(Exception):
        return getattr(_nvml(), f"nvml{fact}")(*arguments)
    return None


def foreign(
    pids: Sequence[int], own: int, family: int, parent_of: Callable[[int], int | None]
) -> int | None:
    """The number of compute processes on a card that do not belong to this sweep.

    The sweep's are the descendants of its parent, ``family``. In a container the driver lists the
    host's process numbers, and none is this worker's ``own``: then one is taken for this worker and
    any other for a foreign one. None where the driver lists no process at all.
    """
    if not pids:
        return None
    if own not in pids:
        return len(set(pids)) - 1
    others = 0
    for pid in set(pids):
        ancestor: int | None = pid
        while ancestor and ancestor != family:
            ancestor = parent_of(ancestor)
        others += not ancestor
    return others


def parent(pid: int) -> int | None:
    """A process's parent, None where the system does not show it."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # the name before it stands in parentheses and may hold anything
    return int(status.rpartition(")")[2].split()[1])


def require(size_bytes: int) -> None:
    """Sees to it that the host has so many bytes left, before they are taken.

    Linux promises memory that it does not have. It then ends a process of its own choice, which may
    be the sweep and not the worker.

    Raises:
        MemoryError: it has fewer, without swapping and within a container's limit.
    """
    free = []
    with suppress(OSError, IndexError):
        memory = Path("/proc/meminfo").read_text()
        free.append(int(memory.partition("MemAvailable:")[2].split()[0]) * 1024)
    with suppress(OSError, ValueError):  # no container, or "max"
        limit, used = ((CGROUP / f"memory.{name}").read_text() for name in ("max", "current"))
        free.append(int(limit) - int(used))
    if free and size_bytes > min(free):
        wanted, left = size_bytes / 1e9, min(free) / 1e9
        raise MemoryError(f"input and answer take {wanted:.3g} GB, and {left:.3g} GB are free")
