"""The state of the card around a measurement, read through NVML where there is one."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

from experiments.worker.neighbours import strangers

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
    """Reads the state of one CUDA device; every field is None where NVML does not tell."""

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
        except Exception:  # NVML raises its own class for each fact that a card does not tell
            return None


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _reasons(bits: int | None) -> list[str] | None:
    return None if bits is None else [text for bit, text in SLOWDOWNS.items() if bits & bit]


def _others(found: list[Any] | None) -> int | None:
    return None if found is None else strangers([int(process.pid) for process in found])


def driver_version() -> str | None:
    """The NVIDIA driver's version, None without one."""
    try:
        import pynvml

        pynvml.nvmlInit()
        return str(pynvml.nvmlSystemGetDriverVersion())
    except Exception:  # no library, no driver or no permission: all mean there is none to name
        return None
