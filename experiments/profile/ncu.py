"""Nsight Compute: running it over a command, reading its table, summing a call's launches.

Metric names are those of compute capability 9.0; ``l1tex__t_bytes`` are bytes requested. Loads by
TMA are counted apart from plain loads, and belong to them; loads by ``cp.async`` are among the
plain ones (an H200 shows exactly MN there for `fused`, which loads nothing in another way).

ncu runs the command once for each of its passes (application replay) and touches no cache: a launch
finds in L2 what the launches before it in the same call left there, as it does in a program. Before
the call the worker empties L2 itself. To replay each kernel by itself would restore the memory that
it writes in between, and either empty the caches before each pass or leave there what the pass
before had read.

All passes have to launch the same kernels, or ncu gives no table at all. So what compiles by timing
candidates has to keep its choice in a file (`VARIABLES`).

What ``ncu --nvtx --csv --page raw`` prints is a header, a row of units, then one row per launch,
with a column per metric; ncu's own remarks stand between them and begin with ``==``. The ranges
that a launch is in are one column: its name begins ``thread Domain:Push/Pop_Range``, its cells are
like ``4711  "<default domain>:NAME:none:none…"``.
"""

from __future__ import annotations

import glob
import io
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

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
OPTIONS = (
    *("--target-processes", "all"),  # the worker is a child of the command
    *("--profile-from-start", "off"),
    *("--replay-mode", "application"),
    *("--clock-control", "none"),  # a virtual machine may not set clocks; bytes do not depend on it
    *("--cache-control", "none"),  # the worker flushes L2 before each call
    "--nvtx",
    *("--csv", "--page", "raw", "--print-units", "base"),
)
VARIABLES = {
    "LC_ALL": "C.UTF-8",
    "TORCHINDUCTOR_COMPILE_THREADS": "1",  # or ncu would have to follow each compiling process
    # Inductor times a reduction's block and its half against each other in every process, and
    # keeps the faster nowhere (https://github.com/pytorch/pytorch/issues/189121)
    "TORCHINDUCTOR_DYNAMIC_SCALE_RBLOCK": "0",
    "TRITON_CACHE_AUTOTUNING": "1",
}
# To µs, bytes and percent, from the base units that ncu is asked for, as its versions spell them
SCALE = {"ns": 1e-3, "nsecond": 1e-3, "us": 1.0, "usecond": 1.0, "byte": 1.0, "%": 1.0, "": 1.0}
RANGES = "Push/Pop_Range"


def find_ncu(places: Sequence[str] = PLACES) -> str:
    """The ``ncu`` on PATH, else the newest of those installed where NVIDIA's packages put it.

    Raises:
        UserError: there is none.
    """
    found = [path for place in places for path in glob.glob(place)]
    newest = max(found, key=lambda path: [int(n) for n in re.findall(r"\d+", path)], default=None)
    if path := shutil.which("ncu") or newest:
        return path
    raise UserError(
        "ncu is neither on PATH nor below /usr/local/cuda* or /opt/nvidia/nsight-compute; "
        "install NVIDIA Nsight Compute (the CUDA toolkit holds it)"
    )


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
        UserError: counters are forbidden, or a required metric is unknown.
    """
    metrics, variables = list(METRICS), child.environment(os.environ) | VARIABLES
    while True:
        log.unlink(missing_ok=True)
        options = [*OPTIONS, "--metrics", ",".join(metrics), "--log-file", str(log)]
        done = subprocess.run([ncu, *options, *command], env=variables)
        text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        if "ERR_NVGPUCTRPERM" in text:
            raise UserError(
                "the driver keeps its counters from this user (ERR_NVGPUCTRPERM): run as root, or "
                "have the nvidia module loaded with NVreg_RestrictProfilingToAdminUsers=0"
            )
        # ncu names them as patterns: Failed to find metric regex:^sm__this.(sum|…)$
        complaints = "\n".join(re.findall(r"Failed to find metric\w* (.+)", text))
        unknown = [m for m in metrics if re.search(rf"\b{m.partition('.')[0]}\b", complaints)]
        if not unknown:
            return done.returncode, text
        if required := [name for name in unknown if name in REQUIRED]:
            raise UserError(f"ncu does not know {required[0]} on this card")
        print(f"this card has no {', '.join(unknown)}; once more without", flush=True)
        metrics = [name for name in metrics if name not in unknown]


def read_launches(text: str) -> pd.DataFrame:
    """The launches in ncu's output, in order.

    Returns:
        A column ``range``, the profiler range that a launch was in or an empty text, and one for
        each of `METRICS` in µs, bytes or percent, NaN where a launch has no value.

    Raises:
        UserError: the table lacks its range column, or a metric has a unit unknown here.
    """
    lines = [line for line in text.splitlines() if line and not line.startswith("==")]
    if not lines:
        return pd.DataFrame(columns=["range", *METRICS])
    table = pd.read_csv(io.StringIO("\n".join(lines)), dtype=str)
    ranges = next((column for column in map(str, table) if RANGES in column), None)
    if ranges is None:
        raise UserError(f"ncu's table has no {RANGES} column; a newer ncu prints one")
    table = table.fillna("").reindex(columns=[ranges, *METRICS], fill_value="")
    units, table = table.iloc[0], table[1:]
    names = table[ranges].str.extract(r'(point \d+ [^:"]*)')[0].str.strip()
    found = pd.DataFrame({"range": names.fillna("")})
    for name in METRICS:
        if units[name] not in SCALE:
            raise UserError(f"ncu gives {name} in {units[name]!r}, a unit unknown here")
        # 12,345.6, or 158 (0: 7; …) where instances follow, or n/a
        cells = table[name].str.partition("(")[0].str.replace(",", "")
        found[name] = pd.to_numeric(cells, errors="coerce") * SCALE[units[name]]
    return found


def remarks(text: str) -> list[str]:
    """What ncu itself says is wrong, one line each."""
    found = re.findall(r"^==ERROR==\s*(.+?)\s*$", text, re.M)
    return [line for line in found if "application returned an error code" not in line]


def summed(launches: pd.DataFrame) -> dict[str, Any]:
    """The measured fields of a `Counters` record of a call with these launches.

    Bytes and times add up; a path that the card does not know moves nothing. Shares of a peak are
    averaged by time, as each is a share of its own kernel's. A metric that some launch lacks is
    None or left out.

    Raises:
        UserError: a launch lacks a required metric.
    """
    complete = launches[list(METRICS)].dropna(axis="columns")
    for name in REQUIRED:
        if name not in complete:
            raise UserError(f"ncu gave no {name}")
    sums = complete.sum()
    weighted = complete.mul(complete[TIME], axis="index").sum() / sums[TIME]
    shares = {name: round(float(share), 4) for name, share in weighted.dropna().items()}
    return {
        "launches": len(launches),
        "kernel_us": float(sums[TIME]),
        **{
            kept: round(float(sums.reindex(names).sum())) if names[0] in sums else None
            for kept, names in BYTES.items()
        },
        "occupancy_percent": shares.get(OCCUPANCY),
        "pipes_percent": {pipe: shares[name] for pipe, name in PIPES.items() if name in shares},
    }
