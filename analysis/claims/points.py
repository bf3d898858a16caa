"""Points of one GPU, paired and reduced: from rows to the finding of a check.

Points are a DataFrame with a line per place (M, N, dtype): ``value`` with its ends ``low`` and
``high``, NaN where a variant cannot run, and the ``labels`` of the rows that it was made from. The
interval of a time is its row's: rank-based, 95 %, of the median. A ratio's goes from the
numerator's lower end over the denominator's upper one to the opposite, which holds whatever the two
have in common; that of a reduced number from the reduced lower ends to the reduced upper ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from math import isnan
from typing import Any, Literal

import pandas as pd

from analysis.claims.scope import PLACE, Variant, Where, command
from analysis.claims.verdict import (
    INCONCLUSIVE,
    REFUTED,
    SUPPORTED,
    UNTESTABLE,
    Band,
    Verdict,
    together,
)
from analysis.estimate import Estimate, geometric_mean
from analysis.load import Records
from analysis.selection import PROTOCOLS

Column = Literal["time_us", "effective_gbps", "modelled_gbps", "peak_bytes"]
VISIT = ["sweep", "card", "round", "timer", "cache"]
ENDS = ["value", "low", "high"]
POINT = [*PLACE, *ENDS, "labels"]
ENOUGH = 0.5  # of the points that a check names; fewer say little of all of them
MOST = Band(low=0.5, open=True)  # more than half


@dataclass(frozen=True)
class Finding:
    """What one check found.

    Attributes:
        measured: In words; ``brief`` has fewer.
        estimate: The number that decided, if there is one.
        used: What was used, in words: ``196 rows``, ``9 counts``; ``rows`` are their labels.
        why: What is missing, or what else a reader has to know; ``needs`` is the command for it.
        part: Which part of the claim it decides, and what is ``expected`` there.
    """

    verdict: Verdict
    measured: str = ""
    brief: str = ""
    estimate: Estimate | None = None
    used: str = ""
    rows: tuple[int, ...] = ()
    why: str = ""
    needs: str = ""
    part: str = ""
    expected: str = ""


@dataclass(frozen=True)
class Context:
    """What a check is judged by: one GPU's rows, all records, and the letter of the source."""

    gpu: str
    frame: pd.DataFrame
    records: Records
    source: str

    def rows_of(self, variant: Variant, where: Where) -> pd.DataFrame:
        """A variant's rows there, each visit to a point once: at the newest of its code."""
        found = where.of(variant.of(self.frame))
        return found.drop_duplicates([*VISIT, *PLACE], keep="last")

    def timed(
        self, variants: Iterable[Variant], where: Where, above_roof: bool = False
    ) -> list[pd.DataFrame]:
        """The times of each variant there, under the first protocol that all of them have.

        Rows above the roof are left out unless ``above_roof``: one of the two times is doubtful,
        and a ratio may rest on either. Those of the interpreter are no times at all, nor those
        whose time lies outside its own interval.
        """
        found = []
        for variant in variants:
            rows = self.rows_of(variant, where)
            time = rows["time_us"]
            low, high = (rows[end].fillna(time) for end in ("time_low_us", "time_high_us"))
            ran = (rows["status"] == "ok") & (rows["backend"] != "interpreter")
            sound = low.gt(0) & (low <= time) & (time <= high)
            found.append(rows[ran & sound & (above_roof | ~rows["above_roof"])])
        for timer, cache in PROTOCOLS:
            alike = [rows[(rows["timer"] == timer) & (rows["cache"] == cache)] for rows in found]
            if all(len(rows) for rows in alike):
                return alike
        return [rows[:0] for rows in found]

    def lacks(self, variants: Sequence[Variant], where: Where, found: int = 0) -> Finding:
        """That there are too few times, and the command that would give them."""
        what = f"needs timed rows of {listed([str(v) for v in variants])} at {where}"
        if found:
            what += f" (only {many(found, 'point')} of {len(where.places)} there)"
        return missing(what, command(variants, where))


