"""The state of the card around a measurement, through NVML where there is one, and free memory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CGROUP = Path("/sys/fs/cgroup")

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

    sm_clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    throttled: list[str] | None = None
    other_processes: int | None = None


class Monitor:
    """Reads the state of one CUDA device; every field is None where NVML does not give it."""

    def __init__(self, uuid: str | None) -> None:
        self._nvml: Any = None
        self._handle: Any = None
        if uuid is None:
            return
        with contextlib.suppress(Exception):
            import pynvml

            pynvml.nvmlInit()
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
            self._nvml = pynvml

    def read(self) -> State:
        """The state now. It takes about a millisecond, so never inside a timed window."""
        nvml = self._nvml
        if nvml is None:
            return State()
        return State(
            sm_clock_mhz=self._ask(nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_SM),
            memory_clock_mhz=self._ask(nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_MEM),
            power_w=_scaled(self._ask(nvml.nvmlDeviceGetPowerUsage), 1e-3),
            temperature_c=self._ask(nvml.nvmlDeviceGetTemperature, nvml.NVML_TEMPERATURE_GPU),
            throttled=_reasons(self._ask(nvml.nvmlDeviceGetCurrentClocksEventReasons)),
            other_processes=_others(self._ask(nvml.nvmlDeviceGetComputeRunningProcesses)),
        )

    def setup(self) -> dict[str, Any]:
        """How the card was left by whoever runs it: what a repetition would have to set alike.

        Power in watts, clocks in MHz; a mode is 1 where it is on.
        """
        nvml = self._nvml
        if nvml is None:
            return {}
        mig, ecc = self._ask(nvml.nvmlDeviceGetMigMode), self._ask(nvml.nvmlDeviceGetEccMode)
        return {
            "driver_cuda": self._without_card(nvml.nvmlSystemGetCudaDriverVersion),
            "power_limit_w": _scaled(self._ask(nvml.nvmlDeviceGetPowerManagementLimit), 1e-3),
            "max_sm_clock_mhz": self._ask(nvml.nvmlDeviceGetMaxClockInfo, nvml.NVML_CLOCK_SM),
            "max_memory_clock_mhz": self._ask(nvml.nvmlDeviceGetMaxClockInfo, nvml.NVML_CLOCK_MEM),
            "persistence_mode": self._ask(nvml.nvmlDeviceGetPersistenceMode),
            "compute_mode": self._ask(nvml.nvmlDeviceGetComputeMode),
            "mig_mode": None if mig is None else mig[0],
            "ecc_mode": None if ecc is None else ecc[0],
        }

    def _without_card(self, question: Any) -> Any:
        with contextlib.suppress(Exception):
            return question()
        return None

    def _ask(self, question: Any, *arguments: Any) -> Any:
        try:
            return question(self._handle, *arguments)
        except Exception:  # NVML raises its own class for each fact that a card does not give
            return None


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _reasons(bits: int | None) -> list[str] | None:
    return None if bits is None else [text for bit, text in SLOWDOWNS.items() if bits & bit]


def _others(found: list[Any] | None) -> int | None:
    pids = [int(process.pid) for process in found or []]
    return foreign(pids, os.getpid(), os.getppid(), parent)


def driver_version() -> str | None:
    """The NVIDIA driver's version, None without one."""
    try:
        import pynvml

        pynvml.nvmlInit()
        return str(pynvml.nvmlSystemGetDriverVersion())
    except Exception:  # no library, no driver or no permission: there is no driver to name
        return None


def foreign(
    pids: Sequence[int], own: int, family: int, parent_of: Callable[[int], int | None]
) -> int | None:
    """How many of the compute processes on a card do not belong to this sweep.

    The sweep's are its parent's descendants: this worker, its children, and workers beside it.

    In a container the driver lists the host's numbers of processes, and none of them is this
    worker's own. One of them is then taken for this worker and any other for a foreign one, a
    second worker of the same sweep on the card included. In some containers it lists none at all.

    Args:
        pids: As the driver lists them.
        own: This worker's number.
        family: Its parent's.
        parent_of: How to find a process's parent.

    Returns:
        The count, None where the driver lists not even this worker.
    """
    if not pids:
        return None
    if own not in pids:
        return len(set(pids)) - 1
    return sum(not _descends(pid, family, parent_of) for pid in set(pids))


def _descends(pid: int, family: int, parent_of: Callable[[int], int | None]) -> bool:
    known: int | None = pid
    while known is not None and known > 0:
        if known == family:
            return True
        known = parent_of(known)
    return False


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
        MemoryError: it has fewer.
    """
    free = available()
    if free is not None and size_bytes > free:
        raise MemoryError(
            f"input and answer take {size_bytes / 1e9:.3g} GB, and {free / 1e9:.3g} GB are free"
        )


def available() -> int | None:
    """Bytes free without swapping, within a container's limit; None where neither is known."""
    found = [_of_machine(), _of_container()]
    return min((size for size in found if size is not None), default=None)


def _of_machine() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return None


def _of_container() -> int | None:
    try:
        limit, used = ((CGROUP / f"memory.{name}").read_text() for name in ("max", "current"))
        return int(limit) - int(used)
    except (OSError, ValueError):  # none, or "max"
        return None
