"""Where the rows come from, how they were measured, and the commands that make them again."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pandas as pd

from analysis.format import Table, thousands
from analysis.load import Inputs
from analysis.style import CACHES, TIMERS, rows_hash

PRESETS = Path(__file__).resolve().parents[2] / "conf" / "experiment"
NAMES = {
    "torch": "PyTorch", "triton": "Triton", "cuda": "CUDA", "driver": "NVIDIA driver",
    "python": "Python", "commit": "commit of this project", "dirty": "edited since that commit",
}  # fmt: skip


@dataclass(frozen=True)
class Reproduction:
    """The page's last section.

    Attributes:
        environment: Versions, a column a GPU.
        protocol: How times were taken, one line a protocol and GPU.
        commands: What to type, each with what it does.
    """

    environment: Table
    protocol: Table
    commands: tuple[tuple[str, str], ...]


def reproduction(material: Inputs) -> Reproduction:
    """All of it, from the rows."""
    frame = material.frame
    gpus = sorted(frame["gpu"].unique())
    return Reproduction(_environment(frame, gpus), _protocol(frame, gpus), _commands(frame))


def _environment(frame: pd.DataFrame, gpus: list[str]) -> Table:
    told = {gpu: frame[frame["gpu"] == gpu] for gpu in gpus}
    facts = sorted({name for seen in frame["environment"] for name in seen})
    order = [n for n in NAMES if n in facts] + [n for n in facts if n not in NAMES]
    lines = [[NAMES.get(n) or n, *(_stated(told[gpu], n) for gpu in gpus)] for n in order]
    lines.append(["rows", *(thousands(len(told[gpu])) for gpu in gpus)])
    lines.append(["hash of the rows", *(rows_hash(told[gpu]) for gpu in gpus)])
    return Table("Environment", ["", *gpus], lines)


def _stated(rows: pd.DataFrame, name: str) -> str:
    values = {_plain(seen[name]) for seen in rows["environment"] if seen.get(name) is not None}
    return ", ".join(sorted(values)) or "not recorded"


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _protocol(frame: pd.DataFrame, gpus: list[str]) -> Table:
    timed = frame[(frame["status"] == "ok") & frame["time_us"].notna()]
    lines: list[list[str]] = []
    for place, mine in timed.groupby(["gpu", "timer", "cache"], sort=True):
        gpu, timer, cache = cast(tuple[str, str, str], place)
        samples = mine["samples_us"].map(lambda taken: len(taken) if taken else 0)
        stops = mine["stop_reason"].value_counts().sort_index()
        lines.append(
            [
                gpu,
                f"{TIMERS.get(timer, timer)}, {CACHES[cache]}",
                f"{samples.min()} to {samples.max()}, median {samples.median():.0f}",
                ", ".join(f"{reason} {count}" for reason, count in stops.items()),
                str(mine["round"].nunique()),
                thousands(len(mine)),
            ]
        )
    heads = ["GPU", "timer and cache", "samples a point", "stopped by", "rounds", "timed points"]
    note = (
        "The published time is the median of all samples with a rank-based 95 % interval. Answers "
        "are checked against float64 before and after timing; the roof is the fastest copy of the "
        "same shape and dtype, measured in the same sweep on the same card."
    )
    lacking = [] if lines else ["No row has a time: nothing here tells of speed."]
    return Table("Protocol", heads, lines, [note, *lacking])


def _commands(frame: pd.DataFrame) -> tuple[tuple[str, str], ...]:
    commits = sorted({str(seen["commit"]) for seen in frame["environment"] if seen.get("commit")})
    checkout = [(f"git checkout {commit}", "the code that measured") for commit in commits]
    presets = sorted({sweep.rpartition("-")[0] or sweep for sweep in frame["sweep"]})
    known = [name for name in presets if (PRESETS / f"{name}.yaml").is_file()]
    sweeps = [(f"make sweep EXPERIMENT={name}", "measures again, on a GPU") for name in known]
    return (
        ("make report", "this page from the newest rows, else the recorded ones; no GPU"),
        ("make figures tables roofline claims", "its parts as files"),
        *checkout,
        *sweeps,
    )
