"""Plausibility of the machine: one kind of card, one set of versions, clocks it can reach."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from analysis.format import visible
from analysis.validation.finding import Finding, some
from analysis.validation.sweeps import Sweep
from experiments.data.cards import card_of
from experiments.data.rows import Row

VERSIONS = ("torch", "triton", "cuda", "driver", "python", "commit")
OVER = 1.01  # a clock's last step


def machine(sweep: Sweep) -> Iterator[Finding]:
    """Mixed cards or environments, impossible clocks, and what a reader of the rows must know."""
    rows = [placed.row for placed in sweep.rows]
    where = sweep.at()
    gpus = sorted({visible(row.gpu, 80) for row in rows})
    if len(gpus) > 1:
        what = f"rows of {', '.join(gpus)}: a folder for each"
        yield Finding("plausibility", "mixed cards", where, what)
    yield from _card(sweep)
    for name in VERSIONS:
        if len(told := sorted({_version(row, name) for row in rows})) > 1:
            what = f"rows of {len(told)} versions of {name}: {some(told)}"
            yield Finding("plausibility", "mixed environments", where, what, grave=False)
    if dirty := sum(row.environment.get("dirty") is not False for row in rows):
        what = f"{dirty:,} of {len(rows):,} rows name no commit whose code they measured"
        yield Finding("plausibility", "no clean commit", where, what, grave=False)
    reasons = Counter(reason.split(":")[0] for row in rows for reason in row.suspect)
    if reasons:
        each = ", ".join(f"{visible(name, 40)} {count:,}" for name, count in reasons.most_common())
        what = f"{sum(bool(r.suspect) for r in rows):,} rows were flagged as measured: {each}"
        yield Finding("plausibility", "suspect rows", where, what, grave=False)
    yield from _twice(sweep)


def _card(sweep: Sweep) -> Iterator[Finding]:
    cards = {gpu: card_of(gpu) for gpu in {placed.row.gpu for placed in sweep.rows}}
    for job in sweep.jobs:
        match = (job.config.get("gpu") or {}).get("match")
        for placed in job.rows:
            row = placed.row
            if isinstance(match, str) and not _matches(match, row.gpu):
                what = f"a row of {visible(row.gpu, 80)} in a job for {match!r}"
                yield Finding("plausibility", "mixed cards", placed.where, what)
            datasheet = cards[row.gpu].facts.get("clock_mhz")
            for clock, highest in (
                (row.sm_clock_mhz, _setup(row, "max_sm_clock_mhz") or datasheet),
                (row.memory_clock_mhz, _setup(row, "max_memory_clock_mhz")),
            ):
                if clock and highest and clock > OVER * highest:
                    what = f"a clock of {clock:,.0f} MHz, where this card reaches {highest:,.0f}"
                    yield Finding("plausibility", "impossible clock", placed.where, what)
            if row.throttled and not row.suspect:
                what = f"throttled ({some(row.throttled)}) and not flagged"
                yield Finding("plausibility", "throttled", placed.where, what, grave=False)


def _twice(sweep: Sweep) -> Iterator[Finding]:
    """Points that stand there twice, because code, versions or protocol changed in between."""
    keys: dict[tuple[Any, ...], set[str]] = defaultdict(set)
    for job in sweep.jobs:
        for row in (placed.row for placed in job.rows):
            keys[job.place, row.rows, row.cols, row.dtype, row.round, row.card].add(row.key)
    count = Counter(place.as_posix() for (place, *_), known in keys.items() if len(known) > 1)
    for place, points in count.items():
        what = f"{points:,} measured by two versions of code, library or protocol"
        yield Finding("plausibility", "measured twice", sweep.at(place), what, grave=False)


def _matches(match: str, gpu: str) -> bool:
    try:
        return re.search(match, gpu) is not None
    except re.error:
        return False


def _setup(row: Row, name: str) -> float | None:
    """What the card itself said of its limits, where the row tells."""
    told = row.environment.get("card")
    value = told.get(name) if isinstance(told, dict) else None
    return value if isinstance(value, int | float) else None


def _version(row: Row, name: str) -> str:
    told = visible(str(row.environment.get(name) or "unknown"), 60)
    return told[:10] if name == "commit" else told
