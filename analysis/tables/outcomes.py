"""What each variant did at one shape, as lines of cells: a number, or why there is none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from analysis.format import Cell, decimals, interval_text, number, number_text

Shape = tuple[int, int]
Point = Mapping[str, Any]


@dataclass(frozen=True)
class Legend:
    """Reasons, each with a letter that stands for it in the cells."""

    reasons: list[str] = field(default_factory=list)

    def mark(self, reason: str) -> str:
        """The letter of a reason: a, b, …, z, aa."""
        if reason not in self.reasons:
            self.reasons.append(reason)
        return _letter(self.reasons.index(reason))

    def notes(self) -> list[str]:
        """A note a letter."""
        return [f"({_letter(i)}) {reason}" for i, reason in enumerate(self.reasons)]


def outcome_lines(
    shape: Shape,
    points: Mapping[str, Point],
    columns: Sequence[str],
    racing: Sequence[str],
    legend: Legend,
) -> list[list[str]]:
    """Four lines a shape: time, its interval, GB/s and the share of the roof.

    Args:
        shape: M and N.
        points: The row of each variant.
        columns: The variants, in order.
        racing: Those of them that may be the fastest.
        legend: Takes the reasons of those without a number.
    """
    times = {
        v: number(points[v], "time_us")
        for v in racing
        if is_valid(points.get(v)) and not points[v]["above_roof"]
    }
    best = min((t for t in times.values() if t is not None), default=None)
    digits = _digits(points.values())
    told: list[list[str]] = [[], [], [], []]
    for variant in columns:
        row = points.get(variant)
        strong = best is not None and times.get(variant) == best
        for line, cell in zip(told, _cells(row, strong, digits, legend), strict=True):
            line.append(cell)
    heads = (f"{shape[0]}×{shape[1]}", "time µs"), ("", "95 %"), ("", "GB/s"), ("", "of roof")
    return [[*head, *line] for head, line in zip(heads, told, strict=True)]


def is_valid(row: Point | None) -> bool:
    """Whether a row has a time that counts."""
    return row is not None and row["status"] == "ok" and number(row, "time_us") is not None


def _digits(rows: Iterable[Point]) -> int:
    """Decimals for all times of a shape: those that the shortest deserves."""
    valid = [row for row in rows if is_valid(row)]
    shortest = min(valid, key=lambda row: float(row["time_us"]), default=None)
    if shortest is None:
        return 0
    low, high = number(shortest, "time_low_us"), number(shortest, "time_high_us")
    return decimals(float(shortest["time_us"]), low, high)


def _cells(row: Point | None, strong: bool, digits: int, legend: Legend) -> list[str]:
    if row is None:
        return ["–", "", "", ""]
    if not is_valid(row):
        status = "not timed" if row["status"] == "ok" else str(row["status"])
        reason = row["reason"] if isinstance(row["reason"], str) else ""
        return [f"{status} ({legend.mark(reason)})" if reason else status, "", "", ""]
    time, low, high = (number(row, name) for name in ("time_us", "time_low_us", "time_high_us"))
    share, speed = number(row, "fraction_of_roof"), number(row, "effective_gbps")
    flag = "!" if row["above_roof"] else ""
    return [
        Cell(number_text(time, digits), strong=strong),
        interval_text(low, high, digits),
        number_text(speed),
        "–" if share is None else f"{100 * share:.1f} %{flag}",
    ]


def _letter(index: int) -> str:
    before, last = divmod(index, 26)
    return (_letter(before - 1) if before else "") + chr(ord("a") + last)
