"""``python -m experiments.counters experiment=counters out=DIR``: what hardware counters saw.

It takes the arguments of ``experiments.run``, calls every point once under Nsight Compute, and
writes each point's counters, summed over its launches, into ``out/counters.jsonl``. A new record
replaces one of the same kernel, shape, dtype and card. ``ncu.csv`` beside it is ncu's own table.
For any other metric run ncu itself over ``python -m experiments.profile``.

ncu runs the whole command once per pass (application replay) and leaves the caches alone, so a
launch finds in L2 what earlier launches of the same call left there, as in a program. The worker
flushes L2 before the call. Replaying single kernels would restore the memory that they write, and
that would change the caches. All passes must launch the same kernels, or ncu makes no table:
`VARIABLES` makes compilers repeat the choice of the first pass. A kernel whose passes still
differ must be left out of ``kernel=``.
"""

import glob
import io
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from experiments.data.errors import UserError, command
from experiments.data.files import read_models
from experiments.data.records import Counters, write_records
from experiments.data.rows import COUNTERS, read_rows
from experiments.parent.client import child_environment
from experiments.profile import LIST

METRICS = {  # for each field of `Counters`, ncu's metric
    "kernel_us": "gpu__time_duration.sum",
    "dram_read_bytes": "dram__bytes_read.sum",
    "dram_write_bytes": "dram__bytes_write.sum",
    "l2_to_sm_bytes": "l1tex__m_xbar2l1tex_read_bytes.sum",
}
OPTIONS = (
    *("--target-processes", "all"),  # the worker is a child of the command
    *("--profile-from-start", "off"),
    *("--replay-mode", "application"),
    *("--clock-control", "none"),  # a virtual machine may not set clocks, and bytes do not need it
    *("--cache-control", "none"),  # the worker flushes L2 before each call
    "--nvtx",
    *("--csv", "--page", "raw", "--print-units", "base"),
    *("--metrics", ",".join(METRICS.values())),
)
VARIABLES = {
    "LC_ALL": "C.UTF-8",
    "TORCHINDUCTOR_COMPILE_THREADS": "1",  # otherwise ncu would follow each compile process
    # Inductor times a reduction with a block size and with half of it, again in each process: it
    # does not store which is faster (https://github.com/pytorch/pytorch/issues/189121)
    "TORCHINDUCTOR_DYNAMIC_SCALE_RBLOCK": "0",
    "TRITON_CACHE_AUTOTUNING": "1",
}
RANGES = "Push/Pop_Range"  # in the name of the column of NVTX ranges
CACHE_CONTROL = "none, L2 flushed before the call"  # in older records "all": before each launch


def collect_counters(arguments: Sequence[str]) -> int:
    """Profiles what the arguments of ``experiments.run`` ask for, and records it.

    Returns:
        0 if every supported point that launches kernels has a record, otherwise another status.

    Raises:
        UserError: ncu is missing, forbidden, or failed; nothing was recorded.
    """
    if (ncu := find_ncu()) is None:
        raise UserError(
            "ncu is neither on PATH nor below /usr/local/cuda*/bin; install NVIDIA Nsight Compute "
            "(CUDA's toolkit has it)"
        )
    given = [argument.partition("=")[2] for argument in arguments if argument.startswith("out=")]
    out = Path(given[-1] if given else "outputs/counters")
    out.mkdir(parents=True, exist_ok=True)
    listed, log, path = out / LIST, out / "ncu.csv", out / COUNTERS
    for file in (listed, log):  # of an earlier run
        file.unlink(missing_ok=True)
    asked = [sys.executable, "-m", "experiments.profile", *arguments, f"out={out}"]
    variables = child_environment(os.environ) | VARIABLES
    status = subprocess.run([ncu, *OPTIONS, "--log-file", log, *asked], env=variables).returncode
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    launches, wrong = read_launches(text), errors_in(text)
    if wrong and launches.empty:
        raise UserError(f"ncu: {wrong[0]} (see {log})")
    if not listed.exists():
        return status  # a dry run, or the command itself has printed what is wrong
    version = subprocess.run([ncu, "--version"], capture_output=True, text=True, timeout=60)
    release = re.search(r"Version (\d[\d.]*)", version.stdout)
    about = {"ncu": release and release[1], "cache_control": CACHE_CONTROL}
    points = {_identity(one): one for one in read_models(path, Counters)} if path.exists() else {}
    statuses = Counter[str]()
    for point in read_rows(listed):
        name, word = point.environment["range"], str(point.status if point.expected else "failed")
        mine = launches.loc[launches["range"] == name, [*METRICS]]
        if word == "ok" and (mine.empty or mine.isna().any(axis=None)):
            word = "without kernels"
            print(f"{name}: ncu saw no kernel, as of a copy by the driver; no record")
        elif word == "ok":
            word, sums = "recorded", mine.sum()
            sizes = sums.drop("kernel_us").round().astype(int)
            of_row = point.model_dump(include={*Counters.model_fields})
            fields = of_row | sums.to_dict() | sizes.to_dict() | {"launches": len(mine)}
            fields["source"] = point.environment["source"]
            fields["environment"] = point.environment | about
            one = Counters.model_validate(fields)
            points[_identity(one)] = one
        statuses[word] += 1
    write_records(path, points.values())
    words = [f"{count} {word}" for word, count in statuses.items()]
    print(f"{statuses.total()} points: {', '.join(words)} -> {path}")
    for complaint in wrong:
        print(f"ncu: {complaint}", file=sys.stderr)
    return 1 if wrong or statuses["failed"] else status  # of a run that ended before its last point


