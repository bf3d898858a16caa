"""Where rows come from, one column per GPU, and C-prof: how C measured beside how rows were."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import pandas as pd

from analysis.format import NamedTable, Table, number_text, shown, thousands
from analysis.load import Inputs
from analysis.published import sources
from experiments.data.cards import card_of
from experiments.data.rows import ITEM_BYTES

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
PROFILE = "python -m experiments.profile kernel=online grid=point grid.rows=8192 grid.cols=32000"
C_NOTE = (
    "This project's side is what the rows and the configuration beside them record; a dash where "
    "they do not. C's estimator is taken of the same samples: their warm-ups, cache and inputs are "
    "as above."
)
C_VARIANTS = {"torch": "torch", "hybrid": "hybrid_whole"}  # C's, as its kernels ran


def environment(inputs: Inputs) -> list[NamedTable]:
    """One line per fact; a dash where neither rows nor datasheet have it."""
    columns = {str(gpu): _column(rows, str(gpu)) for gpu, rows in inputs.frame.groupby("gpu")}
    facts = pd.DataFrame(columns).replace("", "–")
    heads = ["", *(card_of(gpu).name for gpu in columns)]
    lines = [[str(name), *cells] for name, *cells in facts.itertuples()]
    return [NamedTable("environment", Table("Environment", heads, lines, [NOTE]))]


def c_prof(inputs: Inputs) -> list[NamedTable]:
    """One line per choice of the protocol."""
    protocol, timed = sources()["C"].protocol, inputs.frame[inputs.frame["time_us"].notna()]
    if protocol is None or timed.empty:
        return []
    warm_up, precision = (_timing_settings(inputs.rows, n) for n in ("warmup", "precision"))
    default, published = protocol.iterations
    samples, ends = _lengths(timed), _counts(timed["stop_reason"])
    statistic = "median of all samples, rank-based 95 % interval"
    statistic += f", to ± {precision} of the median or the cap" if precision else ""
    lines = [
        ["warm-up", f"{protocol.warm_up} iterations", f"{warm_up} samples" if warm_up else "–"],
        ["samples", f"{default} iterations; {published} in the published run",
         f"{samples} ({ends})" if ends else samples],
        ["timer", protocol.timer, _several(timed["timer"])],
        ["cache", "–", _several(timed["cache"])],
        ["statistic", f"mean, {protocol.trimmed_percent:g} % trimmed at each end", statistic],
        *_both_estimators(timed, protocol.trimmed_percent),
        ["bytes", protocol.bytes, _sizes(timed)],
        ["inputs", protocol.inputs, "randn"],
        ["profiling", protocol.profile,
         f"{PROFILE} (one warm call, then one in a profiler range)"],
    ]  # fmt: skip
    heads = ["", "C", "this project, as its rows record it"]
    lines = [[cell or "–" for cell in line] for line in lines]
    return [NamedTable("c_prof", Table("C-prof: how times were taken", heads, lines, [C_NOTE]))]


def _both_estimators(timed: pd.DataFrame, percent: float) -> list[list[str]]:
    """C's printed times beside both estimators of the samples there, then the two at all points."""
    sampled = timed[timed["samples_us"].map(len, na_action="ignore") > 0]
    means = sampled["samples_us"].map(lambda samples: trimmed_mean(samples, percent))
    lines = []
    for one in sources()["C"].timings:
        variant = C_VARIANTS[one.kernel]
        place = {"kernel": variant, "rows": one.rows, "cols": one.cols, "dtype": one.dtype}
        for label in sampled.index[(sampled[list(place)] == pd.Series(place)).all(axis=1)][-1:]:
            name = f"{variant}, {one.rows}×{one.cols} {one.dtype}"
            median, mean = float(sampled["time_us"][label]), float(means[label])
            ours = f"median {median:.1f} µs, trimmed mean {mean:.1f} µs"
            lines.append([name, f"{one.time_ms} ms", ours])
    if len(sampled):
        ratios = (means / sampled["time_us"]).quantile([0, 0.025, 0.5, 0.975, 1])
        low, first, middle, last, high = (f"{ratio:.4f}" for ratio in ratios)
        text = (
            f"{middle} in the middle, {first} to {last} at 95 % of {thousands(len(sampled))} rows"
        )
        lines.append(["trimmed mean over median", "–", f"{text}, {low} to {high} at all"])
    return lines


