"""Points of two sets of rows, matched by what they are and judged: slower, faster, same, unclear.

Logarithms of times are compared, the mean over rounds of HEAD with that of BASE; the rounds of two
sweeps are not paired, as they share no more than their number. The variance of the difference has
two parts. What differs between rounds, s², is seen in the rounds. What differs between two
processes is not, where all rounds ran in one. The noise of two sweeps of one round each is recorded
by time range (`analysis.compare.noise`); as much of it as the rounds of a range do not show,
b² = max(0, τ² − 2·mean s²), is added with the few degrees of freedom that its tails have. So rounds
in fresh processes show all of it and nothing is added; eight rounds of one process that agree too
well are not believed. With one round on either side the recorded noise is all there is, widened by
the row's own interval.

A gate fails on one point, so what must stay below alpha is the chance that any of equal points is
called different: the family-wise error, held by Holm's step-down whatever the dependence between
points of one card. Benjamini and Hochberg's procedure holds the share of false alarms among all
alarms, which leaves a gate of 1500 equal points its one false alarm; for a single regression, the
usual case, it finds no more than Holm does.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from analysis.estimate import Floats, holm, quantile, tail
from analysis.selection import name_variants
from experiments.data.statistics import Z95

THRESHOLD = 0.02  # a change of less than this share counts for nothing
ALPHA = 0.05  # the chance of a false alarm in a whole comparison
VERDICTS = ("failed", "slower", "faster", "unclear", "same", "fixed", "no time")
SIDES = ("base", "head")
ARROW = " → "  # from the GPU of BASE to the one of HEAD, where those were allowed to differ
_ORDER = ["gpu", "variant", "dtype", "rows", "cols", "timer", "cache", "card"]
RECORDED = Path(__file__).with_name("noise.json")
_MOST_DF = 1000.0  # beyond, t is the normal within 0.3 % of a quantile, and on the wide side
_LEAST = 1e-6  # a standard error, where nothing varies at all


class NoiseRange(NamedTuple):
    """How far two sweeps of equal code lie apart at times up to ``below_us`` (None: all longer).

    Attributes:
        below_us: The range's upper end, µs.
        points: How many points it was measured at.
        scale: Of the fitted t, of the logarithm of a ratio of two sweeps of one round each.
        df: Its degrees of freedom.
        floor: What 5 % of the points differ by, or more, logarithm.
    """

    below_us: float | None
    points: int
    scale: float
    df: float
    floor: float


def recorded_noise(path: Path = RECORDED) -> tuple[str, list[NoiseRange]]:
    """The GPU that noise was measured on, and its ranges by rising time."""
    facts: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return facts["gpu"], [NoiseRange(**one) for one in facts["ranges"]]


def noise_at(ranges: Sequence[NoiseRange], times_us: Floats) -> tuple[Floats, Floats, Floats]:
    """Scale, degrees of freedom and floor at each time."""
    ends = [r.below_us for r in ranges if r.below_us is not None]
    place = np.searchsorted(ends, times_us, side="right")
    table = np.array([[r.scale, r.df, r.floor] for r in ranges])
    return table[place, 0], table[place, 1], table[place, 2]


def matched(base: pd.DataFrame, head: pd.DataFrame, across_gpus: bool = False) -> pd.DataFrame:
    """Every point of either set, a line each, by GPU, variant, dtype, shape and protocol.

    A point's identity is operation, kernel, parameters, shape, dtype, GPU model, card and protocol.
    One that failed before it was timed has no protocol: it stands for those that its other rows
    have. Each sweep, card and round of a set is a visit of its own, and its last row counts.

    Returns:
        What identifies a point, its ``variant``, and for each side, after ``base_`` or ``head_``:
        ``visits`` (how many; 0 where the set lacks the point), ``rounds`` (visits with a time that
        means something, or recordings where there are several), ``log`` (mean of the logarithms of
        their µs), ``squares`` (their squared deviations), ``within`` (variance of the logarithm by
        the interval of an only round), ``median_us``, ``status`` (``ok``, or what the first visit
        that was not came to), ``reason`` and ``suspect``.
    """
    rows = name_variants(pd.concat([base, head], ignore_index=True))
    rows["side"] = np.where(np.arange(len(rows)) < len(base), *SIDES)
    rows["settings"] = [json.dumps(p, sort_keys=True, default=str) for p in rows["params"]]
    rows["row"] = np.arange(len(rows))
    point = ["operation", "kernel", "settings", "rows", "cols", "dtype"]
    if across_gpus:
        rows["gpu"] = ARROW.join(dict.fromkeys(rows["gpu"]))
        rows["card"] = rows.groupby(point)["card"].transform("first")
    point += ["gpu", "card"]
    protocol = ["timer", "cache"]
    rows[protocol] = rows[protocol].where(rows[protocol].notna().all(axis=1), None)
    known = rows.dropna(subset=protocol).drop_duplicates([*point, *protocol])[point + protocol]
    never = rows[rows["timer"].isna()].drop(columns=protocol).merge(known, "left", point)
    rows = pd.concat([rows[rows["timer"].notna()], never]).sort_values("row", ignore_index=True)
    rows[protocol] = rows[protocol].fillna("")
    # code edited since leaves stale rows of another key before the newest one
    place = [*point, *protocol]
    rows = rows.drop_duplicates([*place, "side", "sweep", "card", "round"], keep="last")
    sides = _visited(rows, [*place, "side"])
    points = pd.concat([sides.xs(one, level="side").add_prefix(f"{one}_") for one in SIDES], axis=1)
    counts = [f"{side}_{name}" for side in SIDES for name in ("visits", "rounds")]
    points[counts] = points[counts].fillna(0).astype(int)
    points["variant"] = rows.drop_duplicates(place).set_index(place)["variant"]
    return points.reset_index().sort_values(_ORDER, ignore_index=True)


def _visited(rows: pd.DataFrame, place: list[str]) -> pd.DataFrame:
    """What each set has of each point, a line each; see `matched`."""
    # under Triton's interpreter time means nothing
    good = rows["status"].eq("ok") & rows["backend"].ne("interpreter") & rows["time_us"].gt(0)
    timed, bad = rows[good], rows[rows["status"] != "ok"]
    times, low, high = (
        timed[f"time{end}_us"].to_numpy(float, na_value=np.nan) for end in ("", "_low", "_high")
    )
    logs = pd.Series(np.log(times), timed.index)
    known = (low > 0) & (low < high)
    widths = np.log(np.where(known, high, 1) / np.where(known, low, 1)) / 2 / Z95
    by_place = [timed[name] for name in place]
    visits = rows.groupby(place)
    # rounds of one recording are not independent witnesses beside those of another
    several = timed.groupby(place)["recording"].transform("nunique").gt(1)
    unit = timed["recording"].where(several, timed["round"].astype(str))
    means = logs.groupby([*by_place, unit.rename("unit")]).mean()
    rounds = means.groupby(level=place)
    found = pd.DataFrame(
        {
            "visits": visits.size(),
            "rounds": rounds.count(),
            "log": rounds.mean(),
            "squares": ((means - rounds.transform("mean")) ** 2).groupby(level=place).sum(),
            "within": pd.Series(widths**2, timed.index).groupby(by_place).sum(),
            "median_us": timed.groupby(place)["time_us"].median(),
            "status": bad.groupby(place)["status"].first(),
            "bad": bad.groupby(place).size(),
            "reason": bad.groupby(place)["reason"].first(),
            "suspect": visits["suspect"].agg(lambda flags: any(map(bool, flags))),
        }
    )
    found["within"] = found["within"].where(found["rounds"] == 1, 0.0)
    found["status"] = found["status"].fillna("ok")
    several = found["visits"].gt(1) & found["bad"].gt(0)
    share = "in " + found.pop("bad").map("{:.0f}".format) + " of " + found["visits"].map(str)
    texts = zip((share + " rounds").where(several, ""), found["reason"].fillna(""), strict=True)
    found["reason"] = [": ".join(filter(None, pair)) for pair in texts]
    return found


def judged(
    points: pd.DataFrame,
    threshold: float = THRESHOLD,
    ranges: Sequence[NoiseRange] | None = None,
) -> pd.DataFrame:
    """The points that both sets have, each with a verdict.

    Args:
        points: From `matched`.
        threshold: A change of less than this share counts for nothing.
        ranges: The noise between two sweeps, by default the recorded one.

    Returns:
        The columns of `matched`, and: ``verdict`` (one of `VERDICTS`), ``regression`` (whether a
        gate fails on it), ``ratio`` (of times, HEAD / BASE; NaN without two of them), ``low`` and
        ``high`` (of the interval of this point alone, at 95 %), ``all_low`` and ``all_high``
        (of the interval that holds for all points at once, by Bonferroni), ``p_holm`` (the chance
        of such a difference between equals, corrected for all points), ``beyond_floor`` (whether
        it differs by more than what 5 % of equal points differ by).
    """
    both = points[points["base_visits"].gt(0) & points["head_visits"].gt(0)]
    timed = both[both["base_rounds"].gt(0) & both["head_rounds"].gt(0)]
    found = both.join(_verdicts(timed, threshold, ranges or recorded_noise()[1]))
    for name, value in {"verdict": "no time", "regression": False, "beyond_floor": False}.items():
        found[name] = found[name].where(found[name].notna(), value)
    was, now = found["base_status"].eq("ok"), found["head_status"].eq("ok")
    found.loc[was & ~now, "verdict"] = "failed"
    found.loc[now & ~was, "verdict"] = "fixed"
    found["regression"] = (found["regression"].astype(bool) & (was == now)) | (was & ~now)
    found.loc[was != now, ["all_low", "all_high", "p_holm"]] = np.nan
    return found.reset_index(drop=True)


def _verdicts(timed: pd.DataFrame, threshold: float, ranges: Sequence[NoiseRange]) -> pd.DataFrame:
    difference = (timed["head_log"] - timed["base_log"]).to_numpy(float)
    error, df, floor = _errors(timed, ranges)
    p = holm(2 * tail(np.abs(difference) / error, df))
    limit = np.log1p(threshold)
    # the chance of such a slowdown if it were no more than the threshold: a family of its own
    beyond = holm(tail((difference - limit) / error, df)) <= ALPHA / 2
    alone = quantile(ALPHA / 2, df) * error
    every = quantile(ALPHA / 2 / max(len(timed), 1), df) * error
    different = (p <= ALPHA) & (np.abs(difference) > floor)
    same = np.abs(difference) + alone <= limit
    cases = [same, different & (difference > 0), different]
    verdicts = np.select(cases, ["same", "slower", "faster"], "unclear")
    base_us = np.exp(timed["base_log"].to_numpy(float))
    return pd.DataFrame(
        {
            "verdict": verdicts,
            "regression": (verdicts == "slower") & beyond,
            "ratio": np.exp(difference),
            "low": np.exp(difference - alone),
            "high": np.exp(difference + alone),
            "all_low": np.exp(difference - every),
            "all_high": np.exp(difference + every),
            "p_holm": p,
            "beyond_floor": np.abs(difference) > noise_at(ranges, base_us)[2],
        },
        index=timed.index,
    )


def _errors(timed: pd.DataFrame, ranges: Sequence[NoiseRange]) -> tuple[Floats, Floats, Floats]:
    """Standard errors of the differences, their degrees of freedom, and the noise floor."""
    names = ("log", "rounds", "squares", "within")
    logs, counts, squares, within = (
        timed[[f"{side}_{name}" for side in SIDES]].to_numpy(float) for name in names
    )
    freedom = counts.sum(axis=1) - 2
    scale, shape, floor = noise_at(ranges, np.exp(logs.mean(axis=1)))
    summed = squares.sum(axis=1)
    variance = summed / np.maximum(freedom, 1)

    single = counts.min(axis=1) == 1
    # the variance of one round, over all points of a range that have several
    seen = pd.DataFrame({"squares": summed, "freedom": freedom}).mul(~single, axis=0)
    pooled = seen.groupby(scale).transform("sum")
    shown = (pooled["squares"] / pooled["freedom"].clip(lower=1)).to_numpy()
    between = np.maximum(0, scale**2 - 2 * shown)
    between = np.where(single, np.maximum(scale**2, 2 * variance), between)
    between += np.where(single, within.sum(axis=1), 0.0)
    measured = np.where(single, 0.0, variance * (1 / counts).sum(axis=1))
    error = measured + between
    # Welch and Satterthwaite; rounds that are equal to the last digit leave nothing to divide by
    spread = measured**2 / np.maximum(freedom, 1) + between**2 / shape
    df = np.where(spread > 0, error**2 / np.where(spread > 0, spread, 1), _MOST_DF)
    return np.sqrt(np.maximum(error, _LEAST**2)), np.minimum(df, _MOST_DF), floor
