"""Numbers, the parts of a claim that they decide, and the verdict that follows from its parts."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import wraps
from itertools import chain
from typing import Any, Literal

import pandas as pd

from analysis.estimate import Estimate
from analysis.formula import elements
from experiments.data.cards import card_of

OURS = "this project"
EXPLAINED = "NVIDIA H200"  # the card that the claims' explanations are of
REPRODUCED, NOT_REPRODUCED = "reproduced", "not reproduced"
CONTRADICTED, UNDECIDED, NOT_MEASURED = "contradicted", "undecided", "not measured"
HOLDS, DOES_NOT_HOLD = "holds", "does not hold"
WORDS = (REPRODUCED, HOLDS, NOT_REPRODUCED, DOES_NOT_HOLD, CONTRADICTED, UNDECIDED, NOT_MEASURED)
WORST_FIRST = ("no", UNDECIDED, NOT_MEASURED, "yes")  # outcomes of a part
PLACE = ["rows", "cols", "dtype"]
ENDS = ["value", "low", "high"]
OPPOSITE = (("value", "value"), ("low", "high"), ("high", "low"))  # ends of the widest ratio


@dataclass(frozen=True)
class Part:
    """One part of a claim on one GPU."""

    label: str  # which part, in a few words
    expected: str  # by the claim, in words
    measured: str = ""  # in words; empty where nothing was
    outcome: str = NOT_MEASURED  # whether it is as expected: one of `WORST_FIRST`
    estimate: Estimate | None = None  # the number that decided
    labels: tuple[int, ...] = ()  # of the rows behind it
    exact: bool = False  # no card could give another number: it was counted, or follows from print
    direction: str = ""  # whether Triton does ``better`` or ``worse`` than claimed, where known
    lacks: str = ""  # what is needed to decide it


Parts = Iterable[Part | None]  # None where an optional part was not measured


def optional(part: Part) -> Part | None:
    """The part where something measured it: it is not missed elsewhere."""
    return part if part.outcome != NOT_MEASURED else None


def fact(label: str, holds: bool, expected: str, measured: str) -> Part:
    """A part that what a source prints decides, on every card alike."""
    return Part(label, expected, measured, "yes" if holds else "no", exact=True)


@dataclass(frozen=True)
class Points:
    """Numbers with their intervals, a line each."""

    # `ENDS`, ``labels`` (of the rows behind a number) and, of numbers of one place each, `PLACE`
    lines: pd.DataFrame = field(default_factory=pd.DataFrame)
    needs: str = ""  # what would give numbers, where there are none
    note: str = ""  # printed beside the numbers
    gain: int = 0  # 1 where a higher number is better for Triton, -1 where a lower one is
    exact: bool = False  # see `Part`

    @property
    def labels(self) -> tuple[int, ...]:
        """The labels of all rows behind the numbers."""
        return tuple(dict.fromkeys(chain.from_iterable(self.lines["labels"])))

    @property
    def estimates(self) -> list[Estimate]:
        """The numbers."""
        return [Estimate(*ends) for ends in self.lines[ENDS].astype(float).to_numpy()]

    @property
    def range(self) -> str:
        """The least and the greatest number, in words."""
        ends = self.lines["value"].min(), self.lines["value"].max()
        return " to ".join(dict.fromkeys(map(four_figures, ends)))

    def __bool__(self) -> bool:
        return not self.lines.empty

    def __truediv__(self, other: Points | str) -> Points:
        """Each number over another of the same place, or over a formula in M and N.

        Of two numbers that are no places' one is over the other. The widest interval counts.
        """
        if isinstance(other, str):
            places = zip(self.lines["rows"], self.lines["cols"], strict=True) if self else ()
            sizes = [elements(other, m, n) for m, n in places]
            shares = {end: self.lines[end] / sizes for end in ENDS if self}
            return replace(self, lines=self.lines.assign(**shares))
        both, note = self._beside(other), ""
        both = both[both["value_other"] != 0] if len(both) else both
        if len(both) and "dtype" not in both:
            note = f"{self.range} over {other.range}"
        ends = {end: both[end] / both[f"{under}_other"] for end, under in OPPOSITE if len(both)}
        return replace(
            other if self else self, lines=both.assign(**ends), note=note, gain=self.gain
        )

    def __add__(self, other: Points) -> Points:
        """Each number and another of the same place; their sum."""
        both = self._beside(other)
        ends = {end: both[end] + both[f"{end}_other"] for end in ENDS if len(both)}
        return replace(other if self else self, lines=both.assign(**ends))

    def _beside(self, other: Points) -> pd.DataFrame:
        """The lines of both at the places that both have; `labels` are of both."""
        if not self or not other:
            return pd.DataFrame()
        by = PLACE if "dtype" in self.lines else []
        one, two = (points.lines[[*by, *ENDS, "labels"]] for points in (self, other))
        how: Literal["inner", "cross"] = "inner" if by else "cross"
        both = one.merge(two, how, by or None, suffixes=("", "_other"))
        return both.assign(labels=both["labels"] + both["labels_other"]).reset_index(drop=True)

    def pick(self, share: float) -> Points:
        """One number without its place: the least at 0, the median at 0.5, the greatest at 1.

        More than half of the numbers are above another number where the median is.
        """
        if not self:
            return self
        line = self.lines.sort_values("value").iloc[[int(share * (len(self.lines) - 1))]]
        note = f"{self.range} over {len(self.lines)} points" if len(self.lines) > 1 else ""
        return replace(self, lines=line[[*ENDS, "labels"]], note=note)

    @property
    def spread(self) -> Points:
        """The greatest number over the least."""
        return self.pick(1) / self.pick(0)

    def each(self, label: str, gain: int | None = None, **expected: Any) -> Part:
        """A part that every number decides, by the band of `_band`.

        The number furthest off is named.
        """
        text, low, high = _band(**expected)
        if not self:
            return Part(label, text, lacks=self.needs)
        outcomes = [_outcome(one, low, high) for one in self.estimates]
        outcome = min(outcomes, key=WORST_FIRST.index)
        off = [max(low - one.value, one.value - high) for one in self.estimates]
        worst = off.index(max(off))
        found = self.estimates[worst]
        measured = f"{text_of(found)}{self._at(worst)}"
        if len(off) > 1:
            text, yes = f"every point {text}", outcomes.count("yes")
            counted = f"{self.range} over {len(off)} points, {yes} as expected"
            measured = counted if outcome == "yes" else f"{counted}; furthest off {measured}"
        measured = ", ".join(filter(None, (measured, self.note)))
        side = (self.gain if gain is None else gain) * (1 if found.value > high else -1)
        direction = {1: "better", -1: "worse"}.get(side, "") if outcome == "no" else ""
        return Part(label, text, measured, outcome, found, self.labels, self.exact, direction)

    def _at(self, line: int) -> str:
        if "dtype" not in self.lines:
            return ""
        rows, cols, dtype = self.lines[PLACE].to_numpy()[line]
        return f" at {rows}×{cols} {dtype}"


def number(found: Estimate, labels: tuple[int, ...] = (), **fields: Any) -> Points:
    """One number of no place; see `Points` for the fields."""
    line = [found.value, found.low, found.high, labels]
    return Points(pd.DataFrame([line], columns=[*ENDS, "labels"]), **fields)


def _band(**words: Any) -> tuple[str, float, float]:
    """The numbers that one word allows, such as ``above=1``: in words, the least, the greatest.

    Others are ``below``, ``at_least``, ``at_most``, ``equals``, ``between=(3, 4)``, which has its
    ends, and ``about=(4, 0.15)``, which is within 15 % of 4.
    """
    ((word, value),) = words.items()
    if word == "about":
        value, within = value
        reach = abs(value) * within
        text = f"about {four_figures(value)}, within {100 * within:g} %"
        return text, value - reach, value + reach
    if word == "between":
        return " to ".join(map(four_figures, value)), *value
    low = {"at_least": value, "equals": value, "above": math.nextafter(value, math.inf)}
    high = {"at_most": value, "equals": value, "below": math.nextafter(value, -math.inf)}
    text = f"{word.replace('_', ' ')} {four_figures(value)}"
    return text, low.get(word, -math.inf), high.get(word, math.inf)


def _outcome(found: Estimate, low: float, high: float) -> str:
    """Yes where all of an interval lies inside, no where all of it lies outside."""
    if low <= found.low and found.high <= high:
        return "yes"
    return "no" if found.high < low or found.low > high else UNDECIDED


def four_figures(value: float) -> str:
    """Four significant figures, thousands apart: 1.427, 0.02134, 226,051."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def text_of(found: Estimate) -> str:
    """A number with its interval, where it has one."""
    value, low, high = map(four_figures, (found.value, found.low, found.high))
    return value if found.low == found.high else f"{value} [{low}, {high}]"