def by_visit(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """A point per visit and place; a rate's ends are the time's, the other way round.

    Memory is the same at every call, and has none.
    """
    rows = rows[rows[column].notna()]
    value, time = rows[column].astype(float), rows["time_us"].astype(float)
    low, high = (rows[end].astype(float).fillna(time) for end in ("time_low_us", "time_high_us"))
    if column != "time_us":
        low, high = value * time / high, value * time / low
    if column == "peak_bytes":
        low = high = value
    points = rows[[*VISIT, *PLACE]].assign(value=value, low=low, high=high, labels=own_labels(rows))
    return points.sort_values(VISIT, kind="stable")


def own_labels(rows: pd.DataFrame) -> pd.Series:
    """Each row's label, as the only one of its point."""
    return pd.Series([(int(label),) for label in rows.index], rows.index, dtype=object)


def over(
    top: pd.DataFrame, bottom: pd.DataFrame, on: Sequence[str] = (*VISIT, *PLACE)
) -> pd.DataFrame:
    """One number over another wherever both share a visit and a place; the one pairing of rows."""
    both = top.merge(bottom[[*on, *ENDS, "labels"]], on=list(on), suffixes=("", "_below"))
    return both.assign(
        top=both["value"],
        bottom=both["value_below"],
        value=both["value"] / both["value_below"],
        low=both["low"] / both["high_below"],
        high=both["high"] / both["low_below"],
        labels=both["labels"] + both["labels_below"],
    )


def added(one: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """One number and another wherever both share a visit and a place."""
    both = one.merge(other, on=[*VISIT, *PLACE], suffixes=("", "_other"))
    columns = [*ENDS, "labels"]
    sums = {name: both[name] + both[f"{name}_other"] for name in columns}
    return both[[*VISIT, *PLACE]].assign(**sums)


def fullest(points: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """The visits that cover most places, and how many; others would describe another range."""
    sizes = points.groupby(VISIT)["value"].transform("size")
    most_places = 0 if points.empty else int(sizes.max())
    return points[sizes == most_places], most_places


def middle(points: pd.DataFrame, by: Sequence[str] = PLACE) -> pd.DataFrame:
    """Of repeated points the middle one, with the interval that encloses all of them."""
    ordered = points.sort_values([*by, "value"], kind="stable")
    groups = ordered.groupby(list(by), sort=True)
    ends = groups.agg(low=("low", "min"), high=("high", "max"), labels=("labels", _joined))
    place = groups.cumcount() == (groups["value"].transform("size") - 1) // 2
    return ends.assign(value=ordered[place].set_index(list(by))["value"]).reset_index()


def extreme(points: pd.DataFrame, which: Literal["min", "max"]) -> pd.DataFrame:
    """By visit, the lowest or the highest; its ends are the extremes of all ends."""
    groups = points.groupby(VISIT, sort=True)
    return groups[ENDS].agg(which).assign(labels=groups["labels"].agg(_joined)).reset_index()


def spread(points: pd.DataFrame) -> pd.DataFrame:
    """By visit, the highest over the lowest."""
    found = over(extreme(points, "max"), extreme(points, "min"), VISIT)
    return found[[*VISIT, *ENDS, "labels"]]


def middle_visit(ratios: pd.DataFrame) -> tuple[Estimate, tuple[int, ...]]:
    """Of one ratio per visit the middle one, and the labels of its rows."""
    (found,) = middle(ratios.assign(all=0), ["all"]).to_dict("records")
    return Estimate(found["value"], found["low"], found["high"]), found["labels"]


def _joined(labels: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(chain.from_iterable(labels))


def taken(
    points: pd.DataFrame, take: str, band: Band, used: str = "", with_span: bool = False
) -> Finding:
    """The finding of points taken as a claim says: each, most, or one number made of all.

    ``geomean``, ``min`` and ``max`` make one number; ``with_span`` puts their range beside it.
    """
    found = points.dropna(subset="value")
    labels, used = labels_of(found), used or rows_used(found)
    if take in ("each", "most"):
        verdicts = [
            REFUTED if isnan(end[0]) else band.verdict(Estimate(*end))
            for end in points[ENDS].itertuples(index=False, name=None)
        ]
        judge = _each if take == "each" else _most
        return Finding(*judge(found, verdicts, band), used, labels)
    if take == "geomean":
        value, low, high = (geometric_mean(found[end]) for end in ENDS)
        number = Estimate(value, min(low, value), max(high, value))  # exp and log round
    else:
        number = _estimate(found[ENDS].agg(take))
    return one(number, band, used, spanned(found) if with_span else "", rows=labels)


def spanned(points: pd.DataFrame) -> str:
    """``1.2 to 3.4 over 5 points``."""
    low, high = points["value"].min(), points["value"].max()
    return f"{plain(low)} to {plain(high)} over {many(len(points), 'point')}"


def labels_of(points: pd.DataFrame) -> tuple[int, ...]:
    """The labels of all rows that points were made from."""
    return _joined(points["labels"])


def rows_used(points: pd.DataFrame) -> str:
    """How many rows points were made from."""
    return many(len(set(labels_of(points))), "row")


def exact(value: float) -> Estimate:
    """A number that is known exactly: counted, or printed."""
    return Estimate(value, value, value)


def exact_points(points: pd.DataFrame) -> pd.DataFrame:
    """Points of such numbers, which no rows are behind."""
    labels = pd.Series([()] * len(points), points.index, dtype=object)
    return points.assign(low=points["value"], high=points["value"], labels=labels)


def one(
    found: Estimate,
    band: Band,
    used: str,
    note: str = "",
    text: str = "",
    rows: tuple[int, ...] = (),
) -> Finding:
    """A check that one number decides; ``text`` takes its place in words."""
    measured = text or measured_text(found)
    long = measured + (f", {note}" if note else "")
    return Finding(band.verdict(found), long, measured, found, used, rows)


def missing(what: str, needs: str = "") -> Finding:
    """A check that no row or record can decide."""
    return Finding(UNTESTABLE, why=what, needs=needs)


Decided = tuple[Verdict, str, str, Estimate]  # what `Finding` begins with


def _each(found: pd.DataFrame, verdicts: Sequence[Verdict], band: Band) -> Decided:
    """Supported where every point is, refuted where one is; the number is the worst point's."""
    brief = text = _range(found)
    if len(verdicts) > 1:
        text += f" over {_tally(verdicts)}"
    worst = found.iloc[int(found["value"].map(band.excess).argmax())]
    estimate = _estimate(worst)
    if " to " in text and together(verdicts) != SUPPORTED:
        text += f"; furthest off {measured_text(estimate)} at {_at(worst)}"
    return together(verdicts), text, brief, estimate


def _most(found: pd.DataFrame, verdicts: Sequence[Verdict], band: Band) -> Decided:
    """Supported where more than half of the points are.

    Points that may be either make the share an interval.
    """
    tally, count = Counter(verdicts), len(verdicts)
    share = Estimate(
        sum(map(band.holds, found["value"])) / count,
        tally[SUPPORTED] / count,
        (tally[SUPPORTED] + tally[INCONCLUSIVE]) / count,
    )
    brief = f"{100 * share.value:.0f} % of points"
    text = f"{brief} ({_range(found)} over {_tally(verdicts)})"
    return MOST.verdict(share), text, brief, share


def _range(points: pd.DataFrame) -> str:
    if len(points) == 1:
        return f"{measured_text(_estimate(points.iloc[0]))} at {_at(points.iloc[0])}"
    return " to ".join(dict.fromkeys([plain(points["value"].min()), plain(points["value"].max())]))


def _estimate(point: Any) -> Estimate:
    return Estimate(float(point["value"]), float(point["low"]), float(point["high"]))


def _at(point: Any) -> str:
    return f"{point['rows']}×{point['cols']} {point['dtype']}"


def _tally(verdicts: Sequence[Verdict]) -> str:
    tally = Counter(verdicts)
    text = f"{many(len(verdicts), 'point')}, {tally[SUPPORTED]} as expected"
    return text + (f", {tally[INCONCLUSIVE]} undecided" if tally[INCONCLUSIVE] else "")


def plain(value: float) -> str:
    """Four significant figures, thousands apart: 1.427, 0.02134, 226,051."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def measured_text(found: Estimate) -> str:
    """A number with its interval, where it has one."""
    if found.low == found.high:
        return plain(found.value)
    return f"{plain(found.value)} [{plain(found.low)}, {plain(found.high)}]"


def many(number: int, noun: str) -> str:
    """``1 point``, ``98 points``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def listed(words: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
