"""Numbers, the parts of a claim that they decide, and the verdict that follows from its parts."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from analysis.estimate import Estimate
from analysis.published import elements
from experiments.data.cards import datasheet_of

OWN = "this project"
REPRODUCED, NOT_REPRODUCED = "reproduced", "not reproduced"
CONTRADICTED, UNDECIDED, NOT_MEASURED = "contradicted", "undecided", "not measured"
HOLDS, DOES_NOT_HOLD = "holds", "does not hold"
WORDS = (REPRODUCED, HOLDS, NOT_REPRODUCED, DOES_NOT_HOLD, CONTRADICTED, UNDECIDED, NOT_MEASURED)
# by card and claim: why the card does not do what is claimed
WHY = yaml.safe_load(Path(__file__).with_name("why.yaml").read_text(encoding="utf-8"))
WORST_FIRST = ("no", UNDECIDED, NOT_MEASURED, "yes")  # outcomes of a part


@dataclass(frozen=True)
class Part:
    """One part of a claim on one GPU."""

    label: str  # which part, in a few words
    expected: str  # by the claim, in words
    measured: str = ""  # the number in words; empty if nothing was measured
    outcome: str = NOT_MEASURED  # whether it is as expected: one of `WORST_FIRST`
    estimate: Estimate | None = None  # the number that decided
    labels: tuple[int, ...] = ()  # of the rows behind it
    exact: bool = False  # the same on every card: counted, or computed from printed numbers
    direction: str = ""  # whether Triton does ``better`` or ``worse`` than claimed, where known
    lacks: str = ""  # the rows or records that would decide it


Parts = Iterable[Part | None]  # None where an optional part was not measured


def optional(part: Part) -> Part | None:
    """The part, or None if nothing measured it, so that a claim is judged without it."""
    return part if part.outcome != NOT_MEASURED else None


def fact(label: str, holds: bool, expected: str, measured: str) -> Part:
    """A part that printed numbers decide, the same on every card."""
    return Part(label, expected, measured, "yes" if holds else "no", exact=True)


@dataclass(frozen=True)
class Points:
    """Numbers with intervals by workload (M, N and dtype); () is that of one number for all."""

    numbers: Mapping[Any, Estimate] = field(default_factory=dict)
    needs: str = ""  # the rows or records to measure, if there are no numbers
    note: str = ""  # printed beside the numbers
    gain: int = 0  # 1 where a higher number is better for Triton, -1 where a lower one is
    exact: bool = False  # see `Part`

    @property
    def range(self) -> str:
        """The least and the greatest number, in words."""
        values = [one.value for one in self.numbers.values()]
        return " to ".join(dict.fromkeys(map(four_figures, (min(values), max(values)))))

    def __bool__(self) -> bool:
        return bool(self.numbers)

    def __truediv__(self, other: Points | str) -> Points:
        """Each number divided by the other's of the same workload, or by a formula in M and N."""
        if isinstance(other, str):
            sizes = {at: exactly(elements(other, at[0], at[1])) for at in self.numbers}
            other = replace(self, numbers=sizes)
        ratio = self._with(other, lambda a, b: a / b if b.value else exactly(math.inf))
        note = f"{self.range} over {other.range}" if () in ratio.numbers else ""
        return replace(ratio, note=note)

    def __add__(self, other: Points) -> Points:
        """The sum of both numbers of each workload that both have."""
        return self._with(other, lambda a, b: exactly(a.value + b.value).of(a.labels + b.labels))

    def _with(self, other: Points, operate: Callable[[Estimate, Estimate], Estimate]) -> Points:
        shared = [at for at in self.numbers if at in other.numbers]
        found = {at: operate(self.numbers[at], other.numbers[at]) for at in shared}
        found = {at: one for at, one in found.items() if math.isfinite(one.value)}
        return replace(other if self else self, numbers=found, gain=self.gain)

    def pick(self, share: float) -> Points:
        """One number of all: 0 picks the least, 0.5 the lower median, 1 the greatest.

        If the lower median is above a limit, more than half of the numbers are.
        """
        ordered = sorted(self.numbers.values(), key=lambda one: one.value)
        picked = {(): ordered[int(share * (len(ordered) - 1))]} if ordered else {}
        note = f"{self.range} over {len(ordered)} points" if len(ordered) > 1 else ""
        return replace(self, numbers=picked, note=note)

    @property
    def spread(self) -> Points:
        """The greatest number over the least."""
        return self.pick(1) / self.pick(0)

    def each(self, label: str, gain: int | None = None, **expected: Any) -> Part:
        """A part that holds if every number lies in the band of `_band`.

        Its text names the number that is furthest off.
        """
        text, low, high = _band(**expected)
        if not self:
            return Part(label, text, lacks=self.needs)
        every = self.numbers.values()
        inside = [low <= one.low and one.high <= high for one in every]
        outside = any(one.high < low or one.low > high for one in every)
        outcome = "no" if outside else "yes" if all(inside) else UNDECIDED
        off = {at: max(low - one.value, one.value - high) for at, one in self.numbers.items()}
        worst = max(off, key=lambda at: off[at])
        found = self.numbers[worst]
        measured, *ends = map(four_figures, (found.value, found.low, found.high))
        measured += f" [{', '.join(ends)}]" if found.low < found.high else ""
        measured += " at {}×{} {}".format(*worst) if worst else ""
        if len(off) > 1:
            text = f"every point {text}"
            counted = f"{self.range} over {len(off)} points, {sum(inside)} as expected"
            measured = counted if outcome == "yes" else f"{counted}; furthest off {measured}"
        measured = ", ".join(filter(None, (measured, self.note)))
        side = (self.gain if gain is None else gain) * (1 if found.value > high else -1)
        direction = {1: "better", -1: "worse"}.get(side, "") if outcome == "no" else ""
        labels = tuple(dict.fromkeys(label for one in every for label in one.labels))
        return Part(label, text, measured, outcome, found, labels, self.exact, direction)


