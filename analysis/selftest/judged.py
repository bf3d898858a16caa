"""Twins as ``compare`` judges them: one twin's rows for BASE, the other's for HEAD."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import pandas as pd

from analysis.comparison import noise
from analysis.comparison.pairs import pairs_of
from analysis.comparison.verdicts import Asked, Compared, judge
from analysis.selftest.pairs import Pair

CALLED = ("slower", "faster")


def judged(frame: pd.DataFrame, pairs: Sequence[Pair]) -> list[Compared]:
    """The timed points of every two twins, each with the verdict that a gate would give.

    Args:
        frame: The rows.
        pairs: Their twins; rows of other kernels are left out.
    """
    parts = frame["kernel"].str.rpartition("-")
    twins = parts[0].isin({pair.kernel for pair in pairs})
    marked = frame.assign(kernel=parts[0], _mark=parts[2])[twins]
    ranges = noise.recorded()[1]
    found: list[Compared] = []
    for one, other in combinations(sorted(marked["_mark"].unique()), 2):
        sides = (marked[marked["_mark"] == mark].drop(columns="_mark") for mark in (one, other))
        found += judge(pairs_of(*sides), Asked(), ranges)
    return [one for one in found if one.ratio > 0]


def told(found: Sequence[Compared]) -> str:
    """How many of equal points a gate would call changed, in a sentence."""
    called = sum(one.verdict in CALLED for one in found)
    failing = sum(one.regression for one in found)
    return (
        f"Compared as two sets of rows, at a chance of {Asked().alpha:.0%} for any false alarm in "
        f"the whole set, {called} of {len(found)} points are called faster or slower and "
        f"{failing} would fail a gate."
    ).replace("%", " %")
