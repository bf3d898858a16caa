"""Checks of times and rates: of two variants, of one, and of `auto` beside its rivals."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

import pandas as pd
from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from analysis.claims.points import (
    ENOUGH,
    POINT,
    VISIT,
    Column,
    Context,
    Finding,
    added,
    by_visit,
    extreme,
    fullest,
    labels_of,
    many,
    measured_text,
    middle,
    middle_visit,
    missing,
    one,
    over,
    plain,
    rows_used,
    spanned,
    spread,
    taken,
)
from analysis.claims.scope import PLACE, Name, Sizes, Strict, Where, each, kernels
from analysis.claims.verdict import Band
from analysis.estimate import Estimate
from analysis.limits import COMMAND, OWN, PEERS, ROOF, LimitPoint, geomean, points_of, worst
from analysis.published import OPERATION, sources
from analysis.selection import timer_label
from experiments.data.cards import card_of
from experiments.data.metrics import COPY


def _rival(name: str) -> str:
    if name in (known := ["peers", ROOF, COPY, *PEERS]) or name in kernels():
        return name
    raise ValueError(f"nothing to compare with is called {name!r}; known are {', '.join(known)}, "
                     "and the names of kernels")  # fmt: skip


Rival = Annotated[str, AfterValidator(_rival)]


class Ratio(Strict):
    """``top``'s column over ``bottom``'s at shared points: how many times as fast, for a time.

    ``take`` makes one number of many points (geomean, min, max, ``peaks``, the best of each, or
    ``spread``, the highest over the lowest of each), or asks ``each`` or ``most`` of them. The time
    of ``plus`` is added to that of ``top``: two calls in place of one. Where
    ``top`` ran and ``bottom`` cannot, the point counts as not as expected under
    ``unsupported: fails``.
    """

    top: Name
    plus: Name | None = None
    bottom: Name
    column: Column = "time_us"
    take: Literal["geomean", "each", "most", "min", "max", "peaks", "spread"] = "geomean"
    where: Where = Where()
    unsupported: Literal["left out", "fails"] = "left out"

    @model_validator(mode="after")
    def _sound(self) -> Ratio:
        if self.take in ("geomean", "peaks", "spread") and not self.where.fixes("dtype"):
            raise ValueError(f"{self.take} never mixes dtypes: where has to name one")
        if self.plus and self.column != "time_us":
            raise ValueError("plus adds times: column takes time_us there")
        if self.take == "geomean" and self.column != "time_us":
            raise ValueError("a geometric mean is of time ratios: column takes time_us there")
        return self

    def judge(self, context: Context, band: Band) -> Finding:
        """The verdict on one GPU."""
        variants = [self.top, self.bottom, *([self.plus] if self.plus else [])]
        timed = context.timed(variants, self.where)
        top, bottom, *more = (by_visit(rows, self.column) for rows in timed)
        for other in more:
            top = added(top, other)
        found, cannot = middle(over(top, bottom)), self._unsupported(context, timed[0])
        known = len(found) + len(cannot)
        if found.empty or known < ENOUGH * len(self.where.places):
            return context.lacks(variants, self.where, known)
        if self.take in ("peaks", "spread"):
            return self._summaries(top, bottom, band, rows_used(found))
        if self.unsupported == "fails":
            found = pd.concat([found, cannot]).sort_values(PLACE, ignore_index=True)
        return taken(found, self.take, band, with_span=True)

    def _summaries(self, top: pd.DataFrame, bottom: pd.DataFrame, band: Band, used: str) -> Finding:
        """One's best or spread over the other's, within a visit, at the places both ran."""
        shared = [*VISIT, *PLACE]
        (top, places), (bottom, _) = (
            fullest(one.merge(other[shared])) for one, other in ((top, bottom), (bottom, top))
        )
        if self.take == "peaks":
            ratios, what = over(extreme(top, "max"), extreme(bottom, "max"), VISIT), "the best"
        else:
            ratios, what = over(spread(top), spread(bottom), VISIT), "highest over lowest"
        found, labels = middle_visit(ratios)
        text = f"{plain(ratios['top'].iloc[0])} over {plain(ratios['bottom'].iloc[0])}"
        return one(found, band, used, f"{text}, {what} of {places} points each", rows=labels)

    def _unsupported(self, context: Context, top: pd.DataFrame) -> pd.DataFrame:
        """The places where ``top`` has a time and ``bottom`` is unsupported."""
        rows = context.rows_of(self.bottom, self.where)
        refused = rows[rows["status"] == "unsupported"]
        return refused.merge(top[["sweep", *PLACE]].drop_duplicates())[PLACE].drop_duplicates()


class Value(Strict):
    """One variant's column.

    ``take`` asks ``each`` or ``most`` of its points, makes one number of them (min, max), or
    follows it along N: ``trend`` is the value at ``to`` columns over that at ``from``, ``spread``
    the highest over the lowest, 1 if perfectly steady. A time of its own needs no roof, and counts
    above it too. ``card: source`` judges it on the source's own card alone, a card's name on that
    one.
    """

    variant: Name
    column: Column = "time_us"
    take: Literal["each", "most", "min", "max", "trend", "spread"] = "each"
    start: int | None = Field(None, alias="from")
    end: int | None = Field(None, alias="to")
    where: Where = Where()
    card: str = "any"

    @model_validator(mode="after")
    def _sound(self) -> Value:
        if self.take in ("trend", "spread"):
            if not self.where.fixes("dtype"):
                raise ValueError(f"{self.take} never mixes dtypes: where has to name one")
            if not self.where.fixes("rows"):
                raise ValueError(f"{self.take} runs along cols: where has to fix rows")
        if (self.take == "trend") != (self.start is not None and self.end is not None):
            raise ValueError("a trend, and nothing else, takes both from and to")
        return self

    def judge(self, context: Context, band: Band) -> Finding:
        """The verdict on one GPU."""
        if lacking := _another_card(context, self.card):
            return lacking
        absolute = self.column == "time_us" and self.take not in ("trend", "spread")
        (rows,) = context.timed([self.variant], self.where, above_roof=absolute)
        visits, known = fullest(by_visit(rows, self.column))
        if self.take == "trend":
            return self._trend(context, visits, band)
        if known < max(1 + (self.take == "spread"), ENOUGH * len(self.where.places)):
            return context.lacks([self.variant], self.where, known)
        if self.take == "spread":
            return self._spread(visits, band)
        return taken(middle(visits), self.take, band)

    def _trend(self, context: Context, visits: pd.DataFrame, band: Band) -> Finding:
        start, end = (visits[visits["cols"] == size] for size in (self.start, self.end))
        grown = over(end, start, VISIT)
        if grown.empty:
            ends = self.where.model_copy(
                update={"cols": Sizes.model_validate([self.start, self.end])}
            )
            return context.lacks([self.variant], ends)
        text = f"from {plain(grown['bottom'].iloc[0])} to {plain(grown['top'].iloc[0])}"
        found, labels = middle_visit(grown)
        return one(found, band, many(len(labels), "row"), text, rows=labels)

    def _spread(self, visits: pd.DataFrame, band: Band) -> Finding:
        found, _ = middle_visit(spread(visits))
        steady = replace(found, low=max(found.low, 1.0))
        text = spanned(visits[visits.groupby(VISIT).ngroup() == 0])
        return one(steady, band, rows_used(visits), text, rows=labels_of(visits))


class Limit(Strict):
    """A rival's time over that of `auto`, or less it, at points of one timer with a cold cache.

    ``over`` is ``peers``, the fastest of them at each point, ``roof``, the fastest that only moves
    (of softmax also ``copy``), whose bandwidth is then 1, a maker, whose fastest counts, or a
    kernel's name. `auto` is the one of the ``operation``. Of several timers the first that rows
    have counts. ``gap`` takes the difference in µs in place of the ratio. ``take: geomean`` makes
    one number of all points, which mixes dtypes as ratios may; ``each`` asks every point. Points
    are narrowed by ``where``, by whether `auto` was tuned at their ``widths``, by the bytes that
    any kernel moves (``moved``) and by the time of `auto`, µs. Only softmax has widths held out; of
    another operation all points count.
    """

    over: Rival
    operation: str = OPERATION
    variant: Name | None = None
    timer: Annotated[tuple[Literal["events", "chain", "graph"], ...], BeforeValidator(each)]
    widths: Literal["tuned", "held out"] = "tuned"
    take: Literal["geomean", "each"] = "each"
    gap: bool = False
    moved: int = 0
    slower_than: float = 0.0
    faster_than: float = float("inf")
    where: Where = Where()

    def judge(self, context: Context, band: Band) -> Finding:
        """The verdict on one GPU."""
        mine = self.where.of(context.frame)
        mine = mine[mine["cache"] == "cold"]
        timer = next((t for t in self.timer if (mine["timer"] == t).any()), self.timer[0])
        places = set(mine[PLACE].itertuples(index=False, name=None))
        points = [
            (point, rival) for point in points_of(context.frame, self.operation, self._own)
            if (point.timer, point.cache) == (timer, "cold")
            and (point.rows, point.cols, point.dtype) in places
            and point.widths in (self.widths, "all")
            and point.moved_bytes >= self.moved
            and self.slower_than <= point.us(point.own) < self.faster_than
            and (rival := point.rival(self.over)) is not None
        ]  # fmt: skip
        if not points:
            own, widths, needs = self._own or OWN, f", {self.widths} widths", COMMAND
            if self.operation != OPERATION:
                own, widths, needs = f"{own} of {self.operation}", "", ""
            what = f"{own} and {self.over} by {timer} at {self.where}{widths}"
            return missing(f"needs timed rows of {what}", needs)
        why = (
            ""
            if timer == self.timer[0]
            else f"by {timer_label(timer)}: rows have no {self.timer[0]}"
        )
        return replace(self._found(points, band), why=why)

    def _found(self, points: list[tuple[LimitPoint, str]], band: Band) -> Finding:
        labels = [_labels(point, rival) for point, rival in points]
        if self.take == "geomean":
            return self._mean([point for point, _ in points], sum(labels, ()), band)
        lines = []
        for (point, rival), own in zip(points, labels, strict=True):
            found = self._number(point, rival)
            place = point.rows, point.cols, point.dtype
            lines.append((*place, found.value, found.low, found.high, own))
        return taken(pd.DataFrame(lines, columns=POINT), "each", band)

    def _number(self, point: LimitPoint, rival: str) -> Estimate:
        """Of a roof the share of its bandwidth, which may have other bytes to move."""
        if self.gap:
            return point.difference(rival)
        return point.share or point.ratio(rival) if self._of_roof else point.ratio(rival)

    @property
    def _own(self) -> str:
        return self.variant.name if self.variant else ""

    @property
    def _of_roof(self) -> bool:
        return self.over in (ROOF, COPY)

    def _mean(self, points: list[LimitPoint], labels: tuple[int, ...], band: Band) -> Finding:
        mean, least = geomean(points, self.over), worst(points, self.over)
        assert mean is not None
        assert least is not None
        least_text = f"least {measured_text(least[1])} at {least[0].name}"
        text = f"over {many(len(points), 'point')}, {least_text}"
        if mean.spread:
            text += f", {mean.recordings} recordings {' to '.join(map(plain, mean.spread))}"
        return one(mean, band, many(len(set(labels)), "row"), text, rows=labels)


def _labels(point: LimitPoint, rival: str) -> tuple[int, ...]:
    """The rows behind a ratio, as the frame labels them."""
    shared = point.by_visit(rival)
    return tuple(int(point.seen[name][v]["label"]) for name in (point.own, rival) for v in shared)


def _another_card(context: Context, asked: str) -> Finding | None:
    """That these rows are not of the card asked for, if they are not."""
    if asked != "source":
        wrong = asked not in ("any", card_of(context.gpu).name)
        return missing(f"of a {asked}: needs its rows") if wrong else None
    source = sources().get(context.source)
    if source is None or source.card is None:
        return missing(f"{context.source} names no card")
    if card_of(context.gpu).name != source.card:
        return missing(f"{context.source} measured on a {source.card}: needs its rows")
    return None
