"""How near `auto` is to the limit, in full and in short, and how far cards lie apart."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis import limits, spread
from analysis.compare.points import recorded_noise
from analysis.estimate import Estimate, geometric_mean
from analysis.figures.limits import file_of
from analysis.figures.style import CACHES
from analysis.format import Cell, NamedTable, Table, decimals, interval_text, number, number_text
from analysis.limits import OWN, SHORT_US, LimitPoint
from analysis.load import Inputs
from analysis.published import OPERATION
from analysis.selection import timer_label
from analysis.spread import Cards, cards_of
from experiments.data.cards import card_of
from experiments.data.statistics import unconverged

LIMITS_NOTES = (
    "Times are geometric means of the rounds' medians, µs; intervals are 95 %, their unit the "
    "recording, or the round where there is one recording. Bold: fastest softmax. × best peer, "
    "× torch: its time over that of auto in the same round. Of roof: the faster copy's time over "
    "that of auto. Launch: programs × warps of what auto chose.",
    f"~ below {SHORT_US:g} µs, where timers step by half a microsecond. "
    "! above the roof by more than its interval: not a win; in means the copy's time replaces it. "
    "A word in place of a time: why there is none; incorrect answers are not timed.",
)
OTHER_NOTES = (
    "Times are geometric means of the rounds' medians, µs; intervals are 95 %, their unit the "
    "recording, or the round where there is one recording. Bold: fastest of the operation. × best "
    "peer, × torch: its time over that of our choice in the same round. MB: what any kernel of the "
    "operation moves. Of roof: our share of the bandwidth of the fastest kernel that only moves; "
    "where arithmetic alone takes longer than that kernel, its time over ours.",
)
LARGE = f"{limits.LARGE_BYTES / 1e6:.0f} MB"
PARTS: tuple[tuple[str, Callable[[LimitPoint], bool]], ...] = (  # the headline first
    (f"{LARGE} and more", lambda point: point.large),
    ("1 GB and more", lambda point: point.moved_bytes >= 1e9),
    (f"16 MB to {LARGE}", lambda point: 16e6 <= point.moved_bytes < limits.LARGE_BYTES),
    ("below 16 MB", lambda point: point.moved_bytes < 16e6),
    ("M above 4096", lambda point: point.rows > 4096),
    ("M from 65 to 4096", lambda point: 64 < point.rows <= 4096),
    ("M up to 64", lambda point: point.rows <= 64),
    (f"below {SHORT_US:g} µs", lambda point: point.short),
    ("all", lambda point: True),
)
SUMMARY_NOTES = (
    f"× best peer: the time of the fastest public softmax measured over that of {OWN}, in the same "
    "round. Means are geometric, with a 95 % interval whose unit is the recording, or the round "
    "where there is one recording; by recording: the range of what each gives alone. Summed: all "
    f"times of the best peer over all of {OWN}. Peer less {OWN}: µs, the median of the points and "
    f"their range. MB: of 2MN. Of roof: the faster copy's time over that of {OWN}.",
    f"Widths: tuned are those of the grids {', '.join(limits.TUNED)}, on which {OWN} was tuned; "
    "all others are held out.",
    f"Behind: points where the best peer takes less than {limits.LEAST:g} of the time of {OWN}; "
    f"below {SHORT_US:g} µs, where it is done more than {limits.STEP_US:g} µs sooner.",
)
ABOVE = (
    "Above the copy roof by more than their interval: {} points. There the copy's time replaces "
    f"that of {OWN} in the means."
)
FAILED = "Without a time, and so not among the peers there: {}."
LIMIT_PLACE = ("gpu", "timer", "cache", "tuned", "dtype", "rows", "cols", "moved_bytes")
CARD_HEADS = ("GPU", "sweep", "points", "count", "card", "mean", "5 % to 95 % of points", "least",
              "most", "most at")  # fmt: skip


def limits_tables(inputs: Inputs) -> list[NamedTable]:
    """At every shape each peer's time, that of `auto` and of the roof, softmax first.

    Each operation and protocol has a table, and another for widths that `auto` was not tuned on.
    """
    return [
        _limits_table(points)
        for operation in limits.operations_of(inputs.frame)
        for points in limits.groups_of(limits.points_of(inputs.frame, operation))
    ]


def limits_summary(inputs: Inputs) -> list[NamedTable]:
    """The same in few numbers: the large points first, the mean of all points last."""
    groups = limits.groups_of(limits.points_of(inputs.frame))
    several = len({points[0].gpu for points in groups}) > 1
    lines = []
    for text, inside in PARTS:
        for points in groups:
            if part := [point for point in points if inside(point)]:
                gpu = [card_of(points[0].gpu).name] * several
                place = [text, _protocol(points[0]), points[0].widths]
                lines.append([*gpu, *place, *_summary(part)])
    above = sum(point.above_roof for points in groups for point in points)
    heads = [*["GPU"] * several, "points", "timer", "widths", "count", "× best peer",
             "by recording", "summed", f"peer less {OWN}, µs", "× torch", "least × best peer",
             "behind", "least of roof"]  # fmt: skip
    notes = [*SUMMARY_NOTES, *[ABOVE.format(above)] * bool(above), *_peers_notes(groups)]
    table = Table("At the limit, in short", heads, lines, notes)
    return [NamedTable("limits_summary", table)]


def _peers_notes(groups: Sequence[Sequence[LimitPoint]]) -> list[str]:
    """Which public kernels were measured, which exist beside them, and which failed where."""
    points = [point for group in groups for point in group]
    names = [name for name in limits.PEERS if any(point.has(name) for point in points)]
    failed = [f"{one} {how} at {p.name}" for p in points for one, how in p.failed.items()]
    notes = [f"Public softmax measured: {', '.join(names)}. Not measured: {limits.ELSEWHERE}."]
    return notes + [FAILED.format("; ".join(dict.fromkeys(failed)))] * bool(failed)


def card_to_card(inputs: Inputs) -> list[NamedTable]:
    """Each card's time over the mean of all, and the slowest over the fastest."""
    found = cards_of(inputs.frame)
    lines = [line for cards in found for line in _card_lines(cards)]
    every = pd.DataFrame(
        [
            {"gpu": cards.gpu, "sweep": cards.sweep, **{n: point.row[n] for n in spread.POINT},
             "card": card, "rounds": ratio.rounds, "mean_us": point.mean_us,
             "ratio": ratio.value, "ratio_low": ratio.low, "ratio_high": ratio.high}
            for cards in found for point in cards.points for card, ratio in point.ratios.items()
        ]
    )  # fmt: skip
    title = "Card to card: a card's time over the mean of all"
    table = Table(title, CARD_HEADS, lines, _card_notes())
    return [NamedTable("card_to_card", table, Table.of(title, every))]


