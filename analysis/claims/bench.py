"""What a check is judged by: the rows of one GPU, the records, the published numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.claims.band import UNTESTABLE, Band, Measure, Verdict
from analysis.claims.telling import listed, many, measured
from analysis.claims.variant import Variant
from analysis.claims.where import Where
from analysis.load import Records
from analysis.selection import PROTOCOLS


@dataclass(frozen=True)
class Bench:
    """One GPU's evidence.

    Attributes:
        gpu: As its driver names it.
        frame: Its rows, with the derived columns.
        evidence: Counts, traces, counters.
        source: Letter of the source whose claim is judged.
    """

    gpu: str
    frame: pd.DataFrame
    evidence: Records
    source: str

    def rows_of(self, variant: Variant, where: Where) -> pd.DataFrame:
        """A variant's rows there, each visit to a point once: at the newest of its code."""
        mine = self.frame[self.frame["kernel"] == variant.name]
        params = zip(mine["kernel"], mine["params"], strict=True)
        own = [variant.is_of(kernel, dict(told)) for kernel, told in params]
        found = where.of(mine[np.array(own, dtype=bool)])
        visit = ["sweep", "card", "round", "timer", "cache", "rows", "cols", "dtype"]
        return found.drop_duplicates(visit, keep="last")

    def timed(self, variants: Iterable[Variant], where: Where) -> list[pd.DataFrame]:
        """The times of each variant there, under the first protocol that all of them have.

        Rows above the roof are no times of the kernel, those of the interpreter none at all.
        """
        found = []
        for variant in variants:
            rows = self.rows_of(variant, where)
            own = (rows["status"] == "ok") & (rows["backend"] != "interpreter")
            found.append(rows[own & _sound(rows) & ~rows["above_roof"]])
        for timer, cache in PROTOCOLS:
            alike = [rows[(rows["timer"] == timer) & (rows["cache"] == cache)] for rows in found]
            if all(len(rows) for rows in alike):
                return alike
        return [rows[:0] for rows in found]

    def lacks(self, variants: Iterable[Variant], where: Where, found: int = 0) -> Seen:
        """That there are too few times, and the command that would give them."""
        each = list(variants)
        what = f"needs timed rows of {listed([str(v) for v in each])} at {where}"
        if found:
            what += f" (only {many(found, 'point')} of {where.points} there)"
        return missing(what, command(each, where))


@dataclass(frozen=True)
class Seen:
    """What one check found.

    Attributes:
        verdict: Of this check alone.
        measured: In words.
        brief: The same in fewer.
        measure: The number that decided, if there is one.
        used: What was used, in words: ``196 rows``, ``9 counts``.
        rows: Labels of the rows used.
        why: What is missing, or what else a reader has to know.
        needs: The command that gives what is missing.
    """

    verdict: Verdict
    measured: str = ""
    brief: str = ""
    measure: Measure | None = None
    used: str = ""
    rows: tuple[int, ...] = ()
    why: str = ""
    needs: str = ""


def _sound(rows: pd.DataFrame) -> pd.Series:
    """Whether a row has a time, inside its interval if it has one."""
    time = rows["time_us"]
    low, high = rows["time_low_us"].fillna(time), rows["time_high_us"].fillna(time)
    return low.gt(0) & (low <= time) & (time <= high)


def one(measure: Measure, band: Band, used: str, note: str = "", told: str = "") -> Seen:
    """A check that one number decides; ``told`` takes its place in words."""
    told = told or measured(measure) + (f", {note}" if note else "")
    verdict = band.verdict(measure.low, measure.high)
    brief = told if not told.startswith(measured(measure)) else measured(measure)
    return Seen(verdict, told, brief, measure, used, measure.rows)


def missing(what: str, needs: str = "") -> Seen:
    """A check without evidence."""
    return Seen(UNTESTABLE, why=what, needs=needs)


def command(variants: Iterable[Variant], where: Where, module: str = "run") -> str:
    """The command that measures variants there; settings of one kernel need one each."""
    plain: list[Variant] = []
    others: list[Variant] = []
    for variant in dict.fromkeys(variants):
        (others if variant.named else plain).append(variant)
    chosen = [f"kernel={','.join(v.name for v in plain)}"] * bool(plain)
    chosen += [variant.arguments for variant in others]
    return "; ".join(f"python -m experiments.{module} {c} {where.arguments}" for c in chosen)
