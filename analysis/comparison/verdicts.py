"""Whether a point became slower or faster, stayed the same, or nobody can tell.

A gate fails on one point, so what must stay below alpha is the chance that
any of equal points is called different: the family-wise error, held by Holm's step-down whatever
the dependence between points of one card. Benjamini and Hochberg's procedure holds the share of
false alarms among all alarms, which leaves a gate of 1500 equal points its one false alarm; for a
single regression, the usual case, it finds no more than Holm does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.comparison import noise
from analysis.comparison.estimates import estimates
from analysis.comparison.pairs import Pair
from analysis.estimate import holm, quantile, tail

VERDICTS = ("failed", "slower", "faster", "unclear", "same", "fixed", "no time")


@dataclass(frozen=True)
class Asked:
    """What a comparison is held to.

    Attributes:
        threshold: A change of less than this share counts for nothing.
        alpha: The chance of a false alarm in the whole comparison.
    """

    threshold: float = 0.02
    alpha: float = 0.05


@dataclass(frozen=True)
class Compared:
    """A pair, judged. Ratios are of times, HEAD / BASE: above 1 is slower.

    Attributes:
        pair: The point.
        verdict: One of `VERDICTS`.
        regression: Whether a gate fails on it.
        ratio: NaN without two times.
        low: Of the interval of this point alone, at 1 − alpha.
        high: The same.
        all_low: Of the interval that holds for all points at once, at 1 − alpha (Bonferroni).
        all_high: The same.
        p_holm: The chance of such a difference between equals, corrected for all points.
    """

    pair: Pair
    verdict: str
    regression: bool = False
    ratio: float = float("nan")
    low: float = float("nan")
    high: float = float("nan")
    all_low: float = float("nan")
    all_high: float = float("nan")
    p_holm: float = float("nan")


def judge(pairs: Sequence[Pair], asked: Asked, ranges: Sequence[noise.Range]) -> list[Compared]:
    """Every pair that both sets have, in its order, with a verdict."""
    timed = [pair for pair in pairs if pair.timed]
    told = dict(zip(map(id, timed), _judged(timed, asked, ranges), strict=True))
    both = [pair for pair in pairs if pair.base and pair.head]
    return [_with_status(told.get(id(pair), Compared(pair, "no time"))) for pair in both]


def _judged(pairs: Sequence[Pair], asked: Asked, ranges: Sequence[noise.Range]) -> list[Compared]:
    if not pairs:
        return []
    known = estimates(pairs, ranges)
    difference, error, df = known.difference, known.error, known.df
    p = holm(2 * tail(np.abs(difference) / error, df))
    limit = np.log1p(asked.threshold)
    # the chance of such a slowdown if it were no more than the threshold: a family of its own
    beyond = holm(tail((difference - limit) / error, df)) <= asked.alpha / 2
    alone = quantile(asked.alpha / 2, df) * error
    every = quantile(asked.alpha / 2 / len(pairs), df) * error
    found = (p <= asked.alpha) & (np.abs(difference) > known.floor)
    same = np.abs(difference) + alone <= limit
    cases = [same, found & (difference > 0), found]
    verdicts = np.select(cases, ["same", "slower", "faster"], "unclear")
    reaches = [np.zeros_like(alone), -alone, alone, -every, every]
    numbers = np.exp([difference + reach for reach in reaches]).T
    return [
        Compared(
            pair, str(verdict), bool(verdict == "slower" and worse), *map(float, (*line, chance))
        )
        for pair, verdict, worse, line, chance in zip(
            pairs, verdicts, beyond, numbers, p, strict=True
        )
    ]


def _with_status(one: Compared) -> Compared:
    pair = one.pair
    assert pair.base is not None
    assert pair.head is not None
    was, now = pair.base.status == "ok", pair.head.status == "ok"
    if was and not now:
        return Compared(pair, "failed", True, one.ratio, one.low, one.high)
    if now and not was:
        return Compared(pair, "fixed", False, one.ratio, one.low, one.high)
    return one
