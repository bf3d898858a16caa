"""Describes where this worker runs: the device, its state at a measurement, and the software."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.data.cards import ask_nvml
from experiments.data.jobs import ROOT

if TYPE_CHECKING:
    from kernels.device import Device


CODE = ("kernels", "experiments", "conf")  # folders that a measurement depends on

# Environment variables that change a kernel's time. None holds a path or a user's name.
VARIABLES = (
    *("CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_LAUNCH_BLOCKING", "CUDA_MODULE_LOADING"),
    *("NVIDIA_TF32_OVERRIDE", "OMP_NUM_THREADS", "PYTORCH_CUDA_ALLOC_CONF"),
    *("TORCHINDUCTOR_DYNAMIC_SCALE_RBLOCK", "TRITON_ALLOW_NON_CONSTEXPR_GLOBALS"),
    *("TRITON_DEFAULT_FP_FUSION", "TRITON_INTERPRET"),
)

CGROUP = Path("/sys/fs/cgroup")

# For each field the query to NVML (``nvmlDeviceGet…``) and its further arguments, the number of a
# clock or sensor. Clocks are in MHz, power in watts, temperatures in °C; a mode is 1 if it is on.
STATE: dict[str, tuple[Any, ...]] = {
    "sm_clock_mhz": ("ClockInfo", 1),
    "memory_clock_mhz": ("ClockInfo", 2),
    "power_w": ("PowerUsage",),
    "temperature_c": ("Temperature", 0),
}
SETUP: dict[str, tuple[Any, ...]] = {
    "power_limit_w": ("PowerManagementLimit",),
    "max_sm_clock_mhz": ("MaxClockInfo", 1),
    "max_memory_clock_mhz": ("MaxClockInfo", 2),
    "mig_mode": ("MigMode",),
    "ecc_mode": ("EccMode",),
}
# NVML's clock event reasons that slow a kernel down, by their bits. An idle card and a clock that
# an application has set are not among them: these are no faults.
SLOWDOWNS = {
    0x0000000000000004: "software power cap",
    0x0000000000000008: "hardware slowdown",
    0x0000000000000020: "software thermal slowdown",
    0x0000000000000040: "hardware thermal slowdown",
    0x0000000000000080: "hardware power brake",
}


@dataclass(frozen=True)
class Machine:
    """The device that a worker measures on, and its software."""

    torch_device: str  # cuda:0 or cpu
    device: Device  # what kernels may know of it
    environment: dict[str, Any]  # versions and settings, for ``environment`` of a row
    card: Any = None  # NVML's handle of the card; None on a CPU, or without NVML
    host_cards: int | None = None  # how many cards NVML shows on the host


def choose_device(asked: str) -> Machine:
    """Chooses a device: ``cuda``, ``cpu``, or ``auto`` (CUDA if there is a card, else the CPU).

    Without CUDA, kernels run under Triton's interpreter. Triton decides that when it decorates a
    kernel, so call this before any import of ``kernels``.

    Raises:
        RuntimeError: CUDA was asked for and there is none.
    """
    if asked == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    import torch

    cuda = asked != "cpu" and torch.cuda.is_available()
    if asked == "cuda" and not cuda:
        raise RuntimeError("there is no such CUDA device on this machine; use gpu=auto or gpu=cpu")
    if not cuda:
        os.environ["TRITON_INTERPRET"] = "1"
        # a pool of Inductor's compile processes takes seconds to start, and would compile one graph
        os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    from kernels.device import Device, cuda_device

    if cuda:
        torch.cuda.init()
        uuid = f"GPU-{torch.cuda.get_device_properties(0).uuid}"
        card = ask_nvml("DeviceGetHandleByUUID", uuid)
        # a hash that identifies the card and does not reveal its UUID
        mark = hashlib.sha256(uuid.encode()).hexdigest()[:8]
        settings = environment() | {"card": _facts(card, SETUP), "mark": mark}
        return Machine("cuda:0", cuda_device(0), settings, card, ask_nvml("DeviceGetCount"))
    cpu = Device(kind="cpu", name=_processor(), l2_bytes=_last_level_cache())
    return Machine("cpu", cpu, environment())


def environment() -> dict[str, Any]:
    """Versions, settings and commit; nothing that identifies the host or its user."""
    import torch

    return {
        "torch": torch.__version__,
        "triton": version_of("triton"),
        "cuda": torch.version.cuda,
        "driver": ask_nvml("SystemGetDriverVersion"),
        "python": platform.python_version(),
        "numpy": version_of("numpy"),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "threads": torch.get_num_threads(),
        "variables": {name: os.environ[name] for name in VARIABLES if name in os.environ},
        **commit(),
    }


def version_of(package: str) -> str | None:
    """The version of a distribution; None if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def commit(root: Path = ROOT) -> dict[str, Any]:
    """The checkout's ``commit``, and whether it is ``dirty``; both None without a repository.

    It is dirty if a file in the folders of `CODE` differs from the commit or is not tracked.
    """
    # without git's lock, which a killed worker would leave in the repository
    command = ["git", "--no-optional-locks", "-C", str(root), "status"]
    command += ["--porcelain=v2", "--branch", "--", *CODE]
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
        found = re.search(r"^# branch.oid (\w+)$", done.stdout, re.M)
        dirty = re.search(r"^[^#]", done.stdout, re.M) is not None
        return {"commit": found and found[1], "dirty": dirty}
    return {"commit": None, "dirty": None}