def _identity(one: Counters) -> tuple[object, ...]:
    return one.gpu, one.kernel, one.rows, one.cols, one.dtype


def find_ncu() -> str | None:
    """The path of ncu: from PATH, else of /usr/local/cuda, else of a toolkit beside it; or None."""
    return shutil.which("ncu") or max(glob.glob("/usr/local/cuda*/bin/ncu"), default=None)


def errors_in(text: str) -> list[str]:
    """The error messages that ncu printed; raises `UserError` if it may not read the counters."""
    if "ERR_NVGPUCTRPERM" in text:
        raise UserError(
            "the driver keeps its counters from this user (ERR_NVGPUCTRPERM): run as root, or have "
            "the nvidia module loaded with NVreg_RestrictProfilingToAdminUsers=0"
        )
    found = re.findall(r"^==ERROR==\s*(.+?)\s*$", text, re.M)
    return [line for line in found if "application returned an error code" not in line]


def read_launches(text: str) -> pd.DataFrame:
    """The kernel launches in ncu's table, in order.

    The table is a header, a row of units, then a row per launch; ncu's remarks begin with ``==``.

    Returns:
        A column ``range``, the profiler range of a launch or NaN, and one for each of `METRICS`,
        in µs or bytes, NaN where a launch has no value.

    Raises:
        UserError: the table has no column of ranges.
    """
    lines = [line for line in text.splitlines() if line and not line.startswith("==")]
    if not lines:
        return pd.DataFrame(columns=["range", *METRICS])
    table = pd.read_csv(io.StringIO("\n".join(lines)), dtype=str)[1:]
    if not (ranges := [column for column in table if RANGES in str(column)]):
        raise UserError(f"ncu's table has no {RANGES} column; a newer ncu prints one")
    # 4711  "<default domain>:point 7 online 4096x1024 float32:none:none…"
    names = table[ranges[0]].astype(str).str.extract(r'(point \d+ [^:"]*)')[0].str.strip()
    cells = table.reindex(columns=[*METRICS.values()]).astype(str)
    # a cell is 12,345.6, or n/a, or 158 (0: 7; …) with the values of the metric's instances
    cells = cells.apply(lambda column: column.str.partition("(")[0].str.replace(",", ""))
    found: pd.DataFrame = cells.apply(pd.to_numeric, errors="coerce").set_axis([*METRICS], axis=1)
    found["kernel_us"] /= 1e3  # from ns, the base unit
    found["range"] = names
    return found


if __name__ == "__main__":
    if {"-h", "--help"} & {*sys.argv}:
        print(__doc__)
    else:
        sys.exit(command(lambda: collect_counters(sys.argv[1:])))