def _protocol(point: LimitPoint) -> str:
    return f"{timer_label(point.timer)}, {CACHES.get(point.cache, point.cache)}"


def _limits_table(points: Sequence[LimitPoint]) -> NamedTable:
    first = points[0]
    tried = {name for point in points for name in (*filter(point.has, point.seen), *point.failed)}
    names = [
        *sorted(filter(first.roofs.__contains__, tried), key=limits.roof_order),
        *sorted(filter(limits.maker, tried), key=limits.peer_order),
    ]
    heads = ["M×N", "dtype", "MB", *names, first.own, "95 %", "launch", "best peer", "× best peer",
             "interval", "× torch", "of roof"]  # fmt: skip
    other = [first.operation] * (first.operation != OPERATION)
    place = [*other, card_of(first.gpu).name, _protocol(first), f"{first.widths} widths"]
    title = f"At the limit: {', '.join(place)}"
    numbers = [_limits_numbers(point, names) for point in points]
    ended = _stop_notes(points, [*names, first.own])
    lines = [_limits_line(*pair, names) for pair in zip(points, numbers, strict=True)]
    notes = [*OTHER_NOTES, LIMITS_NOTES[1]] if other else LIMITS_NOTES
    table = Table(title, heads, lines, [*notes, *ended])
    return NamedTable(file_of("limits", first), table, Table.of(title, pd.DataFrame(numbers)))


