"""Plausibility of times against each other: the copy roof, the card's memory, other widths."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from analysis.validation.finding import Finding
from analysis.validation.reading import Placed
from analysis.validation.sweeps import Sweep
from experiments.data.cards import Card, card_of
from experiments.data.metrics import derive, gbps, latest

# A copy by the library may be slower than what L2 serves; on an H200 kernels reach 1.06 of it by a
# card's own timers. The host's clock tells launches of small shapes too, and proves nothing.
FAR_ABOVE = 1.25
BEYOND_L2 = 4  # times L2: of a matrix that large next to nothing is left there
# Twice the columns take up to a tenth less on an H200, where a library changes its algorithm.
MUCH_LESS = 0.5


def limits(sweep: Sweep) -> Iterator[Finding]:
    """Points above their roof, above the datasheet, or faster than much narrower ones."""
    places = {id(placed.row): placed for placed in sweep.rows}
    rows = latest(placed.row for placed in sweep.rows)
    timed: list[tuple[Placed, dict[str, Any]]] = [
        (places[id(row)], told)
        for row, told in zip(rows, derive(rows), strict=True)
        if told["effective_gbps"] is not None
    ]
    cards = {gpu: card_of(gpu) for gpu in {told["gpu"] for _, told in timed}}
    timed.sort(key=lambda one: -(one[1]["fraction_of_roof"] or 0))
    for placed, told in timed:
        if told["roof_gbps"] is None:
            what = f"{_name(told)}: timed with no copy beside it"
            yield Finding("completeness", "missing roof", placed.where, what)
        elif told["above_roof"]:
            share = told["fraction_of_roof"]
            grave = share > FAR_ABOVE and told["timer"] != "host"
            kind = "far above the roof" if grave else "above the roof"
            suspect = f"; flagged: {told['suspect'][0]}" if told["suspect"] else ""
            what = f"{_name(told)}: {share:.0%} of the copy's bandwidth{suspect}"
            yield Finding("plausibility", kind, placed.where, what, grave)
        if beyond := _beyond(told, cards[told["gpu"]]):
            yield Finding("plausibility", "above the datasheet", placed.where, beyond)
    yield from _shrinking(timed)


def _beyond(told: dict[str, Any], card: Card) -> str | None:
    """Faster than the card's memory: by all bytes where L2 cannot help, else by what is read.

    Cold, at least half of the compulsory bytes are read, and none of them lies in L2.
    """
    peak, cache = card.peak_gbps, card.l2_bytes
    if peak is None:
        return None
    large = cache is not None and told["compulsory_bytes"] > BEYOND_L2 * cache
    if not large and told["cache"] != "cold":
        return None
    moved = told["compulsory_bytes"] / (1 if large else 2)
    reached = gbps(moved, told["time_us"])
    if reached <= peak:
        return None
    which = "" if large else " of reads"
    return f"{_name(told)}: {reached:,.0f} GB/s{which}; {card.name} has {peak:,.0f}"


def _shrinking(timed: list[tuple[Placed, dict[str, Any]]]) -> Iterator[Finding]:
    """At least twice the columns in less than half of the time."""
    lines: dict[tuple[Any, ...], dict[int, tuple[Placed, dict[str, Any]]]] = defaultdict(dict)
    for placed, told in timed:
        alike = ("kernel", "dtype", "rows", "timer", "cache", "round", "card")
        lines[(str(told["params"]), *(told[name] for name in alike))][told["cols"]] = placed, told
    for line in lines.values():
        slowest: tuple[int, float] | None = None
        for cols in sorted(line):
            placed, told = line[cols]
            if slowest and cols >= 2 * slowest[0] and told["time_us"] < MUCH_LESS * slowest[1]:
                before = f"{slowest[1]:.4g} at N = {slowest[0]}"
                what = f"{_name(told)}: {told['time_us']:.4g} µs, and {before}"
                yield Finding("plausibility", "wider and faster", placed.where, what, grave=False)
            if slowest is None or told["time_us"] > slowest[1]:
                slowest = cols, told["time_us"]


def _name(told: dict[str, Any]) -> str:
    return f"{told['kernel']} {told['rows']}×{told['cols']} {told['dtype']}"
