"""Limits: at every shape each peer's time, that of `auto`, and how near it is to the copy."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.estimate import Estimate
from analysis.figure import slug
from analysis.format import Cell, Table, decimals, interval_text, number, number_text
from analysis.limits import COPIES, NEEDS, OWN, PEERS, SHORT_US
from analysis.limits.points import Point
from analysis.limits.rows import points_of
from analysis.load import Inputs
from analysis.style import CACHES, TIMERS
from analysis.tables.named import NamedTable
from experiments.data.cards import card_of

NOTES = (
    "Times are medians over rounds, µs; intervals are 95 %, their unit the round. Bold: fastest "
    "softmax. × best peer, × torch: its time over that of auto in the same round. Of roof: the "
    "faster copy's time over that of auto. Launch: programs × warps of what auto chose.",
    f"~ below {SHORT_US:g} µs, where timers step by half a microsecond. "
    "! above the roof by more than its interval: no win; in means the copy's time stands for it.",
)
ENDS = ("_ratio", "_low", "_high")


def limits_tables(material: Inputs) -> list[NamedTable] | str:
    """A table for each GPU and protocol, or what is missing."""
    points = points_of(material.frame)
    places = dict.fromkeys((p.gpu, p.timer, p.cache) for p in points)
    made = [_table([p for p in points if (p.gpu, p.timer, p.cache) == place]) for place in places]
    return made or f"limits needs {NEEDS}"


def _table(points: Sequence[Point]) -> NamedTable:
    first = points[0]
    names = [n for n in (*COPIES, *PEERS) if any(point.has(n) for point in points)]
    heads = ["M×N", "dtype", "MB", *names, OWN, "95 %", "launch", "best peer", "× best peer",
             "interval", "× torch", "of roof"]  # fmt: skip
    told = f"{card_of(first.gpu).name}, {TIMERS.get(first.timer, first.timer)}, "
    title = f"At the limit: {told}{CACHES.get(first.cache, first.cache)}"
    stem = f"limits-{slug(first.gpu)}-{first.timer}"
    stem += "" if first.cache == "cold" else f"-{first.cache}"
    lines = [_line(point, names) for point in points]
    return NamedTable(stem, Table(title, heads, lines, NOTES), _data(title, points, names))


def _line(point: Point, names: Sequence[str]) -> list[str]:
    own, best = point.time_of(OWN), point.ratio(point.best)
    times = {name: point.us(name) for name in names if point.has(name)}
    fastest = min(own.value, *(times[n] for n in times if n not in COPIES))
    digits = min(decimals(min(own.value, *times.values()), own.low, own.high), 2)
    cells = [_time(times.get(n), digits, n not in COPIES and times.get(n) == fastest)
             for n in names]  # fmt: skip
    share, torch = point.share, point.ratio("torch") if point.has("torch") else None
    return [
        f"{point.rows}×{point.cols}",
        point.dtype,
        number_text(point.moved_bytes / 1e6),
        *cells,
        _time(own.value, digits, own.value == fastest),
        interval_text(own.low, own.high, digits),
        launch(point),
        point.best,
        f"{best.value:.3f}{'~' * point.short}",
        interval_text(best.low, best.high, 3),
        "–" if torch is None else f"{torch.value:.2f}",
        "–" if share is None else f"{100 * share.value:.1f} %{'!' * point.above_roof}",
    ]


def launch(point: Point) -> str:
    """Programs × warps that `auto` launched, where its rows tell: what it chose there."""
    row = next(iter(point.seen[OWN].values()))
    programs, warps = number(row, "programs"), number(row, "warps")
    return "–" if programs is None or warps is None else f"{programs:.0f}×{warps:.0f}"


def _time(value: float | None, digits: int, strong: bool) -> str:
    return "–" if value is None else Cell(number_text(value, digits), strong=strong)


def _data(title: str, points: Sequence[Point], names: Sequence[str]) -> Table:
    """The same for machines: numbers as they are, each ratio with its interval."""
    heads = ["gpu", "timer", "cache", "dtype", "rows", "cols", "moved_bytes", "rounds",
             *(f"{name}_us" for name in (*names, OWN)), f"{OWN}_low_us", f"{OWN}_high_us", "launch",
             "best_peer", *(f"{over}{end}" for over in ("best", "torch", "roof") for end in ENDS),
             "above_roof"]  # fmt: skip
    return Table(title, heads, [_numbers(point, names) for point in points])


def _numbers(point: Point, names: Sequence[str]) -> list[str]:
    own = point.time_of(OWN)
    times = [_told(point.us(n)) if point.has(n) else "" for n in names]
    torch = point.ratio("torch") if point.has("torch") else None
    return [
        point.gpu, point.timer, point.cache, point.dtype, str(point.rows), str(point.cols),
        str(point.moved_bytes), str(own.rounds), *times,
        *_interval(own), launch(point), point.best, *_interval(point.ratio(point.best)),
        *_interval(torch), *_interval(point.share), str(point.above_roof).lower(),
    ]  # fmt: skip


def _interval(told: Estimate | None) -> list[str]:
    return [""] * 3 if told is None else [_told(told.value), _told(told.low), _told(told.high)]


def _told(value: float) -> str:
    return f"{value:.6g}"
