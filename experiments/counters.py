"""``python -m experiments.counters experiment=counters out=DIR``: what hardware counters saw.

It takes the arguments of ``experiments.run``, calls every point once under Nsight Compute, and
writes the sums over the counters of its launches into ``counters.jsonl`` below ``out``, in place of
its records of the same kernels, shapes and cards. ``ncu.csv`` beside it is ncu's own table.

ncu runs the whole command once for each of its passes (application replay) and touches no cache: a
launch finds in L2 what the launches before it in the same call left there, as in a program. The
worker empties L2 before the call. Replaying each kernel by itself would restore the memory that it
writes, and with it change the caches. All passes have to launch the same kernels, or ncu makes no
table: `VARIABLES` has compilers keep the choice of the first, and a kernel of which there is none
all the same has to be left out of ``kernel=``.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from experiments import child
from experiments.data.records import COUNTERS, Counters, Record, read_records, write_records
from experiments.errors import UserError, command
from experiments.profile import LIST, Profiled

# Metrics of compute capability 9.0; bytes of l1tex are bytes requested. Loads by TMA are counted
# apart from plain loads, and belong to them; loads by cp.async are among the plain ones.
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
SCALE = {"ns": 1e-3, "nsecond": 1e-3, "byte": 1.0, "%": 1.0, "": 1.0}  # base units to µs, B and %

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
RANGES = "Push/Pop_Range"
CACHE_CONTROL = "none, L2 flushed before the call"  # older records: all, before each launch
SHARED = set(Record.model_fields) | {"gpu", "model_reads", "model_writes"}


def collect(arguments: Sequence[str]) -> int:
    """Profiles what the arguments of ``experiments.run`` ask for, and records it.

    Returns:
        0 when every supported point that launches kernels has a record, else another status.

    Raises:
        UserError: ncu is missing, forbidden, or failed; nothing was recorded.
    """
    if shutil.which("ncu") is None:
        raise UserError("ncu is not on PATH; install NVIDIA Nsight Compute (CUDA's toolkit has it)")
    given = [argument.partition("=")[2] for argument in arguments if argument.startswith("out=")]
    out = Path(given[-1] if given else "outputs/counters")
    out.mkdir(parents=True, exist_ok=True)
    listed, log, path = out / LIST, out / "ncu.csv", out / COUNTERS
    listed.unlink(missing_ok=True)  # of an earlier run
    words = [sys.executable, "-m", "experiments.profile", *arguments, f"out={out}"]
    status, text = run_ncu(words, log)
    launches = read_launches(text)
    found = re.findall(r"^==ERROR==\s*(.+?)\s*$", text, re.M)
    wrong = [line for line in found if "application returned an error code" not in line]
    if wrong and launches.empty:
        raise UserError(f"ncu: {wrong[0]} (see {log})")
    if not listed.exists():
        return status  # a dry run, or the command itself has printed what is wrong
    kept = list(read_records(path, Counters)) if path.exists() else []
    points = {(r.gpu, r.kernel, r.rows, r.cols, r.dtype): r for r in kept}
    version = subprocess.run(["ncu", "--version"], capture_output=True, text=True, timeout=60)
    release = re.search(r"Version (\d[\d.]*)", version.stdout)
    about = {"ncu": release and release[1], "cache_control": CACHE_CONTROL}
    statuses = Counter[str]()
    for point in read_records(listed, Profiled):
        word: str = point.status
        if word == "ok":
            try:
                fields = summed(launches[launches["range"] == point.range])
                fields |= point.model_dump(include=SHARED)
                one = Counters(environment=point.environment | about, **fields)
                points[one.gpu, one.kernel, one.rows, one.cols, one.dtype] = one
                word = "recorded"
            except UserError as error:
                word = "without kernels"
                print(f"{point.range}: {error}; no record")
        statuses[word] += 1
    write_records(path, points.values())
    words = [f"{count} {word}" for word, count in statuses.items()]
    print(f"{statuses.total()} points: {', '.join(words)} -> {path}")
    for complaint in wrong:
        print(f"ncu: {complaint}", file=sys.stderr)
    return 1 if wrong or statuses["failed"] else 0


def run_ncu(words: Sequence[str], log: Path) -> tuple[int, str]:
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
        done = subprocess.run(["ncu", *options, *words], env=variables)
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
    """The launches in ncu's table, in order.

    The table is a header, a row of units, then a row per launch; ncu's remarks begin with ``==``.

    Returns:
        A column ``range``, the profiler range that a launch was in or NaN, and one for each of
        `METRICS` in µs, bytes or percent, NaN where a launch has no value.

    Raises:
        UserError: the table lacks its range column, or a metric has a unit unknown here.
    """
    lines = [line for line in text.splitlines() if line and not line.startswith("==")]
    if not lines:
        return pd.DataFrame(columns=["range", *METRICS])
    table = pd.read_csv(io.StringIO("\n".join(lines)), dtype=str)
    ranges = [column for column in map(str, table) if RANGES in column]
    if not ranges:
        raise UserError(f"ncu's table has no {RANGES} column; a newer ncu prints one")
    table = table.fillna("").reindex(columns=[ranges[0], *METRICS], fill_value="")
    units, table = table.iloc[0], table[1:]
    # 4711  "<default domain>:point 7 online 4096x1024 float32:none:none…"
    names = table[ranges[0]].str.extract(r'(point \d+ [^:"]*)')[0].str.strip()
    found = pd.DataFrame({"range": names})
    for name in METRICS:
        if units[name] not in SCALE:
            raise UserError(f"ncu gives {name} in {units[name]!r}, a unit unknown here")
        # 12,345.6, or 158 (0: 7; …) where instances follow, or n/a
        cells = table[name].str.partition("(")[0].str.replace(",", "")
        found[name] = pd.to_numeric(cells, errors="coerce") * SCALE[units[name]]
    return found


def summed(launches: pd.DataFrame) -> dict[str, Any]:
    """The measured fields of a `Counters` record of a call with these launches.

    Bytes and times add up; a path that the card does not know moves nothing. Shares of a peak are
    averaged by time, as each is a share of its own kernel's. A metric that some launch lacks is
    None or left out.

    Raises:
        UserError: there are no launches, or one lacks a required metric.
    """
    if launches.empty:
        raise UserError("ncu saw no kernel, as of a copy by the driver")
    complete = launches[list(METRICS)].dropna(axis="columns")
    if lacking := [name for name in REQUIRED if name not in complete]:
        raise UserError(f"ncu gave no {lacking[0]}")
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


if __name__ == "__main__":
    if {"-h", "--help"} & {*sys.argv}:
        print(__doc__)
    else:
        sys.exit(command(lambda: collect(sys.argv[1:])))
