"""Where rows come from, and C-prof: how C measured beside how rows were."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from analysis.format import number_text, thousands
from analysis.load import Inputs
from analysis.published import OPERATION, sources
from analysis.tables.frames import Named, shown_sets, table
from experiments.data.cards import card_of
from experiments.data.rows import ITEM_BYTES

ESTIMATORS = (
    "This project's side is what the rows record; a dash where they do not. C's estimator is taken "
    "of the same samples: their warm-ups, cache and inputs are as above."
)
FACTS = {"datasheet bandwidth, GB/s": "memory_gbps", "memory, GB": "memory_gb",
         "float32, TFLOPS": "fp32_tflops", "power limit, W": "power_w", "L2, MiB": "l2_mib",
         "SMs": "sms", "highest SM clock, MHz": "clock_mhz"}  # fmt: skip
STATE = {"SM clock, MHz": "sm_clock_mhz", "memory clock, MHz": "memory_clock_mhz",
         "power, W": "power_w", "temperature, °C": "temperature_c"}  # fmt: skip


def environment(inputs: Inputs) -> Named:
    """One line per fact, a column per GPU and set; a dash where neither rows nor datasheet have "
    "it."""
    columns = {
        ", ".join(filter(None, [card_of(str(gpu)).name, str(name)])): _facts(rows, str(gpu))
        for (name, gpu), rows in shown_sets(inputs).groupby(["set", "gpu"])
    }
    facts = pd.DataFrame(columns).rename_axis("fact").reset_index()
    yield (
        "environment",
        table("Environment", facts, ["A range: the least and the most of any row."]),
    )


def _facts(rows: pd.DataFrame, gpu: str) -> dict[str, str]:
    facts, good = card_of(gpu).facts, rows[rows["time_us"].notna()]
    width = (good["time_high_us"] - good["time_low_us"]) / good["time_us"] * 50
    hot = [reasons for reasons in rows["throttled"].dropna() if reasons]
    why = f": {_several(reason for reasons in hot for reason in reasons)}" if hot else ""
    asked = len(rows["throttled"].dropna())
    return {
        "name by its driver": gpu,
        "card, of its host": _several(rows["card"]),
        **{name: f"{facts[fact]:,.6g}" if fact in facts else "" for name, fact in FACTS.items()},
        **{name: _several(e.get(name) for e in rows["environment"])
           for name in ("torch", "triton", "cuda", "driver", "python")},
        "commit": _several(map(_commit, rows["environment"])),
        "sweeps": _several(rows["sweep"]),
        "dtypes": _several(rows["dtype"]),
        "timer": _several(good["timer"]),
        "cache": _several(good["cache"]),
        "samples per point": _range(good["samples_us"].map(len, na_action="ignore")),
        "95 % interval, ± % of the median": "" if width.isna().all() else
        f"{number_text(width.median())} in the middle, {number_text(width.max())} at most",
        "sampling ended by": _counts(good["stop_reason"]),
        **{name: _range(rows[column]) for name, column in STATE.items()},
        "throttled rows": f"{thousands(len(hot))} of {thousands(asked)}{why}" if asked else "",
        "rows": thousands(len(rows)),
        "rows by status": _counts(rows["status"]),
    }  # fmt: skip