def _processor() -> str:
    with suppress(OSError):
        if found := re.search(r"^model name\s*: *(.+)$", Path("/proc/cpuinfo").read_text(), re.M):
            return found[1].strip()
    return platform.processor() or platform.machine()


def _last_level_cache() -> int:
    """Bytes of the largest cache that the system shows for the first core, but at least 32 MiB."""
    caches = Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")
    texts = [re.fullmatch(r"(\d+)([KM])\s*", path.read_text()) for path in caches]
    units = {"K": 1 << 10, "M": 1 << 20}
    return max([32 << 20, *(int(found[1]) * units[found[2]] for found in texts if found)])


def card_state(card: Any, workers: int = 1) -> dict[str, Any]:
    """The state of a card by its NVML handle: the fields of `STATE`, ``throttled`` (a list of
    `SLOWDOWNS`) and ``other_processes`` (the number of `foreign` compute processes on it).
    ``workers``: how many of the sweep's processes are on it, this one included.

    It takes about a millisecond, so do not call it inside a timed window.
    """
    bits = ask_nvml("DeviceGetCurrentClocksEventReasons", card)
    processes = ask_nvml("DeviceGetComputeRunningProcesses", card) or []
    pids = [int(process.pid) for process in processes]
    return _facts(card, STATE) | {
        "throttled": None if bits is None else [SLOWDOWNS[b] for b in SLOWDOWNS if bits & b],
        "other_processes": foreign(pids, os.getpid(), os.getppid(), parent, workers),
    }


def _facts(card: Any, names: Mapping[str, tuple[Any, ...]]) -> dict[str, Any]:
    """The fields of `STATE` or `SETUP` with their values; None for one that NVML does not give."""
    facts = {name: ask_nvml(f"DeviceGet{of}", card, *more) for name, (of, *more) in names.items()}
    for name, fact in facts.items():
        if isinstance(fact, list | tuple):  # the mode now, and the mode after a restart
            facts[name] = fact[0]
        elif name.endswith("_w") and fact is not None:  # NVML gives milliwatts
            facts[name] = fact * 1e-3
    return facts


def foreign(
    pids: Sequence[int], own: int, sweep: int, parent_of: Callable[[int], int | None], workers: int
) -> int | None:
    """The number of compute processes on a card that do not belong to this sweep.

    The driver lists ``pids``. Those that descend from the ``sweep``, which is the parent of this
    worker (``own``), belong to it. In a container the driver lists process ids of the host, without
    ``own``: then as many as the sweep has ``workers`` there are assumed to be these, and the others
    to be foreign. None if the driver lists no process.
    """

    def is_ours(pid: int | None) -> bool:
        return pid == sweep or (bool(pid) and is_ours(parent_of(pid or 0)))

    if own in pids:
        return sum(not is_ours(pid) for pid in set(pids))
    return max(len(set(pids)) - workers, 0) if pids else None


def parent(pid: int) -> int | None:
    """The id of a process's parent; None if the system does not show it."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # the program's name before it is in parentheses and may contain anything
    return int(status.rpartition(")")[2].split()[1])


def require_memory(size_bytes: int) -> None:
    """Checks that the host has this much memory free; call it before allocating.

    Linux overcommits memory, and then kills a process of its own choice, which may be the sweep.

    Raises:
        MemoryError: less is free, without swapping and within a container's limit.
    """
    free = float("inf")
    with suppress(OSError, IndexError):
        memory = Path("/proc/meminfo").read_text()
        free = int(memory.partition("MemAvailable:")[2].split()[0]) * 1024
    with suppress(OSError, ValueError):  # no container, or "max"
        limit, used = ((CGROUP / f"memory.{name}").read_text() for name in ("max", "current"))
        free = min(free, int(limit) - int(used))
    if size_bytes > free:
        wanted, left = size_bytes / 1e9, free / 1e9
        raise MemoryError(f"input and answer take {wanted:.3g} GB, and {left:.3g} GB are free")