def trimmed_mean(samples: Iterable[float], percent: float) -> float:
    """The mean of samples without so many per cent of them at each end."""
    ordered = sorted(samples)
    cut = int(len(ordered) * percent / 100)
    return float(pd.Series(ordered[cut : len(ordered) - cut]).mean())


def _column(rows: pd.DataFrame, gpu: str) -> dict[str, str]:
    facts, timed = card_of(gpu).facts, rows[rows["time_us"].notna()]
    return {
        "name by its driver": gpu,
        "card, of its host": _several(rows["card"]),
        **{name: f"{facts[fact]:,.6g}" if fact in facts else "" for name, fact in FACTS},
        **{name: _several(e.get(name) for e in rows["environment"]) for name in SOFTWARE},
        "commit": _several(map(_commit, rows["environment"])),
        "sweeps": _several(rows["sweep"]),
        "dtypes": _several(rows["dtype"]),
        "timer": _several(timed["timer"]),
        "cache": _several(timed["cache"]),
        "samples per point": _lengths(timed),
        "95 % interval, ± % of the median": _half_widths(timed),
        "sampling ended by": _counts(timed["stop_reason"]),
        **{name: _range(rows[column]) for name, column in STATE},
        "throttled rows": _throttled(rows["throttled"]),
        "rows": thousands(len(rows)),
        "rows by status": _counts(rows["status"]),
    }


def _several(values: Iterable[object]) -> str:
    known = pd.Series(list(values), dtype=object).dropna()
    return ", ".join(sorted(set(map(str, known))))


def _commit(environment: Mapping[str, object]) -> str:
    commit = environment.get("commit")
    if commit is None:
        return "unknown"
    return f"{str(commit)[:12]} ({'dirty' if environment.get('dirty') else 'clean'})"


def _range(values: pd.Series) -> str:
    if values.isna().all():
        return ""
    low, high = f"{values.min():,.5g}", f"{values.max():,.5g}"
    return low if low == high else f"{low} to {high}"


def _lengths(timed: pd.DataFrame) -> str:
    return _range(timed["samples_us"].map(len, na_action="ignore"))


def _half_widths(timed: pd.DataFrame) -> str:
    width = (timed["time_high_us"] - timed["time_low_us"]) / timed["time_us"] * 50
    if width.isna().all():
        return ""
    return f"{number_text(width.median())} in the middle, {number_text(width.max())} at most"


def _counts(values: pd.Series) -> str:
    """Values with how often they occur, the most frequent first."""
    known = values.value_counts().sort_index().sort_values(ascending=False, kind="stable")
    return ", ".join(f"{name} {thousands(count)}" for name, count in known.items())


def _throttled(values: pd.Series) -> str:
    known = values.dropna()
    hot = [reasons for reasons in known if reasons]
    why = f": {_several(reason for reasons in hot for reason in reasons)}" if hot else ""
    return f"{thousands(len(hot))} of {thousands(len(known))}{why}" if len(known) else ""


def _timing_settings(rows: Path, name: str) -> str:
    """A ``timing`` option of every ``config.json`` below ``rows``, unless one cannot be read."""
    folder = rows.parent if rows.is_file() else rows
    found = []
    for path in sorted(folder.rglob("config.json")):
        try:
            timing = json.loads(path.read_text(encoding="utf-8"))["timing"]
            found.append(shown(timing.get(name)))
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            continue
    return _several(found)


def _sizes(timed: pd.DataFrame) -> str:
    """Compulsory bytes as multiples of M·N·itemsize, as the rows have them."""
    item = timed["dtype"].map(ITEM_BYTES)
    cells = timed["rows"].astype(float) * timed["cols"].astype(float) * item
    multiples = (timed["compulsory_bytes"] / cells.where(cells > 0)).dropna().round(6)
    return ", ".join(f"{multiple:g}·M·N·itemsize" for multiple in sorted(set(multiples)))
