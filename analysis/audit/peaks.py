"""Rules: a stated peak is the most that the same text shows, and its order is the order there."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.audit.drawn import band, quotients, rates, said, speedups
from analysis.audit.finding import Finding
from analysis.audit.interval import Interval, rounded
from analysis.audit.known import Known
from analysis.audit.wording import gbps, number, numbers, widths
from analysis.published import Level


def above_own_peak(known: Known) -> Iterator[Finding]:
    """Input and output over printed times, against the peak that the same source states."""
    for letter, level in known.levels("peak"):
        for other, series in known.drawn(letter, level.kernel):
            dtype = known.sources[other].dtype

            def moved(rows: int, cols: int, dtype: str = dtype) -> int:
                return known.compulsory_bytes(rows, cols, dtype)

            found = rates(series, level.kernel, moved)
            least = rates(series, level.kernel, moved, slowest=True)
            above = [n for n in series.sizes if least[n] > rounded(level.high).high]
            shown = [found[n] for n in above or series.sizes]
            where = f", {widths(above, series.sizes)}" if above else ""
            yield Finding(
                other,
                f"{series.figure} {level.kernel} against {level.claim}{where}",
                "self-contradictory" if above else "consistent",
                f"{level.claim}: peak {gbps(level.high)}",
                f"{numbers(shown)} GB/s",
                f"Input and output over the printed times give {number(min(shown))} to "
                f"{gbps(max(shown))}, and {level.claim} states a peak of {gbps(level.high)}.",
            )


def order(known: Known) -> Iterator[Finding]:
    """Of two kernels that move the same bytes, the faster at every width has the higher peak."""
    for letter, high, low in _pairs(known):
        for _, series in known.drawn(letter, high.kernel, low.kernel):
            ratios = speedups(series, high.kernel, low.kernel)
            slower = all(ratio.low > 1 for ratio in ratios.values())
            values = list(quotients(series, high.kernel, low.kernel).values())
            yield Finding(
                letter,
                f"{high.claim} against {series.figure}",
                "self-contradictory" if slower else "consistent",
                f"peaks: {high.kernel} {gbps(high.high)}, {low.kernel} {gbps(low.high)}",
                f"{high.kernel} takes {numbers(values)} times as long",
                f"{high.kernel} has the higher peak, and for the same bytes takes "
                f"{min(values):.2f} to {max(values):.2f} times as long as {low.kernel} as drawn.",
            )


def against_ratios(known: Known) -> Iterator[Finding]:
    """A ratio said of two kernels without exception is the ratio of their peaks too."""
    for letter, high, low in _pairs(known):
        follows = low.high / high.high
        for other, ratio, slower in known.ratios():
            if (ratio.kernel, slower) != (low.kernel, high.kernel):
                continue
            if not known.same_code(letter, other):
                continue
            agrees = band(ratio).meets(Interval(follows, follows))
            yield Finding(
                other,
                f"{ratio.claim} against {high.claim}",
                "consistent" if agrees else "self-contradictory",
                f"{ratio.kernel} {said(ratio)} as fast as {slower}",
                f"{follows:.2f} times by the peaks",
                f"Of the same code, {high.claim} has peaks of {gbps(low.high)} and "
                f"{gbps(high.high)}: {ratio.kernel} at {follows:.2f} times {slower}.",
            )


def floors(known: Known) -> Iterator[Finding]:
    """A bandwidth said to be kept up is no higher than the peak stated of the same code."""
    for letter, floor in known.levels("floor"):
        for other, peak in known.levels("peak"):
            if floor.kernel != peak.kernel or not known.same_code(letter, other):
                continue
            yield Finding(
                letter,
                f"{floor.claim} against {peak.claim}",
                "consistent" if floor.low <= peak.high else "self-contradictory",
                f"at least {gbps(floor.low)}",
                f"peak {gbps(peak.high)}",
                f"{floor.claim} keeps up {gbps(floor.low)}, {peak.claim} peaks at "
                f"{gbps(peak.high)}.",
            )


def _pairs(known: Known) -> Iterator[tuple[str, Level, Level]]:
    """Two peaks of one source, the higher first, of kernels that move the same."""
    stated = list(known.levels("peak"))
    for letter, high in stated:
        for other, low in stated:
            same = letter == other and known.traffic_limit(high.kernel, low.kernel) == 1
            if same and high.high > low.high:
                yield letter, high, low
