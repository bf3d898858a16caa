"""Verdicts in one place: what a claim allows, what was measured, and what follows from both."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import pandas as pd

from analysis.estimate import Estimate, geometric_mean
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


@dataclass(frozen=True)
class Band:
    """All numbers from ``low`` to ``high``, and how a table words it."""

    text: str
    low: float = -math.inf
    high: float = math.inf

    @classmethod
    def of(cls, **words: Any) -> Band:
        """The band that one word names, such as ``above=1``.

        Others are ``below``, ``at_least``, ``at_most``, ``equals``, ``between=(3, 4)``, which has
        its ends, and ``about=(4, 0.15)``, which is within 15 % of 4.
        """
        ((word, value),) = words.items()
        if word == "about":
            value, within = value
            reach = abs(value) * within
            text = f"about {four_figures(value)}, within {100 * within:g} %"
            return cls(text, value - reach, value + reach)
        if word == "between":
            return cls(" to ".join(map(four_figures, value)), *value)
        low = {"at_least": value, "equals": value, "above": math.nextafter(value, math.inf)}
        high = {"at_most": value, "equals": value, "below": math.nextafter(value, -math.inf)}
        text = f"{word.replace('_', ' ')} {four_figures(value)}"
        return cls(text, low.get(word, -math.inf), high.get(word, math.inf))

    def outcome(self, found: Estimate) -> str:
        """Yes where all of an interval lies inside, no where all of it lies outside."""
        if self.low <= found.low and found.high <= self.high:
            return "yes"
        return "no" if found.high < self.low or found.low > self.high else UNDECIDED

    def excess(self, value: float) -> float:
        """How far outside a number lies; negative inside, by its distance to the nearer end."""
        return max(self.low - value, value - self.high)


@dataclass(frozen=True)
class Part:
    """One part of a claim on one GPU."""

    label: str  # which part, in a few words
    expected: str  # what the claim makes one expect, in words
    measured: str = ""  # in words; empty where nothing was
    outcome: str = NOT_MEASURED  # whether it is as expected: one of `WORST_FIRST`
    estimate: Estimate | None = None  # the number that decided
    labels: tuple[int, ...] = ()  # of the rows behind it
    exact: bool = False  # no card could give another number: it was counted, or follows from print
    direction: str = ""  # whether Triton does ``better`` or ``worse`` than claimed, where known
    lacks: str = ""  # what is needed to decide it


Parts = Iterable[Part | None]  # None where an optional part was not measured


@dataclass(frozen=True)
class Points:
    """What was measured: numbers with their intervals, a line each."""

    # `ENDS`, ``labels`` (of the rows behind a number) and, of numbers of one place each, `PLACE`
    lines: pd.DataFrame = field(default_factory=pd.DataFrame)
    gain: int = 0  # 1 where a higher number is better for Triton, -1 where a lower one is
    note: str = ""  # printed beside the numbers
    in_words: bool = False  # the note alone is printed
    lacks: str = ""  # what is needed where there are no numbers
    exact: bool = False  # see `Part`
    wanted: str = ""  # what stands for the band in words

    @property
    def labels(self) -> tuple[int, ...]:
        """The labels of all rows behind the numbers."""
        return tuple(dict.fromkeys(chain.from_iterable(self.lines["labels"])))

    def each(self, label: str, **expected: Any) -> Part:
        """A part that every point decides, by the band of `Band.of`.

        Its number is the point furthest off.
        """
        band = Band.of(**expected)
        text = self.wanted or band.text
        if self.lacks:
            return Part(label, text, lacks=self.lacks)
        found = self._estimates()
        outcomes = [band.outcome(one) for one in found]
        outcome = min(outcomes, key=WORST_FIRST.index)
        worst = int(self.lines["value"].map(band.excess).argmax())
        measured = f"{text_of(found[worst])}{self._at(worst)}"
        if len(found) > 1:
            text, yes = f"every point {text}", outcomes.count("yes")
            counted = f"{self._ends()}, {yes} as expected"
            measured = counted if outcome == "yes" else f"{counted}; furthest off {measured}"
        return self._part(label, text, band, outcome, found[worst], measured)

    def most(self, label: str, **expected: Any) -> Part:
        """A part that holds where more than half of the points do."""
        if self.lacks:
            return self.each(label, **expected)
        band, half = Band.of(**expected), Band.of(above=0.5)
        outcomes = [band.outcome(one) for one in self._estimates()]
        count = len(outcomes)
        inside = self.lines["value"].map(band.excess).le(0).sum()
        yes, no = outcomes.count("yes"), outcomes.count("no")
        share = Estimate(inside / count, yes / count, (count - no) / count)
        text = f"{100 * share.value:.0f} % of {count} points ({self._range()})"
        wanted = f"most points {band.text}"
        return self._part(label, wanted, half, half.outcome(share), share, text)

    def mean(self, label: str, **expected: Any) -> Part:
        """A part that the geometric mean of the points decides."""
        return self._reduced(geometric_mean).each(label, **expected)

    def highest(self, label: str, **expected: Any) -> Part:
        """A part that the highest point decides."""
        return self._reduced(max).each(label, **expected)

    def _part(
        self, label: str, expected: str, band: Band, outcome: str, found: Estimate, text: str
    ) -> Part:
        side = self.gain * (1 if found.value > band.high else -1)
        direction = {1: "better", -1: "worse"}.get(side, "") if outcome == "no" else ""
        text = self.note if self.in_words else ", ".join(filter(None, (text, self.note)))
        return Part(label, expected, text, outcome, found, self.labels, self.exact, direction)

    def _reduced(self, reduce: Callable[[Iterable[float]], float]) -> Points:
        """The points as one number; their range goes into the note."""
        if self.lacks:
            return self
        value, low, high = (reduce(self.lines[end]) for end in ENDS)
        # exp and log round
        one = number(value, min(low, value), max(high, value), self.labels)
        return replace(self, lines=one.lines, note=self._ends())

    def _estimates(self) -> list[Estimate]:
        return [Estimate(*ends) for ends in self.lines[ENDS].astype(float).to_numpy()]

    def _range(self) -> str:
        values = self.lines["value"]
        return " to ".join(dict.fromkeys(map(four_figures, (values.min(), values.max()))))

    def _ends(self) -> str:
        return f"{self._range()} over {len(self.lines)} points"

    def _at(self, line: int) -> str:
        if "dtype" not in self.lines:
            return ""
        rows, cols, dtype = self.lines[PLACE].to_numpy()[line]
        return f" at {rows}×{cols} {dtype}"


def number(
    value: float,
    low: float | None = None,
    high: float | None = None,
    labels: tuple[int, ...] = (),
    **fields: Any,
) -> Points:
    """One number, with an interval if both ends are given; see `Points` for the fields."""
    ends = (value, value if low is None else low, value if high is None else high)
    return Points(pd.DataFrame([(*ends, labels)], columns=[*ENDS, "labels"]), **fields)


@dataclass(frozen=True)
class Claim:
    """A claim and the function that measures it; `claim` makes one."""

    id: str  # its name, such as ``A4``
    source: str  # the letter of its source, or `OURS`
    place: str  # where the source says so
    figure: str  # the figure that shows it, empty for none
    statement: str  # the claim in short
    words: str  # the source's own words
    reading: str  # how an unclear sentence was read, or what else bears on it
    why: str  # why an H200 does other than claimed, with the mechanism
    measure: Callable[[Any], Parts] = field(repr=False)  # its parts on a `measure.Card`

    def judge(self, card: Any) -> Judgement:
        """The claim on one GPU, a `measure.Card`."""
        parts = tuple(part for part in self.measure(card) if part)
        wrong = [part for part in parts if part.outcome == "no"]
        verdict = _verdict(parts, self.source, card.gpu)
        explained = wrong and (card.gpu == EXPLAINED or verdict == CONTRADICTED)
        direction = next((part.direction for part in wrong if part.direction), "")
        own = {**vars(self), "why": self.why if explained else ""}
        return Judgement(**own, gpu=card.gpu, verdict=verdict, direction=direction, parts=parts)


@dataclass(frozen=True)
class Judgement(Claim):
    """A claim on one GPU; its ``why`` is empty where nothing has to be explained."""

    gpu: str  # whose rows judged it
    verdict: str  # one of `WORDS`; one that is not reproduced names the card too
    direction: str  # ``better`` or ``worse`` where Triton does other than claimed
    parts: tuple[Part, ...]  # what was measured

    @property
    def deciding(self) -> Part:
        """The first part of the worst outcome."""
        return min(self.parts, key=lambda part: WORST_FIRST.index(part.outcome))

    @property
    def word(self) -> str:
        """The verdict without the card, one of `WORDS`."""
        return self.verdict.partition(" on ")[0]


def claim(place: str = "", figure: str = "") -> Callable[[Callable[[Any], Parts]], Claim]:
    """Makes a claim of the function that measures it on a `measure.Card`.

    The function's name is the claim's: its first letter names the source, l stands for this
    project. Its docstring has the statement, then in paragraphs the source's words in quotation
    marks, how they were read and, after ``Here:``, why an H200 does other than claimed.
    """

    def made(measure: Callable[[Any], Parts]) -> Claim:
        paragraphs = inspect.cleandoc(measure.__doc__ or "").split("\n\n")
        statement, *more = (" ".join(one.split()) for one in paragraphs)
        texts: dict[str, list[str]] = {"“": [], "Here: ": [], "": []}
        for text in more:
            mark = next(mark for mark in texts if text.startswith(mark))
            texts[mark].append(text.removeprefix("Here: "))
        words, why, reading = map(" ".join, texts.values())
        name = measure.__name__.upper()
        source = OURS if name.startswith("L") else name[0]
        statement = statement.removesuffix(".")
        return Claim(name, source, place, figure, statement, words, reading, why, measure)

    return made


def optional(part: Part) -> Part | None:
    """The part where something measured it: it is not missed elsewhere."""
    return part if part.outcome != NOT_MEASURED else None


def four_figures(value: float) -> str:
    """Four significant figures, thousands apart: 1.427, 0.02134, 226,051."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def text_of(found: Estimate) -> str:
    """A number with its interval, where it has one."""
    value, low, high = map(four_figures, (found.value, found.low, found.high))
    return value if found.low == found.high else f"{value} [{low}, {high}]"


def _verdict(parts: Iterable[Part], source: str, gpu: str) -> str:
    outcomes = {part.outcome for part in parts}
    if "no" in outcomes and source == OURS:
        return DOES_NOT_HOLD
    if any(part.exact and part.outcome == "no" for part in parts):
        return CONTRADICTED
    if "no" in outcomes:
        return f"{NOT_REPRODUCED} on {card_of(gpu).name}"
    if UNDECIDED in outcomes:
        return UNDECIDED
    if NOT_MEASURED in outcomes or not outcomes:
        return NOT_MEASURED
    return HOLDS if source == OURS else REPRODUCED
