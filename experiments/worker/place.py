"""Where this worker runs: the device, what the kernels may know of it, and the software."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import re
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.child import ROOT
from experiments.worker.machine import Monitor, ask_nvml

if TYPE_CHECKING:
    from kernels.device import Device


CODE = ("kernels", "experiments", "conf")  # what a measurement depends on

# Switches of the libraries that change what a kernel costs. None holds a path or a name.
VARIABLES = (
    *("CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_LAUNCH_BLOCKING", "CUDA_MODULE_LOADING"),
    *("NVIDIA_TF32_OVERRIDE", "OMP_NUM_THREADS", "PYTORCH_CUDA_ALLOC_CONF"),
    *("TORCHINDUCTOR_DYNAMIC_SCALE_RBLOCK", "TRITON_ALLOW_NON_CONSTEXPR_GLOBALS"),
    *("TRITON_DEFAULT_FP_FUSION", "TRITON_INTERPRET"),
)


@dataclass(frozen=True)
class Place:
    """Where a worker measures.

    Attributes:
        torch_device: ``cuda:0`` or ``cpu``.
        device: What kernels may know of it.
        environment: Versions and settings, as rows have them.
        serial: The card's own number, None on a CPU.
        host_cards: The number of cards of the host.
    """

    torch_device: str
    device: Device
    environment: dict[str, Any]
    serial: str | None = None
    host_cards: int | None = None


def take_place(asked: str) -> Place:
    """Chooses a device: ``cuda``, ``cpu``, or ``auto`` (CUDA where there is one).

    Without CUDA the kernels are to run under Triton's interpreter, which Triton decides when it
    decorates them: nothing under ``kernels`` may have been imported before this.

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
        # Inductor's pool of compilers takes seconds to start, and one graph at a time is compiled
        os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    from kernels.device import Device, cuda_device

    if cuda:
        torch.cuda.init()
        uuid = f"GPU-{torch.cuda.get_device_properties(0).uuid}"
        # the same for the same card, and its serial cannot be found from it
        mark = hashlib.sha256(uuid.encode()).hexdigest()[:8]
        settings = environment() | {"card": Monitor(uuid).setup(), "mark": mark}
        return Place("cuda:0", cuda_device(0), settings, uuid, ask_nvml("DeviceGetCount"))
    cpu = Device(kind="cpu", name=_processor(), l2_bytes=_last_level_cache())
    return Place("cpu", cpu, environment())


def environment() -> dict[str, Any]:
    """Versions and commit, nothing about the host or its user."""
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
    """The version of an installed distribution, None where there is none of that name."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def commit(root: Path = ROOT) -> dict[str, Any]:
    """The checkout's ``commit``, and whether it is ``dirty``; both None without a repository.

    It is dirty if the commit is not the code that runs: a file of it differs, or is not tracked.
    """
    command = ["git", "-C", str(root), "status", "--porcelain=v2", "--branch", "--", *CODE]
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
        found = re.search(r"^# branch.oid (\w+)$", done.stdout, re.M)
        dirty = re.search(r"^[^#]", done.stdout, re.M) is not None
        return {"commit": found and found[1], "dirty": dirty}
    return {"commit": None, "dirty": None}


def _processor() -> str:
    with suppress(OSError):
        found = re.search(r"^model name\s*: *(.+)$", Path("/proc/cpuinfo").read_text(), re.M)
        if found:
            return found[1].strip()
    return platform.processor() or platform.machine()


def _last_level_cache() -> int:
    """Bytes of the largest cache the first core sees, 32 MiB where the system does not show it."""
    caches = Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")
    texts = [re.fullmatch(r"(\d+)([KM])\s*", path.read_text()) for path in caches]
    units = {"K": 1 << 10, "M": 1 << 20}
    return max([32 << 20, *(int(found[1]) * units[found[2]] for found in texts if found)])
