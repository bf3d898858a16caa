"""Nsight Compute's table of launches: what ``ncu --nvtx --csv --page raw`` prints.

A header, a row of units, then one row a launch, with a column a metric; ncu's own remarks stand
between them and begin with ``==``. The ranges that a launch is in are one column: its name begins
``thread Domain:Push/Pop_Range``, its cells are like ``4711  "<default domain>:NAME:none:none…"``.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Sequence

from experiments.errors import UserError
from experiments.profile.metrics import METRICS, Launch

# To µs and bytes; ncu is asked for base units, and prints scaled ones where it does not know how.
SCALE = {
    **{"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6},
    **{"nsecond": 1e-3, "usecond": 1.0, "msecond": 1e3, "second": 1e6},
    **{"byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "Tbyte": 1e12},
    **{"B": 1.0, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12},
    "%": 1.0,
}
IDENTITY, KERNEL, RANGES = "ID", "Kernel Name", "Push/Pop_Range"
REMARK = "=="


def read_launches(text: str) -> Iterator[Launch]:
    """The launches in ncu's output, in order.

    Raises:
        UserError: the table lacks its range column, or a metric has a unit unknown here.
    """
    header: list[str] = []
    units: list[str] = []
    for row in csv.reader(line for line in text.splitlines() if not line.startswith(REMARK)):
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
            ranges = _range(cell)
        elif name in METRICS and (value := _number(cell)) is not None:
            if unit and unit not in SCALE:
                raise UserError(f"ncu gives {name} in {unit!r}, a unit unknown here")
            values[name] = value * SCALE.get(unit, 1.0)
    return Launch(ranges, values)


def _range(cell: str) -> str:
    found = re.search(r"(point \d+ [^:\"]*)", cell)
    return found[1].strip() if found else ""


def _number(cell: str) -> float | None:
    """A cell's number: ``12,345.6``, or ``158 (0: 7; …)`` where instances follow."""
    try:
        value = float(cell.partition("(")[0].replace(",", ""))
    except ValueError:  # n/a
        return None
    return value if math.isfinite(value) else None