def _limits_line(point: LimitPoint, numbers: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """The numbers of a point as text."""
    low, high = numbers[f"{point.own}_low_us"], numbers[f"{point.own}_high_us"]
    times = {name: numbers[f"{name}_us"] for name in (*names, point.own)}
    fastest = min(us for name, us in times.items() if us and name not in point.roofs)
    digits = min(decimals(min(filter(None, times.values())), low, high), 2)
    cells = [
        point.failed.get(name)
        or Cell(number_text(us, digits), strong=name not in point.roofs and us == fastest)
        for name, us in times.items()
    ]
    share = numbers["roof_ratio"]
    return [
        f"{point.rows}×{point.cols}",
        point.dtype,
        number_text(point.moved_bytes / 1e6),
        *cells,
        interval_text(low, high, digits),
        numbers["launch"],
        numbers["best_peer"],
        f"{numbers['best_ratio']:.3f}{'~' * point.short}",
        interval_text(numbers["best_low"], numbers["best_high"], 3),
        number_text(numbers["torch_ratio"], 2),
        "–" if math.isnan(share) else f"{100 * share:.1f} %{'!' * point.above_roof}",
    ]


def _stop_notes(points: Sequence[LimitPoint], names: Sequence[str]) -> list[str]:
    """How many times of how many are of rows that stopped before they converged, by reason."""
    reasons = [
        unconverged(row["stop_reason"])
        for point in points
        for name in names
        for row in point.seen.get(name, {}).values()
    ]
    counts = Counter(filter(None, reasons))
    texts = [f"{reason} {count:,}" for reason, count in counts.most_common()]
    rows = f"Of {len(reasons):,} rows, "
    return [rows + "; ".join(texts) + ". The machine's table names them."] if texts else []


def _unconverged(point: LimitPoint, names: Sequence[str]) -> str:
    """The variants of which some visit stopped before it converged, and why."""
    found = {
        name: "; ".join(dict.fromkeys(
            text for row in point.seen.get(name, {}).values()
            if (text := unconverged(row["stop_reason"]))
        ))
        for name in names
    }  # fmt: skip
    return ", ".join(f"{name} {text}" for name, text in found.items() if text)


def _launch(point: LimitPoint) -> str:
    """Programs × warps that `auto` chose to launch, where its rows have them."""
    row = next(iter(point.seen[point.own].values()))
    programs, warps = number(row, "programs"), number(row, "warps")
    return "–" if programs is None or warps is None else f"{programs:.0f}×{warps:.0f}"


def _limits_numbers(point: LimitPoint, names: Sequence[str]) -> dict[str, Any]:
    """The same for machines: numbers as they are, each ratio with its interval."""
    own, nothing = point.time_of(point.own), Estimate(math.nan, math.nan, math.nan)
    ratios = {
        "best": point.ratio(point.best),
        "torch": point.ratio(torch) if (torch := point.rival("torch")) else nothing,
        "roof": point.share or nothing,
    }
    numbers = {
        **{name: getattr(point, name) for name in LIMIT_PLACE},
        "rounds": own.rounds,
        **{f"{name}_us": point.us(name) if point.has(name) else None for name in names},
        f"{point.own}_us": own.value,
        f"{point.own}_low_us": own.low,
        f"{point.own}_high_us": own.high,
        "launch": _launch(point),
        "best_peer": point.best,
    }
    for name, ratio in ratios.items():
        ends = {"ratio": ratio.value, "low": ratio.low, "high": ratio.high}
        numbers |= {f"{name}_{end}": value for end, value in ends.items()}
    failed = "; ".join(f"{name}: {status}" for name, status in point.failed.items())
    ended = _unconverged(point, [*names, point.own])
    return numbers | {"above_roof": point.above_roof, "unconverged": ended, "failed": failed}


def _summary(points: Sequence[LimitPoint]) -> list[str]:
    best, summed, least = limits.geomean(points), limits.summed(points), limits.worst(points)
    assert best
    assert summed
    assert least
    spread = "{:.3f}–{:.3f}".format(*best.spread) if best.spread else "–"
    gaps = [point.difference(point.best).value for point in points]
    gap = f"{np.median(gaps):.2f} ({min(gaps):.2f} to {max(gaps):.2f})"
    shares = [(p.share.value, p.name) for p in points if p.share is not None]
    share, name = min(shares, key=lambda pair: pair[0], default=(None, ""))
    return [
        str(len(points)),
        _mean(best),
        spread,
        f"{summed.value:.3f}",
        gap if all(point.short for point in points) else "–",
        _mean(limits.geomean(points, "torch")),
        f"{least[1].value:.3f} at {least[0].name} ({least[0].best})",
        str(sum(p.behind for p in points)),
        "–" if share is None else f"{100 * share:.1f} % at {name}",
    ]


def _mean(mean: Estimate | None) -> str:
    return "–" if mean is None else f"{mean.value:.3f} ({mean.low:.3f}–{mean.high:.3f})"


def _card_lines(cards: Cards) -> list[list[str]]:
    """Of long and of short points a line per card, then one of the slowest over the fastest."""
    lines = []
    for text, short in (("{:g} µs and more", False), ("below {:g} µs", True)):
        points = [p for p in cards.points if (p.mean_us < spread.SHORT_US) is short]
        place = [card_of(cards.gpu).name, cards.sweep, text.format(spread.SHORT_US),
                 f"{len(points):,}"]  # fmt: skip
        ratios = {str(c): [p.ratios[c].value for p in points] for c in cards.cards}
        ratios["slowest / fastest"] = [p.spread for p in points]
        for name, values in ratios.items() if points else ():
            low, high = np.quantile(values, [0.05, 0.95])
            lines.append([*place, name, f"{geometric_mean(values):.4f}", f"{low:.4f}–{high:.4f}",
                          f"{min(values):.4f}", f"{max(values):.4f}",
                          points[int(np.argmax(values))].name])  # fmt: skip
    return lines


def _card_notes() -> list[str]:
    gpu, ranges = recorded_noise()
    floors = [f"{'above' if r.below_us is None else 'below'} "
              f"{ranges[-2].below_us if r.below_us is None else r.below_us:g} µs "
              f"{100 * r.floor:.2g} %" for r in ranges]  # fmt: skip
    return [
        "Points that every card measured, in one sweep. The mean is over cards and geometric, and "
        "so is that over points. A card is named by its index on its host.",
        f"For comparison, two sweeps on one card ({gpu}): 5 % of points differ by more than, each "
        f"range from the one before it, {', '.join(floors)}.",
    ]
