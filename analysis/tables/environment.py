"""Where the rows come from: card, software, protocol and the machine's state, a column a GPU."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd

from analysis.format import Table, number_text, thousands
from analysis.load import Inputs
from analysis.tables.named import NamedTable
from experiments.data.cards import card_of

# Of what an environment may hold these alone are shown; none of them names a machine or a user.
SOFTWARE = ("torch", "triton", "cuda", "driver", "python")
FACTS = (
    ("datasheet bandwidth, GB/s", "memory_gbps"), ("memory, GB", "memory_gb"),
    ("float32, TFLOPS", "fp32_tflops"), ("power limit, W", "power_w"), ("L2, MiB", "l2_mib"),
    ("SMs", "sms"), ("highest SM clock, MHz", "clock_mhz"),
)  # fmt: skip
STATE = (
    ("SM clock, MHz", "sm_clock_mhz"), ("memory clock, MHz", "memory_clock_mhz"),
    ("power, W", "power_w"), ("temperature, °C", "temperature_c"),
)  # fmt: skip
NOTE = "A range is the least and the most that any row has."


def environment(material: Inputs) -> NamedTable:
    """One line a fact; a dash where neither rows nor datasheet tell it."""
    gpus = sorted(set(material.frame["gpu"]))
    columns = [_column(material.frame[material.frame["gpu"] == gpu], gpu) for gpu in gpus]
    heads = ["", *(card_of(gpu).name for gpu in gpus)]
    lines = [[name, *(column[name] for column in columns)] for name in columns[0]]
    return NamedTable("environment", Table("Environment", heads, lines, [NOTE]))


def _column(rows: pd.DataFrame, gpu: str) -> dict[str, str]:
    facts, timed = card_of(gpu).facts, rows[rows["time_us"].notna()]
    told = {"name by its driver": gpu, "card, of its host": _several(rows["card"])}
    told |= {name: _fact(facts.get(fact)) for name, fact in FACTS}
    told |= {name: _software(rows, name) for name in SOFTWARE}
    told["commit"] = _several(map(_commit, rows["environment"]))
    told["sweeps"] = _several(rows["sweep"])
    told["dtypes"] = _several(rows["dtype"])
    told["timer"] = _several(timed["timer"].dropna())
    told["cache"] = _several(timed["cache"].dropna())
    told["samples a point"] = _range(timed["samples_us"].map(_length))
    told["95 % interval, ± % of the median"] = _half_widths(timed)
    told["sampling ended by"] = _counts(timed["stop_reason"])
    told |= {name: _range(rows[column]) for name, column in STATE}
    told["throttled rows"] = _throttled(rows)
    told["rows"] = thousands(len(rows))
    told["rows by status"] = _counts(rows["status"])
    return told


def _fact(value: float | None) -> str:
    return "–" if value is None else f"{value:,.6g}"


def _software(rows: pd.DataFrame, name: str) -> str:
    return _several(e[name] for e in rows["environment"] if e.get(name) is not None)


def _commit(environment: dict[str, object]) -> str:
    commit = environment.get("commit")
    if commit is None:
        return "unknown"
    return f"{str(commit)[:12]} ({'dirty' if environment.get('dirty') else 'clean'})"


def _several(values: Iterable[object]) -> str:
    return ", ".join(sorted({str(value) for value in values})) or "–"


def _range(values: pd.Series) -> str:
    known = values.dropna()
    if known.empty:
        return "–"
    low, high = f"{known.min():,.5g}", f"{known.max():,.5g}"
    return low if low == high else f"{low} to {high}"


def _length(samples: object) -> float | None:
    return len(samples) if isinstance(samples, Sequence) else None


def _half_widths(timed: pd.DataFrame) -> str:
    width = (timed["time_high_us"] - timed["time_low_us"]) / timed["time_us"] * 50
    known = width.dropna()
    if known.empty:
        return "–"
    return f"{number_text(known.median())} in the middle, {number_text(known.max())} at most"


def _counts(values: pd.Series) -> str:
    known = values.dropna().value_counts(sort=False)
    ordered = sorted(known.items(), key=lambda item: (-int(item[1]), str(item[0])))
    return ", ".join(f"{name} {thousands(int(count))}" for name, count in ordered) or "–"


def _throttled(rows: pd.DataFrame) -> str:
    told = [r for r in rows["throttled"] if isinstance(r, list)]
    hot = [reasons for reasons in told if reasons]
    why = f": {_several(reason for reasons in hot for reason in reasons)}" if hot else ""
    return f"{thousands(len(hot))} of {thousands(len(told))}{why}" if told else "–"
