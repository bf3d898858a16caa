"""A stand-in for ncu: prints its table, in its own format, for launches that a test makes up."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.profile.ncu import METRICS, TIME

RANGES = "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
PLACE = ["ID", "Process ID", "Process Name", "Host Name", RANGES,
         "Id:Domain:Start/Stop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",
         "Kernel Name", "Context", "Stream", "Block Size", "Grid Size", "Device", "CC"]  # fmt: skip


def unit(metric: str) -> str:
    """The base unit that ncu prints below a metric's name."""
    if metric == TIME:
        return "ns"
    return "byte" if "bytes" in metric else "%"


def table(
    launches: Sequence[tuple[str, Mapping[str, float | str]]], metrics: Sequence[str] = METRICS
) -> str:
    """Launches as ``(range, values)`` in the form of ``--csv --page raw``, remarks included."""
    text = io.StringIO()
    text.write("==PROF== Connected to process 4711 (/usr/bin/python3.12)\n")
    for number, _ in enumerate(launches):
        text.write(f'==PROF== Profiling "kernel" - {number}: 0%....50%....100% - 9 passes\n')
    text.write("==PROF== Disconnected from process 4711\n")
    lines = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    lines.writerow([*PLACE, *metrics])
    lines.writerow([""] * len(PLACE) + [unit(metric) for metric in metrics])
    for number, (name, values) in enumerate(launches):
        cell = f'4711  "<default domain>:{name}:none:none:none:none:none:none" ' if name else ""
        lines.writerow(
            [number, 4711, "python3.12", "127.0.0.1", cell, "", "void kernel<float, 4>(int, float)",
             1, 7, "(128, 1, 1)", "(4096, 1, 1)", 0, "9.0"]
            + [_printed(values.get(metric, "n/a")) for metric in metrics]
        )  # fmt: skip
    return text.getvalue()


def _printed(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:,.2f}"


def executable(folder: Path, body: str) -> Path:
    """A file named ncu that runs a piece of Python; ``log`` and ``command`` are what it was given.

    ``metrics`` are those asked for. It knows its version, as ncu does.
    """
    path = folder / "ncu"
    path.write_text(
        f"#!{sys.executable}\n"
        "import sys\n"
        "from pathlib import Path\n"
        "if '--version' in sys.argv:\n"
        "    sys.exit(print('NVIDIA (R) Nsight Compute\\nVersion 2025.3.1.0 (build 1)'))\n"
        "log = Path(sys.argv[sys.argv.index('--log-file') + 1])\n"
        "metrics = sys.argv[sys.argv.index('--metrics') + 1].split(',')\n"
        "command = sys.argv[sys.argv.index('--log-file') + 2:]\n" + body
    )
    path.chmod(0o755)
    return path
