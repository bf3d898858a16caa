"""Numbers that follow from drawn times: ratios of two kernels, bandwidths of one."""

from __future__ import annotations

from collections.abc import Callable

from analysis.audit.interval import Interval, rounded
from analysis.audit.words import ABOUT
from analysis.published import Ratio, Series


def speedups(series: Series, slower: str, faster: str) -> dict[int, Interval]:
    """``slower`` over ``faster`` by width, as far as the printed times may have been rounded."""
    pairs = zip(series.kernels[slower], series.kernels[faster], strict=True)
    return {n: rounded(a) / rounded(b) for n, (a, b) in zip(series.sizes, pairs, strict=True)}


def quotients(series: Series, slower: str, faster: str) -> dict[int, float]:
    """``slower`` over ``faster`` by width, the printed times as they are."""
    pairs = zip(series.kernels[slower], series.kernels[faster], strict=True)
    return {n: a / b for n, (a, b) in zip(series.sizes, pairs, strict=True)}


def rates(
    series: Series, kernel: str, moved: Callable[[int, int], int], *, slowest: bool = False
) -> dict[int, float]:
    """Bytes moved over printed times by width, GB/s.

    Args:
        series: Times at a fixed M.
        kernel: Whose.
        moved: Bytes at M and N.
        slowest: Take the longest time that rounds to the one printed.
    """
    assert series.rows is not None
    times = zip(series.sizes, series.kernels[kernel], strict=True)
    return {
        n: moved(series.rows, n) / (rounded(time).high if slowest else time) / 1e3
        for n, time in times
    }


def band(ratio: Ratio) -> Interval:
    """All that a stated ratio may mean."""
    return Interval(ratio.low, ratio.high).widened(ABOUT if ratio.about else 0.0)


def said(ratio: Ratio) -> str:
    """A stated ratio in words."""
    ends = f"{ratio.low:g}" if ratio.low == ratio.high else f"{ratio.low:g} to {ratio.high:g}"
    return f"{'about ' * ratio.about}{ends} times"