@dataclass(frozen=True)
class Judgement:
    """A claim and its verdict on one GPU."""

    id: str  # such as ``A4``
    source: str  # the letter of its source, or `OURS`
    place: str  # where the source says so
    figure: str  # the figure that shows it, empty for none
    statement: str  # the claim in short
    words: str  # the source's own words
    reading: str  # how an unclear sentence was read, or what else bears on it
    why: str  # why the card does other than claimed; empty where nothing has to be explained
    gpu: str  # whose rows judged it
    parts: tuple[Part, ...]  # what was measured

    @property
    def word(self) -> str:
        """The verdict without the card, one of `WORDS`."""
        ours, outcome = self.source == OURS, self.deciding.outcome
        if outcome == "no" and not ours and any(p.exact and p.outcome == "no" for p in self.parts):
            return CONTRADICTED
        if outcome == "no":
            return DOES_NOT_HOLD if ours else NOT_REPRODUCED
        if outcome == "yes":
            return HOLDS if ours else REPRODUCED
        return outcome

    @property
    def verdict(self) -> str:
        """The verdict; one that is not reproduced names the card too."""
        on = f" on {card_of(self.gpu).name}" if self.word == NOT_REPRODUCED else ""
        return self.word + on

    @property
    def direction(self) -> str:
        """``better`` or ``worse`` where Triton does other than claimed."""
        wrong = (part.direction for part in self.parts if part.outcome == "no")
        return next(filter(None, wrong), "")

    @property
    def deciding(self) -> Part:
        """The first part of the worst outcome."""
        parts = self.parts or [Part("", "")]
        return min(parts, key=lambda part: WORST_FIRST.index(part.outcome))