def c_prof(inputs: Inputs) -> Named:
    """One line per choice of the protocol: C's, and the one that the rows of softmax record."""
    frame = inputs.main
    softmax = frame[frame["operation"] == OPERATION]
    good = frame[frame["set"].isin(softmax["set"]) & frame["time_us"].notna()]
    theirs = sources()["C"].protocol
    if theirs is None or good.empty:
        return
    default, published = theirs.iterations
    warm_up, precision = (
        _several(_asked(e, name) for e in good["environment"]) for name in ("warmup", "precision")
    )
    samples, ends = (
        _range(good["samples_us"].map(len, na_action="ignore")),
        _counts(good["stop_reason"]),
    )
    statistic = "median of all samples, rank-based 95 % interval"
    lines = [
        ["warm-up", f"{theirs.warm_up} iterations", f"{warm_up} samples" if warm_up else ""],
        ["samples", f"{default} iterations; {published} in the published run",
         f"{samples} ({ends})" if ends else samples],
        ["timer", theirs.timer, _several(good["timer"])],
        ["cache", "", _several(good["cache"])],
        ["statistic", f"mean, {theirs.trimmed_percent:g} % trimmed at each end",
         statistic + (f", to ± {precision} of the median or the cap" if precision else "")],
        *_both_estimators(good, theirs.trimmed_percent),
        ["bytes", theirs.bytes, _passes(good)],
        ["inputs", theirs.inputs, "randn"],
        ["profiling", theirs.profile, "python -m experiments.profile kernel=online grid=point "
         "grid.rows=8192 grid.cols=32000 (one warm call, then one in a profiler range)"],
    ]  # fmt: skip
    frame_of = pd.DataFrame(lines, columns=["choice", "C", "this project, as its rows record it"])
    yield "c_prof", table("C-prof: how times were taken", frame_of, [ESTIMATORS])


def _asked(environment: Mapping[str, Any], name: str) -> object:
    """What a row's sweep asked of its timing."""
    asked = environment.get("protocol")
    return asked.get(name) if isinstance(asked, dict) else None


def _both_estimators(good: pd.DataFrame, percent: float) -> list[list[str]]:
    """C's printed times beside both estimators of the samples there, then the two at all points."""
    sampled = good[good["samples_us"].map(len, na_action="ignore") > 0]
    means = sampled["samples_us"].map(lambda samples: trimmed_mean(samples, percent))
    lines = []
    for one in sources()["C"].timings:
        kernel = {"hybrid": "hybrid_whole"}.get(one.kernel, one.kernel)  # as its kernel ran
        place = {"kernel": kernel, "rows": one.rows, "cols": one.cols, "dtype": one.dtype}
        there = sampled[(sampled[list(place)] == pd.Series(place)).all(axis=1)]
        # C does not flush: a warm row is nearest to what it does
        for label in there.sort_values("cache", kind="stable").index[-1:]:
            ours = f"median {sampled['time_us'][label]:.1f} µs, trimmed mean {means[label]:.1f} µs"
            lines.append(
                [f"{kernel}, {one.rows}×{one.cols} {one.dtype}", f"{one.time_ms} ms", ours]
            )
    if len(sampled):
        ratios = (means / sampled["time_us"]).quantile([0, 0.025, 0.5, 0.975, 1])
        low, first, middle, last, high = (f"{ratio:.4f}" for ratio in ratios)
        text = (
            f"{middle} in the middle, {first} to {last} at 95 % of {thousands(len(sampled))} rows"
        )
        lines.append(["trimmed mean over median", "", f"{text}, {low} to {high} at all"])
    return lines


def trimmed_mean(samples: Iterable[float], percent: float) -> float:
    """The mean of samples without so many per cent of them at each end."""
    ordered = sorted(samples)
    cut = int(len(ordered) * percent / 100)
    return float(pd.Series(ordered[cut : len(ordered) - cut]).mean())


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


def _counts(values: pd.Series) -> str:
    """Values with how often they occur, the most frequent first."""
    known = values.value_counts().sort_index().sort_values(ascending=False, kind="stable")
    return ", ".join(f"{name} {thousands(count)}" for name, count in known.items())


def _passes(good: pd.DataFrame) -> str:
    """Compulsory bytes as multiples of M·N·itemsize, as the rows have them."""
    cells = good["rows"].astype(float) * good["cols"] * good["dtype"].map(ITEM_BYTES)
    multiples = (good["compulsory_bytes"] / cells.where(cells > 0)).dropna().round(6)
    return ", ".join(f"{multiple:g}·M·N·itemsize" for multiple in sorted(set(multiples)))
