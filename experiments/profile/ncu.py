"""Nsight Compute: how it is run over a command, what its table says, what a call's launches sum to.

Metric names are those of compute capability 9.0; ``l1tex__t_bytes`` are bytes requested. Loads by
TMA are counted apart from plain loads, and belong to them; loads by ``cp.async`` are among the
plain ones (an H200 shows exactly MN there for `fused`, which loads nothing in another way).

What ``ncu --nvtx --csv --page raw`` prints is a header, a row of units, then one row per launch,
with a column per metric; ncu's own remarks stand between them and begin with ``==``. The ranges
that a launch is in are one column: its name begins ``thread Domain:Push/Pop_Range``, its cells are
like ``4711  "<default domain>:NAME:none:none…"``.
"""

from __future__ import annotations

import csv
import glob
import math
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments import child
from experiments.errors import UserError

TIME = "gpu__time_duration.sum"
OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"
LSU = "l1tex__t_bytes_pipe_lsu_mem"
BYTES = {
    "dram_read_bytes": ("dram__bytes_read.sum",),
    "dram_write_bytes": ("dram__bytes_write.sum",),
    "l2_to_sm_bytes": ("l1tex__m_xbar2l1tex_read_bytes.sum",),
    "requested_load_bytes": (
        f"{LSU}_global_op_ld.sum",
        "l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld.sum",
    ),
    "requested_store_bytes": (
        f"{LSU}_global_op_st.sum",
        "l1tex__m_l1tex2xbar_write_bytes_mem_global_op_tma_st.sum",
    ),
    "local_load_bytes": (f"{LSU}_local_op_ld.sum",),
    "local_store_bytes": (f"{LSU}_local_op_st.sum",),
}
PIPES = {
    pipe: f"sm__inst_executed_pipe_{pipe}.avg.pct_of_peak_sustained_active"
    for pipe in ("xu", "fma", "alu", "lsu")  # xu takes the exponentials
}
METRICS = (TIME, *(name for names in BYTES.values() for name in names), OCCUPANCY, *PIPES.values())
REQUIRED = (TIME, *BYTES["dram_read_bytes"], *BYTES["dram_write_bytes"])  # no record without them

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
# To µs and bytes; ncu is asked for base units, and prints scaled ones where it does not know how.
SCALE = {
    **{"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6},
    **{"nsecond": 1e-3, "usecond": 1.0, "msecond": 1e3, "second": 1e6},
    **{"byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "Tbyte": 1e12},
    **{"B": 1.0, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12},
    "%": 1.0,
}
IDENTITY, KERNEL, RANGES = "ID", "Kernel Name", "Push/Pop_Range"


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


def run_ncu(ncu: str, command: Sequence[str], log: Path) -> tuple[int, str]:
    """Profiles a command into ``log``, without the metrics that the card does not know.

    The command's own output goes where this process's goes.

    Returns:
        The exit status, and what ncu wrote.

    Raises:
        UserError: counters are forbidden, a required metric is unknown, or it took too long.
    """
    metrics = list(METRICS)
    while True:
        log.unlink(missing_ok=True)
        options = [*OPTIONS, "--metrics", ",".join(metrics), "--log-file", str(log)]
        status = _run([ncu, *options, *command])
        text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        if "ERR_NVGPUCTRPERM" in " ".join(remarks(text)):
            raise UserError(
                "the driver keeps its counters from this user (ERR_NVGPUCTRPERM): run as root, or "
                "have the nvidia module loaded with NVreg_RestrictProfilingToAdminUsers=0"
            )
        unknown = unknown_metrics(text, metrics)
        if not unknown:
            return status, text
        for name in unknown:
            if name in REQUIRED:
                raise UserError(f"ncu does not know {name} on this card")
        print(f"this card has no {', '.join(unknown)}; once more without", flush=True)
        metrics = [name for name in metrics if name not in unknown]


def _run(command: Sequence[str]) -> int:
    # one compiling process: ncu would have to follow each of Inductor's
    variables = {"LC_ALL": "C.UTF-8", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    variables = child.environment(os.environ) | variables
    process = subprocess.Popen(command, env=variables, start_new_session=True)
    try:
        return process.wait(LIMIT_S)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)  # the workers die with their parent
        process.wait()
        if isinstance(error, subprocess.TimeoutExpired):
            raise UserError(f"ncu took more than {LIMIT_S / 3600:g} hours") from None
        raise


@dataclass(frozen=True)
class Launch:
    """One profiled kernel launch.

    Attributes:
        range: Name of the profiler range it was launched in, empty for none.
        values: By metric: µs, bytes or percent; a metric without a value is absent.
    """

    range: str
    values: dict[str, float] = field(default_factory=dict)


def read_launches(text: str) -> Iterator[Launch]:
    """The launches in ncu's output, in order.

    Raises:
        UserError: the table lacks its range column, or a metric has a unit unknown here.
    """
    header: list[str] = []
    units: list[str] = []
    for row in csv.reader(line for line in text.splitlines() if not line.startswith("==")):
        if KERNEL in row and IDENTITY in row:
            header, units = row, []
            if not any(RANGES in name for name in header):
                raise UserError(f"ncu's table has no {RANGES} column; a newer ncu prints one")
        elif not header or len(row) != len(header):
            continue
        elif not row[header.index(IDENTITY)]:
            units = row
        else:
            yield _launch(header, units or [""] * len(header), row)


def remarks(text: str) -> list[str]:
    """What ncu itself says is wrong, one line each."""
    found = re.findall(r"^==ERROR==\s*(.+?)\s*$", text, re.M)
    return [line for line in found if "application returned an error code" not in line]


def unknown_metrics(text: str, asked: Sequence[str]) -> list[str]:
    """Those of the metrics asked for that ncu does not know on this card.

    It names them as patterns, e.g. ``Failed to find metric regex:^sm__this.(sum|…)$``.
    """
    complaints = re.findall(r"Failed to find metric\w* (.+)", text)
    plain = [complaint.replace("\\", "") for complaint in complaints]
    full = [name for name in asked if any(name in line for line in plain)]
    if full:
        return full
    bases = [re.sub(r"^regex:\^?", "", line).partition(".")[0].strip("\"'") for line in plain]
    return [name for name in asked if name.partition(".")[0] in bases]


def _launch(header: Sequence[str], units: Sequence[str], row: Sequence[str]) -> Launch:
    ranges, values = "", {}
    for name, unit, cell in zip(header, units, row, strict=True):
        if RANGES in name:
            found = re.search(r"(point \d+ [^:\"]*)", cell)
            ranges = found[1].strip() if found else ""
        elif name in METRICS and (value := _number(cell)) is not None:
            if unit and unit not in SCALE:
                raise UserError(f"ncu gives {name} in {unit!r}, a unit unknown here")
            values[name] = value * SCALE.get(unit, 1.0)
    return Launch(ranges, values)


def _number(cell: str) -> float | None:
    """A cell's number: ``12,345.6``, or ``158 (0: 7; …)`` where instances follow."""
    try:
        value = float(cell.partition("(")[0].replace(",", ""))
    except ValueError:  # n/a
        return None
    return value if math.isfinite(value) else None


def summed(launches: Sequence[Launch]) -> dict[str, Any]:
    """The measured fields of a `Counters` record of a call with these launches.

    Bytes and times add up; shares of a peak are averaged by time, as each is a share of its own
    kernel's. A metric that some launch lacks is None or left out.

    Raises:
        UserError: a launch lacks a required metric.
    """
    for name in REQUIRED:
        if not _on_all(launches, name):
            raise UserError(f"ncu gave no {name}")
    shares = {pipe: _weighted(launches, name) for pipe, name in PIPES.items()}
    return {
        "launches": len(launches),
        "kernel_us": sum(launch.values[TIME] for launch in launches),
        **{kept: _total(launches, names) for kept, names in BYTES.items()},
        "occupancy_percent": _weighted(launches, OCCUPANCY),
        "pipes_percent": {pipe: share for pipe, share in shares.items() if share is not None},
    }


def _on_all(launches: Sequence[Launch], name: str) -> bool:
    return all(name in launch.values for launch in launches)


def _total(launches: Sequence[Launch], names: Sequence[str]) -> int | None:
    """Over all launches and paths; a path that the card does not know moves nothing."""
    known = [name for name in names if _on_all(launches, name)]
    if names[0] not in known:
        return None
    return round(sum(launch.values[name] for launch in launches for name in known))


def _weighted(launches: Sequence[Launch], name: str) -> float | None:
    duration = sum(launch.values[TIME] for launch in launches)
    if not duration or not _on_all(launches, name):
        return None
    total = sum(launch.values[TIME] * launch.values[name] for launch in launches)
    return round(total / duration, 4)