Judge = Callable[[Any], Judgement]  # of a claim on a `measure.Card`


def claim(place: str = "", figure: str = "") -> Callable[[Callable[[Any], Parts]], Judge]:
    """Makes a judge of the function that measures a claim's parts on a `measure.Card`.

    The function's name is the claim's: its first letter names the source, l stands for this
    project. Its docstring has the statement, then in paragraphs the source's words in quotation
    marks, how they were read and, after ``Here:``, why an H200 does other than claimed.

    Args:
        place: Where the source says so.
        figure: The figure that shows it, empty for none.
    """

    def made(measure: Callable[[Any], Parts]) -> Judge:
        @wraps(measure)
        def judge(card: Any) -> Judgement:
            statement, *more = (
                " ".join(one.split()) for one in str(inspect.getdoc(measure)).split("\n\n")
            )
            texts: dict[str, list[str]] = {"“": [], "Here: ": [], "": []}
            for text in more:
                mark = next(mark for mark in texts if text.startswith(mark))
                texts[mark].append(text.removeprefix("Here: "))
            words, why, reading = map(" ".join, texts.values())
            name, statement = measure.__name__.upper(), statement.removesuffix(".")
            source = OURS if name.startswith("L") else name[0]
            parts = tuple(part for part in measure(card) if part)
            own = (name, source, place, figure, statement, words, reading, why)
            judged = Judgement(*own, card.gpu, parts)
            wrong = judged.word in (NOT_REPRODUCED, DOES_NOT_HOLD) and card.gpu == EXPLAINED
            return judged if wrong or judged.word == CONTRADICTED else replace(judged, why="")

        return judge

    return made
