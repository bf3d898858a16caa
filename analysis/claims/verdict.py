"""Verdicts in one place: what a claim allows, what was measured, and what follows from both."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
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
PLACE = ["rows", "cols", "dtype"]
ENDS = ["value", "low", "high"]


@dataclass(frozen=True)
class Band:
    """All numbers from ``low`` to ``high``, and how a table says it."""

    text: str
    low: float = -math.inf
    high: float = math.inf

    def outcome(self, found: Estimate) -> str:
        """Yes where all of an interval lies inside, no where all of it lies outside."""
        if self.low <= found.low and found.high <= self.high:
            return "yes"
        return "no" if found.high < self.low or found.low > self.high else "undecided"

    def excess(self, value: float) -> float:
        """How far outside a number lies; negative inside, by its distance to the nearer end."""
        return max(self.low - value, value - self.high)


def at_least(value: float) -> Band:
    """This number or more."""
    return Band(f"at least {plain(value)}", low=value)


def at_most(value: float) -> Band:
    """This number or less."""
    return Band(f"at most {plain(value)}", high=value)


def above(value: float) -> Band:
    """More than this number."""
    return Band(f"above {plain(value)}", low=math.nextafter(value, math.inf))


def below(value: float) -> Band:
    """Less than this number."""
    return Band(f"below {plain(value)}", high=math.nextafter(value, -math.inf))


def between(low: float, high: float) -> Band:
    """A range with its ends."""
    return Band(f"{plain(low)} to {plain(high)}", low, high)


def about(value: float, within: float) -> Band:
    """A number within a share of it, such as 0.15."""
    text = f"about {plain(value)}, within {100 * within:g} %"
    return Band(text, value - abs(value) * within, value + abs(value) * within)


def equals(value: float, text: str = "") -> Band:
    """This number alone; of an outcome ``text`` says what it stands for."""
    return Band(text or f"equals {plain(value)}", value, value)


ALL_OK = equals(1, "every point ok")


@dataclass(frozen=True)
class Part:
    """One part of a claim on one GPU.

    Attributes:
        label: Which part, in a few words.
        expected: What the claim makes one expect, in words.
        measured: What was found, in words; empty where nothing was.
        outcome: Whether it is as expected: yes, no, undecided or not measured.
        estimate: The number that decided.
        labels: The rows behind it, as the frame labels them.
        exact: No card could give another number: it was counted, or follows from what is printed.
        direction: Whether Triton does ``better`` or ``worse`` than claimed, where that is known.
        lacks: What is needed to decide it.
    """

    label: str
    expected: str
    measured: str = ""
    outcome: str = "not measured"
    estimate: Estimate | None = None
    labels: tuple[int, ...] = ()
    exact: bool = False
    direction: str = ""
    lacks: str = ""


Parts = Iterable[Part | None]  # None where an optional part was not measured


@dataclass(frozen=True)
class Points:
    """What was measured: numbers with their intervals, a line each.

    Attributes:
        lines: `ENDS`, ``labels`` (the rows behind the number) and, of one place, `PLACE`.
        gain: 1 where a higher number is better for Triton, -1 where a lower one is, else 0.
        note: What to print beside the numbers.
        lacks: What is needed where there are no numbers.
        exact: See `Part`.
        told: The note says the number in words.
    """

    lines: pd.DataFrame = field(default_factory=pd.DataFrame)
    gain: int = 0
    note: str = ""
    lacks: str = ""
    exact: bool = False
    told: bool = False

    @property
    def labels(self) -> tuple[int, ...]:
        """The labels of all rows behind the numbers."""
        return tuple(dict.fromkeys(chain.from_iterable(self.lines["labels"])))

    def each(self, label: str, band: Band) -> Part:
        """A part that every point decides; its number is the point furthest off."""
        if self.lacks:
            return Part(label, band.text, lacks=self.lacks)
        found = [Estimate(*ends) for ends in self.lines[ENDS].astype(float).to_numpy()]
        outcomes = [band.outcome(one) for one in found]
        worst = int(self.lines["value"].map(band.excess).argmax())
        text = f"{text_of(found[worst])}{self._at(worst)}"
        if len(found) == 1:
            return self._part(label, band.text, band, outcomes[0], found[0], text)
        outcome = next((one for one in ("no", "undecided") if one in outcomes), "yes")
        counted = f"{self._ends()} over {len(found)} points, {outcomes.count('yes')} as expected"
        text = counted if outcome == "yes" else f"{counted}; furthest off {text}"
        return self._part(label, f"every point {band.text}", band, outcome, found[worst], text)

    def most(self, label: str, band: Band) -> Part:
        """A part that holds where more than half of the points do."""
        if self.lacks:
            return self.each(label, band)
        found = [Estimate(*ends) for ends in self.lines[ENDS].astype(float).to_numpy()]
        outcomes, count = [band.outcome(one) for one in found], len(found)
        yes, maybe = outcomes.count("yes"), outcomes.count("undecided")
        holding = sum(band.excess(one.value) <= 0 for one in found)
        share = Estimate(holding / count, yes / count, (yes + maybe) / count)
        text = f"{100 * share.value:.0f} % of {count} points ({self._ends()})"
        outcome = above(0.5).outcome(share)
        return self._part(label, f"most points {band.text}", above(0.5), outcome, share, text)

    def mean(self, label: str, band: Band) -> Part:
        """A part that the geometric mean of the points decides."""
        return self._reduced(geometric_mean).each(label, band)

    def highest(self, label: str, band: Band) -> Part:
        """A part that the highest point decides."""
        return self._reduced(max).each(label, band)

    def _part(
        self, label: str, expected: str, band: Band, outcome: str, found: Estimate, text: str
    ) -> Part:
        side = self.gain * (1 if found.value > band.high else -1)
        direction = {1: "better", -1: "worse"}.get(side, "") if outcome == "no" else ""
        text = self.note if self.told else f"{text}, {self.note}" if self.note else text
        return Part(label, expected, text, outcome, found, self.labels, self.exact, direction)

    def _reduced(self, reduce: Callable[[Iterable[float]], float]) -> Points:
        """The points as one number; their range goes into the note."""
        if self.lacks:
            return self
        value, low, high = (reduce(self.lines[end]) for end in ENDS)
        note = f"{self._ends()} over {len(self.lines)} points"
        # exp and log round
        low, high = min(low, value), max(high, value)
        return number(value, low, high, labels=self.labels, gain=self.gain, note=note)

    def _ends(self) -> str:
        values = self.lines["value"]
        return " to ".join(dict.fromkeys((plain(values.min()), plain(values.max()))))

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
    ends = {"value": value, "low": value if low is None else low}
    ends["high"] = value if high is None else high
    return Points(pd.DataFrame([ends | {"labels": labels}]), **fields)


@dataclass(frozen=True)
class Claim:
    """A claim and the function that measures it; `claim` makes one.

    Attributes:
        id: The claim's name, such as ``A4``.
        source: The letter of its source, or `OURS`.
        place: Where the source says so.
        figure: The figure that shows it, empty for none.
        statement: The claim in short.
        words: The source's own words.
        reading: How an unclear sentence was read, or what else bears on it.
        why: Why an H200 does other than claimed, with the mechanism.
        measure: Gives the parts of the claim on a `measure.Card`.
    """

    id: str
    source: str
    place: str
    figure: str
    statement: str
    words: str
    reading: str
    why: str
    measure: Callable[[Any], Parts] = field(repr=False)

    def judge(self, card: Any) -> Judgement:
        """The claim on one GPU, a `measure.Card`."""
        parts = tuple(part for part in self.measure(card) if part)
        wrong = [part for part in parts if part.outcome == "no"]
        verdict = _verdict(parts, self.source, card.gpu)
        told = wrong and (card.gpu == EXPLAINED or verdict == CONTRADICTED)
        direction = next((part.direction for part in wrong if part.direction), "")
        own = {**vars(self), "why": self.why if told else ""}
        return Judgement(**own, gpu=card.gpu, verdict=verdict, direction=direction, parts=parts)


@dataclass(frozen=True)
class Judgement(Claim):
    """A claim on one GPU; its ``why`` is empty where nothing has to be explained.

    Attributes:
        gpu: Whose rows judged it.
        verdict: One of `WORDS`; one that is not reproduced names the card too.
        direction: ``better`` or ``worse`` where Triton does other than claimed.
        parts: What was measured.
    """

    gpu: str
    verdict: str
    direction: str
    parts: tuple[Part, ...]

    @property
    def deciding(self) -> Part:
        """The first part of the worst outcome."""
        order = ("no", "undecided", "not measured", "yes")
        return min(self.parts, key=lambda part: order.index(part.outcome))

    @property
    def word(self) -> str:
        """The verdict without the card, one of `WORDS`."""
        return self.verdict.partition(" on ")[0]


def claim(place: str = "", figure: str = "") -> Callable[[Callable[[Any], Parts]], Claim]:
    """Makes a claim of the function that measures it on a `measure.Card`.

    The function's name is the claim's: its first letter names the source, l stands for this
    project. Its docstring has the statement, then in paragraphs the source's words in quotation
    marks, how they were read and, after ``Here:``, why an H200 does other than claimed.

    Args:
        place: Where the source says so.
        figure: The figure that shows it.
    """

    def made(measure: Callable[[Any], Parts]) -> Claim:
        statement, *more = inspect.cleandoc(measure.__doc__ or "").split("\n\n")
        texts: dict[str, list[str]] = {"“": [], "Here: ": [], "": []}
        for text in (" ".join(one.split()) for one in more):
            mark = next(mark for mark in texts if text.startswith(mark))
            texts[mark].append(text.removeprefix("Here: "))
        words, why, reading = map(" ".join, texts.values())
        statement = " ".join(statement.split()).removesuffix(".")
        name = measure.__name__.upper()
        source = OURS if name.startswith("L") else name[0]
        return Claim(name, source, place, figure, statement, words, reading, why, measure)

    return made


def optional(part: Part) -> Part | None:
    """The part where something measured it: it is not missed elsewhere."""
    return part if part.outcome != "not measured" else None


def plain(value: float) -> str:
    """Four significant figures, thousands apart: 1.427, 0.02134, 226,051."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def text_of(found: Estimate) -> str:
    """A number with its interval, where it has one."""
    if found.low == found.high:
        return plain(found.value)
    return f"{plain(found.value)} [{plain(found.low)}, {plain(found.high)}]"


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
