"""Rules: words about a curve, against each other and against the numbers they stand for."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from analysis.audit.finding import Finding
from analysis.audit.known import Known
from analysis.audit.words import LEAST_GAP


def exclusive(known: Known) -> Iterator[Finding]:
    """One curve does not run two ways over the same widths."""
    for letter, source in known.sources.items():
        for one, two in combinations(source.statements.trends, 2):
            if one.kernel != two.kernel:
                continue
            beyond = max(one.beyond, two.beyond)
            yield Finding(
                letter,
                f"{one.at} against {two.at}, {one.kernel}",
                "consistent" if one.trend == two.trend else "self-contradictory",
                f"“{one.words}” and “{two.words}”",
                f"{one.trend} and {two.trend}",
                f"From N = {beyond:,} on both speak of {one.kernel}: {one.trend} by {one.at}, "
                f"{two.trend} by {two.at}.",
            )


def gaps(known: Known) -> Iterator[Finding]:
    """A word for a gap is worth the least that a reader may expect of it."""
    for letter, source in known.sources.items():
        for told in source.statements.gaps:
            here = {t.kernel: t for t in source.statements.timings if t.at == told.timed_at}
            behind, ahead = float(here[told.kernel].gbps), float(here[told.against].gbps)
            gap, least = 1 - behind / ahead, LEAST_GAP[told.word]
            yield Finding(
                letter,
                f"{told.at} against {told.timed_at}",
                "consistent" if gap >= least else "self-contradictory",
                f"“{told.words}”",
                f"{gap:.1%}",
                f"{behind:.2f} is {gap:.1%} below {ahead:.2f} GB/s; {told.word} is taken as "
                f"{least:.0%} or more.",
            )
