"""The limits in a few lines: means over all points, over the large ones and the short ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from analysis.estimate import Estimate
from analysis.format import Table
from analysis.limits import LARGE_BYTES, LEAST, NEEDS, OWN, SHORT_US, STEP_US
from analysis.limits.means import best, geomean, named, worst
from analysis.limits.points import Point
from analysis.limits.rows import points_of
from analysis.load import Inputs
from analysis.style import CACHES, TIMERS
from analysis.tables.named import NamedTable
from experiments.data.cards import card_of

PARTS: tuple[tuple[str, Callable[[Point], bool]], ...] = (
    ("all", lambda point: True),
    (f"{LARGE_BYTES / 1e6:.0f} MB and more", lambda point: point.large),
    (f"{SHORT_US:g} µs and more", lambda point: not point.short),
    (f"below {SHORT_US:g} µs", lambda point: point.short),
)
NOTES = (
    f"× best peer: the fastest public softmax's time over that of {OWN}, in the same round. Means "
    "are geometric, with a 95 % interval whose unit is the round. MB: of 2MN. Of roof: the faster "
    f"copy's time over that of {OWN}.",
    f"Behind: points where the best peer takes less than {LEAST:g} of the time of {OWN}; below "
    f"{SHORT_US:g} µs, where it is done more than {STEP_US:g} µs sooner.",
)
ABOVE = (
    "Above the copy roof by more than their interval: {} points. There the copy's time stands for "
    f"that of {OWN} in the means."
)


def limits_summary(material: Inputs) -> NamedTable | str:
    """One table of all GPUs and protocols, or what is missing."""
    points = points_of(material.frame)
    if not points:
        return f"limits_summary needs {NEEDS}"
    several = len({point.gpu for point in points}) > 1
    heads = [*["GPU"] * several, "timer", "points", "count", "× best peer", "× torch",
             "least × best peer", "behind", "least of roof"]  # fmt: skip
    lines = []
    for gpu, timer, cache in dict.fromkeys((p.gpu, p.timer, p.cache) for p in points):
        mine = [p for p in points if (p.gpu, p.timer, p.cache) == (gpu, timer, cache)]
        name = f"{TIMERS.get(timer, timer)}, {CACHES.get(cache, cache)}"
        for told, inside in PARTS:
            if here := [point for point in mine if inside(point)]:
                lines.append([*[card_of(gpu).name] * several, name, told, *_cells(here)])
    above = sum(point.above_roof for point in points)
    notes = [*NOTES, *[ABOVE.format(above)] * bool(above)]
    return NamedTable("limits_summary", Table("At the limit, in short", heads, lines, notes))


def _cells(points: Sequence[Point]) -> list[str]:
    lowest = worst(points, best)
    assert lowest is not None
    point, ratio = lowest
    return [
        str(len(points)),
        _mean(geomean(points, best)),
        _mean(geomean(points, named("torch"))),
        f"{ratio.value:.3f} at {point.name} ({point.best})",
        str(sum(p.behind for p in points)),
        _share(points),
    ]


def _mean(told: Estimate | None) -> str:
    return "–" if told is None else f"{told.value:.3f} ({told.low:.3f}–{told.high:.3f})"


def _share(points: Sequence[Point]) -> str:
    known = [(point.share.value, point) for point in points if point.share is not None]
    if not known:
        return "–"
    share, point = min(known, key=lambda pair: pair[0])
    return f"{100 * share:.1f} % at {point.name}"
