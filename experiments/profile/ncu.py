"""Running Nsight Compute over a command: where it is, how it is called, what it complains of."""

from __future__ import annotations

import glob
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from experiments.child import ROOT
from experiments.errors import UserError
from experiments.profile.metrics import METRICS, REQUIRED
from experiments.profile.ncu_table import remarks, unknown_metrics

PLACES = ("/usr/local/cuda*/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu")
LIMIT_S = 3 * 3600.0
OPTIONS = (
    *("--target-processes", "all"),  # the worker is a child of what is called
    *("--profile-from-start", "off"),
    *("--replay-mode", "kernel"),
    *("--clock-control", "none"),  # a virtual machine may not set clocks; bytes do not depend on it
    *("--cache-control", "all"),  # every launch starts with empty caches
    "--nvtx",
    *("--csv", "--page", "raw", "--print-units", "base"),
)


def find_ncu(places: Sequence[str] = PLACES) -> str:
    """The ``ncu`` on PATH, else the newest of those installed where NVIDIA's packages put it.

    Raises:
        UserError: there is none.
    """
    on_path = shutil.which("ncu")
    if on_path:
        return on_path
    found = [path for place in places for path in glob.glob(place)]
    if not found:
        raise UserError(
            "ncu is neither on PATH nor below /usr/local/cuda* or /opt/nvidia/nsight-compute; "
            "install NVIDIA Nsight Compute (the CUDA toolkit holds it)"
        )
    return max(found, key=lambda path: [int(n) for n in re.findall(r"\d+", path)])


def version(ncu: str) -> str | None:
    """What it calls its own version, None where it does not say."""
    done = subprocess.run([ncu, "--version"], capture_output=True, text=True, timeout=60)
    found = re.search(r"Version (\d[\d.]*)", done.stdout)
    return found[1] if found else None


def run_ncu(ncu: str, command: Sequence[str], log: Path) -> int:
    """Profiles a command into ``log``, without the metrics that the card does not know.

    The command's own output goes where this process's goes.

    Returns:
        The exit status.

    Raises:
        UserError: counters are forbidden, a required metric is unknown, or it took too long.
    """
    metrics = list(METRICS)
    while True:
        log.unlink(missing_ok=True)
        options = [*OPTIONS, "--metrics", ",".join(metrics), "--log-file", str(log)]
        status = _run([ncu, *options, *command])
        said = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        complaints = " ".join(remarks(said))
        if "ERR_NVGPUCTRPERM" in complaints:
            raise UserError(
                "the driver keeps its counters from this user (ERR_NVGPUCTRPERM): run as root, or "
                "have the nvidia module loaded with NVreg_RestrictProfilingToAdminUsers=0"
            )
        unknown = unknown_metrics(said, metrics)
        if not unknown:
            return status
        for name in unknown:
            if name in REQUIRED:
                raise UserError(f"ncu does not know {name} on this card")
        print(f"this card has no {', '.join(unknown)}; once more without", flush=True)
        metrics = [name for name in metrics if name not in unknown]


def _run(command: Sequence[str]) -> int:
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    # one compiling process: ncu would have to follow each of Inductor's
    variables = {"PYTHONPATH": path, "LC_ALL": "C.UTF-8", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    process = subprocess.Popen(command, env=os.environ | variables, start_new_session=True)
    try:
        return process.wait(LIMIT_S)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)  # the workers die with their parent
        process.wait()
        if isinstance(error, subprocess.TimeoutExpired):
            raise UserError(f"ncu took more than {LIMIT_S / 3600:g} hours") from None
        raise
