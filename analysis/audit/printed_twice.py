"""Rules: numbers that are printed twice, in one form or two, must be the same number."""

from __future__ import annotations

import re
from collections.abc import Iterator

from analysis.audit.finding import Finding
from analysis.audit.interval import Interval, rounded
from analysis.audit.known import Known, itemsize
from analysis.audit.words import ABOUT
from analysis.formula import elements

_THOUSANDS = (1000, 1024)


def time_and_bandwidth(known: Known) -> Iterator[Finding]:
    """A printed bandwidth is the source's own bytes over the time printed beside it."""
    for letter, source in known.sources.items():
        for timing in source.statements.timings:
            moved = elements(timing.moves, timing.rows, timing.cols) * itemsize(timing.dtype)
            value = moved / float(timing.time_ms) / 1e6
            time = rounded(timing.time_ms)
            follows = Interval(moved / time.high / 1e6, moved / time.low / 1e6)
            agrees = rounded(timing.gbps).meets(follows)
            yield Finding(
                letter,
                f"{timing.at} {timing.kernel}",
                "consistent" if agrees else "wrong",
                f"{timing.time_ms} ms, {timing.gbps} GB/s",
                f"{value:.2f} GB/s",
                f"{timing.moves} of {timing.dtype} at {timing.rows}×{timing.cols} are {moved:,} "
                f"bytes, over what rounds to {timing.time_ms} ms {follows.low:.2f} to "
                f"{follows.high:.2f} GB/s.",
            )


def plateau(known: Known) -> Iterator[Finding]:
    """A timing beyond the width from which a band is stated lies in the band, or about there."""
    for letter, source in known.sources.items():
        for level in source.levels:
            trends = [t for t in source.statements.trends if t.at == level.claim]
            beyond = min((t.beyond for t in trends if t.kernel == level.kernel), default=1)
            for timing in source.statements.timings:
                if level.of != "plateau" or timing.kernel != level.kernel or timing.cols < beyond:
                    continue
                value = float(timing.gbps)
                off = max(level.low - value, value - level.high, 0.0) / level.low
                yield Finding(
                    letter,
                    f"{level.claim} against {timing.at} {timing.kernel}",
                    "consistent" if off <= ABOUT else "self-contradictory",
                    f"{level.low:g} to {level.high:g} GB/s from N ≈ {beyond}",
                    f"{timing.gbps} GB/s at N = {timing.cols}",
                    f"It is {off:.1%} outside the band, which is given {ABOUT:.0%} as read off a "
                    "curve.",
                )


def row_sizes(known: Known) -> Iterator[Finding]:
    """Bytes a row are its elements times their size, K meaning the same in both."""
    for letter, source in known.sources.items():
        for row in source.statements.row_sizes:
            cols, in_thousands = _count(row.cols)
            size, _ = _count(row.size)
            by = (1,) if in_thousands else _THOUSANDS
            agrees = any(
                rounded(size).meets(itemsize(row.dtype) / k * Interval(cols, cols)) for k in by
            )
            yield Finding(
                letter,
                f"{row.at}, a row of {row.cols}",
                "consistent" if agrees else "wrong",
                row.size,
                f"{cols:g}{'K' * in_thousands} × {itemsize(row.dtype)} B",
                f"{row.cols} elements of {row.dtype} are {itemsize(row.dtype) * cols:,.0f}"
                f"{'K' * in_thousands} bytes.",
            )


def settings(known: Known) -> Iterator[Finding]:
    """A setting has one value."""
    for letter, source in known.sources.items():
        for setting in source.statements.settings:
            values = sorted(set(setting.values))
            told = " and ".join(map(str, values))
            yield Finding(
                letter,
                f"{setting.at}, {setting.name}",
                "consistent" if len(values) == 1 else "self-contradictory",
                told,
                "one value",
                f"The places that give the {setting.name} give {len(values)} values: {told}.",
            )


def _count(text: str) -> tuple[float, bool]:
    """``12K`` or ``48 KB`` as a number, and whether it is in thousands."""
    match = re.fullmatch(r"([\d.]+) ?(K?)B?", text)
    if match is None:
        raise ValueError(f"{text!r} is no size such as 65536, 12K or 48 KB")
    return float(match[1]), bool(match[2])
