"""Rule: a ratio of traffic is what the models approach, and drawn times approach it too."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.audit.drawn import quotients, speedups
from analysis.audit.finding import Finding
from analysis.audit.interval import Interval, rounded
from analysis.audit.known import Known
from analysis.audit.wording import numbers


def against_models(known: Known) -> Iterator[Finding]:
    """The stated limit is that of the recorded formulas."""
    for letter, source in known.sources.items():
        for told in source.statements.traffic_limits:
            limit = known.traffic_limit(told.larger, told.smaller)
            larger, smaller = (known.model(k).formula for k in (told.larger, told.smaller))
            agrees = rounded(told.value).meets(Interval(limit, limit))
            yield Finding(
                letter,
                f"{told.at}, against the models",
                "consistent" if agrees else "wrong",
                f"{told.value}",
                f"{limit:g}",
                f"({larger}) / ({smaller}) tends to {limit:g} as N grows.",
            )


def against_series(known: Known) -> Iterator[Finding]:
    """Drawn times come no farther from the stated limit as N grows, whatever rounded to them.

    Launches weigh less and traffic more, the wider the rows.
    """
    for letter, source in known.sources.items():
        for told in source.statements.traffic_limits:
            for _, series in known.drawn(letter, told.larger, told.smaller):
                drawn = speedups(series, told.larger, told.smaller)
                values = list(quotients(series, told.larger, told.smaller).values())
                narrow, wide = series.sizes[0], series.sizes[-1]
                limit = float(told.value)
                departs = _nearest(drawn[wide], limit) > _farthest(drawn[narrow], limit)
                yield Finding(
                    letter,
                    f"{told.at} against {series.figure}",
                    "self-contradictory" if departs else "consistent",
                    f"the ratio of traffic approaches {told.value}",
                    f"{numbers(values)} times",
                    f"{told.larger} over {told.smaller} as drawn goes from {values[0]:.2f} at N = "
                    f"{narrow:,} to {values[-1]:.2f} at {wide:,}, where traffic counts most.",
                )


def _nearest(drawn: Interval, limit: float) -> float:
    return max(drawn.low - limit, limit - drawn.high, 0.0)


def _farthest(drawn: Interval, limit: float) -> float:
    return max(abs(drawn.low - limit), abs(drawn.high - limit))
