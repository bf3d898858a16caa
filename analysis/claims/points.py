"""One verdict from many points: of each, of most of them, or of one number made of all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from analysis.claims.band import (
    INCONCLUSIVE,
    REFUTED,
    SUPPORTED,
    Band,
    Measure,
    Verdict,
    together,
)
from analysis.claims.bench import Seen
from analysis.claims.pool import Point
from analysis.claims.telling import many, measured, plain

MOST = Band(low=0.5, open=True)  # more than half


def each(points: Sequence[Point], band: Band, used: str) -> Seen:
    """Supported where every point is, refuted where one is; the number is the worst point's."""
    verdicts = [_verdict(point, band) for point in points]
    known = [(point, point.measure) for point in points if point.measure is not None]
    worst, measure = max(known, key=lambda pair: band.excess(pair[1].value), default=(None, None))
    told = _range(points)
    if len(points) > 1:
        told += f" over {_tally(verdicts)}"
    if worst and measure and " to " in told and together(verdicts) != SUPPORTED:
        told += f"; furthest off {measured(measure)} at {_at(worst)}"
    return Seen(together(verdicts), told, _range(points), measure, used, _rows(points))


def most(points: Sequence[Point], band: Band, used: str) -> Seen:
    """Supported where more than half of the points are.

    Points that may be either make the share an interval.
    """
    verdicts = [_verdict(point, band) for point in points]
    tally = Counter(verdicts)
    sure, open_ = tally[SUPPORTED], tally[INCONCLUSIVE]
    share = Measure(
        sum(_inside(point, band) for point in points) / len(points),
        sure / len(points),
        (sure + open_) / len(points),
    )
    brief = f"{100 * share.value:.0f} % of points"
    told = f"{brief} ({_range(points)} over {_tally(verdicts)})"
    return Seen(MOST.verdict(share.low, share.high), told, brief, share, used, _rows(points))


def _verdict(point: Point, band: Band) -> Verdict:
    if point.measure is None:
        return REFUTED
    return band.verdict(point.measure.low, point.measure.high)


def _inside(point: Point, band: Band) -> bool:
    return point.measure is not None and band.holds(point.measure.value)


def _range(points: Sequence[Point]) -> str:
    known = [(point, point.measure) for point in points if point.measure is not None]
    if len(known) == 1:
        return f"{measured(known[0][1])} at {_at(known[0][0])}"
    values = [measure.value for _, measure in known]
    return " to ".join(dict.fromkeys([plain(min(values)), plain(max(values))]))


def _at(point: Point) -> str:
    rows, cols, dtype = point.place
    return f"{rows}×{cols} {dtype}"


def _tally(verdicts: Sequence[Verdict]) -> str:
    tally = Counter(verdicts)
    told = f"{many(len(verdicts), 'point')}, {tally[SUPPORTED]} as expected"
    return told + (f", {tally[INCONCLUSIVE]} undecided" if tally[INCONCLUSIVE] else "")


def _rows(points: Sequence[Point]) -> tuple[int, ...]:
    return tuple(label for p in points if p.measure is not None for label in p.measure.rows)
