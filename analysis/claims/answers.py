"""How a variant's points ended, and whether two variants give the same answer."""

from __future__ import annotations

from collections import Counter
from typing import get_args

import pandas as pd
from pydantic import field_validator

from analysis.claims import points as verdicts
from analysis.claims.band import REFUTED, SUPPORTED, Band, Measure, exactly
from analysis.claims.bench import Bench, Seen, command, missing, one
from analysis.claims.expect import Strict
from analysis.claims.pool import PLACE, Point, middle
from analysis.claims.telling import listed, many
from analysis.claims.traces import final, of_variant
from analysis.claims.variant import Name, parse
from analysis.claims.where import Where
from experiments.data.rows import Status

EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}


class Outcome(Strict):
    """How a variant's points ended: every one with a status ``among`` these.

    ``reason`` is a text that every reason has to hold. Rows of Triton's interpreter count too,
    unless the claim is about a card's limits, which it does not have: ``interpreted: false``.
    """

    variant: Name
    among: tuple[str, ...]
    reason: str | None = None
    interpreted: bool = True
    where: Where = Where()

    @field_validator("among")
    @classmethod
    def _known(cls, among: tuple[str, ...]) -> tuple[str, ...]:
        for status in among:
            if status not in get_args(Status):
                known = ", ".join(get_args(Status))
                raise ValueError(f"no status {status!r}; known are {known}")
        return among

    def judge(self, bench: Bench, band: Band) -> Seen:
        """The verdict on one GPU."""
        variant = parse(self.variant)
        rows = bench.rows_of(variant, self.where)
        if not self.interpreted:
            rows = rows[rows["backend"] != "interpreter"]
        if rows.empty:
            what = f"needs rows of {variant} at {self.where}"
            return missing(what, command([variant], self.where))
        good = rows["status"].isin(self.among)
        if self.reason is not None:
            good &= rows["reason"].fillna("").str.contains(self.reason, regex=False)
        labels = tuple(int(label) for label in rows.index)
        share = exactly(float(good.mean()))
        verdict = SUPPORTED if good.all() else REFUTED
        told, used = _told(rows), many(len(rows), "row")
        return Seen(verdict, told, told, share, used, labels, _why(rows, good))


class Agreement(Strict):
    """How far two variants' answers are apart, in units of their dtype's epsilon, at each point.

    From ‖y − ref‖ / ‖ref‖ of each against float64: their distance is at least the difference of
    the two errors and at most the sum. Rows of Triton's interpreter count too.
    """

    variants: tuple[Name, Name]
    where: Where = Where()

    def judge(self, bench: Bench, band: Band) -> Seen:
        """The verdict on one GPU."""
        both = [parse(name) for name in self.variants]
        found: dict[tuple[int, int, str], list[Measure]] = {}
        first, second = (bench.rows_of(variant, self.where) for variant in both)
        place = ["sweep", "card", "round", *PLACE]
        errors = [
            rows[rows["relative_error"].notna() & rows["dtype"].isin(EPSILON)]
            .rename_axis("label").reset_index()[[*place, "label", "relative_error"]]
            for rows in (first, second)
        ]  # fmt: skip
        for row in errors[0].merge(errors[1], on=place, suffixes=("", "_2")).to_dict("records"):
            at = int(row["rows"]), int(row["cols"]), str(row["dtype"])
            one_error, other = row["relative_error"], row["relative_error_2"]
            low, high = (
                abs(one_error - other) / EPSILON[at[2]],
                (one_error + other) / EPSILON[at[2]],
            )
            labels = int(row["label"]), int(row["label_2"])
            found.setdefault(at, []).append(Measure(high, low, high, labels))
        if not found:
            what = f"needs answers of {' and '.join(map(str, both))} at {self.where}"
            return missing(what, command(both, self.where))
        points = [Point(at, middle(found[at])) for at in sorted(found)]
        used = many(len({r for p in points if p.measure for r in p.measure.rows}), "row")
        return verdicts.each(points, band, used)


class Traced(Strict):
    """The largest relative difference of what two variants stored for the same traced input."""

    variants: tuple[Name, Name]

    def judge(self, bench: Bench, band: Band) -> Seen:
        """The verdict, the same for every machine."""
        first, second = (of_variant(bench.evidence.traces, parse(v).name) for v in self.variants)
        worst, values = 0.0, 0
        for key in sorted(set(first) & set(second), key=str):
            one_end, other = final(first[key]), final(second[key])
            for place in one_end.keys() & other.keys():
                values += 1
                size = max(abs(other[place]), 2.0**-126)
                worst = max(worst, abs(one_end[place] - other[place]) / size)
        if not values:
            return missing(f"needs traces of {' and '.join(self.variants)}", "make counts")
        return one(exactly(worst), band, f"{values} traced values")


def _told(rows: pd.DataFrame) -> str:
    tally = Counter(rows["status"])
    each = listed([f"{tally[name]} {name}" for name in sorted(tally)])
    ends = dict.fromkeys([int(rows["cols"].min()), int(rows["cols"].max())])
    return f"{each} of {many(len(rows), 'point')}, N = {' to '.join(map(str, ends))}"


def _why(rows: pd.DataFrame, good: pd.Series) -> str:
    """The first reason among those that decide."""
    bad = rows[~good] if not good.all() else rows
    reasons = bad["reason"].dropna()
    return str(reasons.iloc[0]) if len(reasons) else ""