def exactly(value: float) -> Estimate:
    """A number without an interval."""
    return Estimate(float(value), float(value), float(value))


def _band(**words: Any) -> tuple[str, float, float]:
    """The band that one keyword allows, such as ``above=1``: in words, the least, the greatest.

    The others are ``below``, ``at_least``, ``at_most``, ``equals``, ``between=(3, 4)``, both ends
    included, and ``about=(4, 0.15)``, within 15 % of 4.
    """
    ((word, value),) = words.items()
    if word == "about":
        value, within = value
        text = f"about {four_figures(value)}, within {100 * within:g} %"
        return text, value - abs(value) * within, value + abs(value) * within
    if word == "between":
        return " to ".join(map(four_figures, value)), *value
    low = {"at_least": value, "equals": value, "above": math.nextafter(value, math.inf)}
    high = {"at_most": value, "equals": value, "below": math.nextafter(value, -math.inf)}
    text = f"{word.replace('_', ' ')} {four_figures(value)}"
    return text, low.get(word, -math.inf), high.get(word, math.inf)


def four_figures(value: float) -> str:
    """Four significant figures, thousands apart: 1.427, 0.02134, 226,051."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


@dataclass(frozen=True)
class Judgement:
    """A claim and its verdict on one GPU."""

    id: str  # such as ``A4``
    source: str  # the letter of its source, or `OWN`
    passage: str  # of the source that makes the claim
    figure: str  # the figure that shows it, empty for none
    statement: str  # the claim in short
    words: str  # the source's own words
    reading: str  # how an unclear sentence was read, or another remark
    gpu: str  # whose rows judged it
    parts: tuple[Part, ...]
    deciding: Part  # the first part with the worst outcome
    word: str  # the verdict without the card, one of `WORDS`
    verdict: str  # the word; if the claim is not reproduced, with the name of the card
    direction: str  # ``better`` or ``worse`` where Triton does other than claimed
    why: str  # why the card does other than claimed; empty where nothing has to be explained
    remark: str  # `why`, or which way the claim is missed, or how its words were read


ClaimFunction = Callable[[Any], Parts]  # yields the parts of a claim on a `card.Card`


def claim(passage: str, figure: str = "") -> Callable[[ClaimFunction], ClaimFunction]:
    """Says where a source makes a claim, and which figure shows it."""

    def marked(function: ClaimFunction) -> ClaimFunction:
        vars(function).update(passage=passage, figure=figure)
        return function

    return marked


def judge_claim(function: ClaimFunction, card: Any) -> Judgement:
    """A claim judged on a card by the function that yields its parts.

    The function's name is the claim's: its first letter names the source, l stands for this
    project. Its docstring has the statement, then in paragraphs the source's words in quotation
    marks, and how they were read.
    """
    paragraphs = str(inspect.getdoc(function)).split("\n\n")
    statement, *more = (" ".join(one.split()) for one in paragraphs)
    words = " ".join(text for text in more if text.startswith("“"))
    reading = " ".join(text for text in more if not text.startswith("“"))
    passage, figure = (vars(function).get(name, "") for name in ("passage", "figure"))
    name, ours = function.__name__.upper(), function.__name__.startswith("l")
    said = (OWN if ours else name[0], passage, figure, statement.removesuffix("."), words, reading)
    parts = tuple(part for part in function(card) if part)
    worst = min(parts or [Part("", "")], key=lambda part: WORST_FIRST.index(part.outcome))
    wrong = [part for part in parts if part.outcome == "no"]
    yes, no = (HOLDS, DOES_NOT_HOLD) if ours else (REPRODUCED, NOT_REPRODUCED)
    word = {"yes": yes, "no": no}.get(worst.outcome, worst.outcome)
    if not ours and any(part.exact for part in wrong):
        word = CONTRADICTED
    verdict = word + f" on {datasheet_of(card.gpu).name}" * (word == NOT_REPRODUCED)
    direction = next((part.direction for part in wrong if part.direction), "")
    where = {no: card.gpu, CONTRADICTED: "every card"}.get(word, "")
    why = WHY.get(where, {}).get(name, "")
    missed = word in (NOT_REPRODUCED, CONTRADICTED)
    way = f"Triton does {direction} than claimed." if direction else ""
    found = worst, word, verdict, direction, why, why or (way if missed else reading)
    return Judgement(name, *said, card.gpu, parts, *found)
