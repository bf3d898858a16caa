"""C-prof: how C measured, beside how these rows were."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from analysis.format import Table, thousands
from analysis.load import ITEM_BYTES, Inputs
from analysis.published import Protocol, sources
from analysis.tables.named import NamedTable
from analysis.tables.settings import setting, timing_settings

PROFILE = "python -m experiments.profile kernel=online grid=point grid.rows=8192 grid.cols=32000"
NOTES = (
    "This project's side is what the rows and the configuration beside them tell; a dash where "
    "they do not.",
)


def c_prof(material: Inputs) -> NamedTable | str:
    """One line a choice of the protocol; or what is missing."""
    protocol, timed = sources()["C"].protocol, material.frame[material.frame["time_us"].notna()]
    if protocol is None or timed.empty:
        return "c_prof needs rows with a time"
    theirs, ours = _printed(protocol), _recorded(material, timed)
    lines = [[name, said, ours.get(name) or "–"] for name, said in theirs.items()]
    heads = ["", "C", "this project, as its rows record it"]
    return NamedTable("c_prof", Table("C-prof: how times were taken", heads, lines, NOTES))


def _printed(protocol: Protocol) -> dict[str, str]:
    default, published = protocol.iterations
    return {
        "warm-up": f"{protocol.warm_up} iterations",
        "samples": f"{default} iterations; {published} in the published run",
        "timer": protocol.timer,
        "cache": "–",
        "statistic": f"mean, {protocol.trimmed_percent:g} % trimmed at each end",
        "bytes": protocol.bytes,
        "inputs": protocol.inputs,
        "profiling": protocol.profile,
    }


def _recorded(material: Inputs, timed: pd.DataFrame) -> dict[str, str]:
    settings = timing_settings(material.rows)
    warm_up, precision = setting(settings, "warmup"), setting(settings, "precision")
    return {
        "warm-up": f"{warm_up} samples" if warm_up else "",
        "samples": _samples(timed),
        "timer": _several(timed["timer"]),
        "cache": _several(timed["cache"]),
        "statistic": "median of all samples, rank-based 95 % interval"
        + (f", to ± {precision} of the median or the cap" if precision else ""),
        "bytes": _sizes(timed),
        "profiling": f"{PROFILE} (one warm call, then one in a profiler range)",
    }


def _samples(timed: pd.DataFrame) -> str:
    sizes = [len(samples) for samples in timed["samples_us"] if isinstance(samples, Sequence)]
    if not sizes:
        return ""
    ends = timed["stop_reason"].dropna().value_counts(sort=False).sort_index()
    told = ", ".join(f"{name} {thousands(count)}" for name, count in ends.items())
    return f"{min(sizes)} to {max(sizes)}" + (f" ({told})" if told else "")


def _several(values: pd.Series) -> str:
    return ", ".join(sorted({str(value) for value in values.dropna()}))


def _sizes(timed: pd.DataFrame) -> str:
    """Compulsory bytes as a multiple of M·N·itemsize, as the rows have them."""
    item = timed["dtype"].map(ITEM_BYTES)
    cells = timed["rows"].astype(float) * timed["cols"].astype(float) * item
    told = (timed["compulsory_bytes"] / cells.where(cells > 0)).dropna().round(6)
    return ", ".join(f"{size:g}·M·N·itemsize" for size in sorted(set(told)))
