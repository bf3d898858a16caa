"""Rules: statements about how fast two kernels are must be able to hold together."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.audit.drawn import band, quotients, said, speedups
from analysis.audit.finding import Finding
from analysis.audit.interval import Interval
from analysis.audit.known import Known
from analysis.audit.wording import numbers, widths


def against_series(known: Known) -> Iterator[Finding]:
    """A stated ratio is the drawn one at every width that it is said of."""
    for letter, ratio, slower in known.ratios():
        for _, series in known.drawn(letter, ratio.kernel, slower):
            least, most = ratio.widths or (min(series.sizes), max(series.sizes))
            asked = [n for n in series.sizes if least <= n <= most]
            drawn = speedups(series, slower, ratio.kernel)
            values = quotients(series, slower, ratio.kernel)
            off = [n for n in asked if not drawn[n].meets(band(ratio))]
            outside = f"outside that at {len(off)} of {len(asked)} widths, {widths(off, asked)}"
            yield Finding(
                letter,
                f"{ratio.claim} against {series.figure}",
                "self-contradictory" if off else "consistent",
                f"{ratio.kernel} {said(ratio)} as fast as {slower}",
                f"{numbers([values[n] for n in asked])} times",
                f"Drawn, {slower} over {ratio.kernel} is {outside if off else 'that throughout'}.",
            )


def wins(known: Known) -> Iterator[Finding]:
    """A kernel said to win at most widths does so where times are drawn."""
    for letter, source in known.sources.items():
        for win in source.statements.wins:
            for _, series in known.drawn(letter, win.faster, win.slower):
                drawn = speedups(series, win.slower, win.faster)
                won = [n for n in drawn if drawn[n].high > 1]
                values = quotients(series, win.slower, win.faster)
                yield Finding(
                    letter,
                    f"{win.at} against {series.figure}",
                    "consistent" if 2 * len(won) > len(drawn) else "self-contradictory",
                    f"{win.faster} beats {win.slower} at most widths",
                    f"at {len(won)} of {len(drawn)}",
                    f"{win.slower} over {win.faster} as drawn is {numbers(list(values.values()))}.",
                )


def exceptions(known: Known) -> Iterator[Finding]:
    """A ratio said without exception leaves none for "most widths", said of the same code."""
    for letter, source in known.sources.items():
        for win in source.statements.wins:
            for other, ratio, slower in known.ratios():
                if (ratio.kernel, slower) != (win.faster, win.slower):
                    continue
                if not known.same_code(letter, other):
                    continue
                yield Finding(
                    other,
                    f"{ratio.claim} against {win.at}",
                    "consistent" if band(ratio).low <= 1 else "self-contradictory",
                    f"{ratio.kernel} {said(ratio)} as fast as {slower}",
                    f"{win.at}: faster at most widths",
                    f"{said(ratio).capitalize()} leaves no width at which {slower} is as fast, and "
                    f"“most widths”, said of the same code, leaves some.",
                )


def triangle(known: Known) -> Iterator[Finding]:
    """Two ratios of one kernel give a third: who moves fewer bytes is not the slower one."""
    told = list(known.ratios())
    for letter, one, library in told:
        for other, two, long in told:
            if letter != other or one.kernel != two.kernel or library == long:
                continue
            model = known.traffic_limit(long, library)
            if model <= 1:  # each pair once, from the side that moves less
                continue
            follows = Interval(two.low, two.high) / Interval(one.low, one.high)
            speed = f"{follows.low:.2f} to {follows.high:.2f} times as fast as {long}"
            formulas = [known.model(kernel).formula for kernel in (library, long)]
            yield Finding(
                letter,
                f"{one.claim} against {two.claim}",
                "self-contradictory" if follows.high <= 1 else "consistent",
                f"{one.kernel} {said(one)} as fast as {library}, {said(two)} as fast as {long}",
                f"{library} {speed}",
                f"Together they make {library}, which moves {formulas[0]}, {speed}, which moves "
                f"{formulas[1]}, {model:g} times as much.",
            )
