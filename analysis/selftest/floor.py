"""What the protocol can tell apart, by time range."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from analysis.estimate import prediction
from analysis.selftest.pairs import LEVEL, Pair

EDGES_US = (0.0, 10.0, 25.0, 50.0, 200.0, math.inf)
SHARE = 0.95  # of the pairs that a limit holds for
TO_SIGMA = 1.349  # the quartiles' distance of a normal, in standard deviations
LEAST = 20  # pairs below which a 95th percentile is the largest one seen


@dataclass(frozen=True)
class Floor:
    """The noise of twins of one card and protocol within a time range; ratios as shares.

    Attributes:
        gpu: The driver's name.
        timer: How they were timed.
        cache: Cold or warm.
        low_us: The range's lower end, µs; the whole line's is 0.
        high_us: Its upper end, µs; the whole line's is infinite.
        pairs: The twins whose time lies in the range.
    """

    gpu: str
    timer: str
    cache: str
    low_us: float
    high_us: float
    pairs: tuple[Pair, ...]

    @property
    def whole(self) -> bool:
        """Whether it is of all times."""
        return self.low_us == 0 and math.isinf(self.high_us)

    @property
    def rounds(self) -> tuple[int, int]:
        """The fewest and the most rounds of a pair."""
        counts = [pair.rounds for pair in self.pairs]
        return min(counts), max(counts)

    @property
    def false_positives(self) -> int:
        """Pairs whose 95 % interval leaves out 1."""
        return sum(pair.differs for pair in self.pairs)

    @property
    def one_round(self) -> float:
        """What 95 % of the ratios of a single round stay within: less is not to be believed."""
        return most([_away(r) for pair in self.pairs for r in pair.single])

    @property
    def all_rounds(self) -> float:
        """What 95 % of the ratios over all rounds stay within."""
        return most([_away(pair.ratio.value) for pair in self.pairs])

    @property
    def resolvable(self) -> float:
        """The least slowdown that 95 % of the pairs' intervals over all rounds would have told."""
        return most([pair.resolvable for pair in self.pairs])

    @property
    def within(self) -> float:
        """Spread of a round's samples: quartiles' distance over 1.349, share of the median."""
        spreads = [
            float(np.subtract(*np.percentile(samples, [75, 25])))
            / TO_SIGMA
            / float(np.median(samples))
            for pair in self.pairs
            for samples in (*pair.first, *pair.second)
        ]
        return float(np.median(spreads))

    @property
    def between(self) -> float:
        """Spread of a variant's medians over its rounds, standard deviation of logarithms.

        NaN of one round.
        """
        spreads = [
            float(np.std(np.log(medians), ddof=1))
            for pair in self.pairs
            if pair.rounds > 1
            for medians in pair.medians_us
        ]
        return float(np.median(spreads)) if spreads else math.nan

    @property
    def foretold(self) -> tuple[int, int]:
        """How many last rounds lay within the prediction of the rounds before, and of how many."""
        sides = [s for pair in self.pairs if pair.rounds > 2 for s in (pair.first, pair.second)]
        inside = 0
        for side in sides:
            told, last = prediction(side[:-1], LEVEL), float(np.median(side[-1]))
            inside += told.low <= last <= told.high
        return inside, len(sides)


def floors(pairs: Iterable[Pair]) -> list[Floor]:
    """For each card and protocol the line of all times, then each range that holds a pair."""
    groups: dict[tuple[str, str, str], list[Pair]] = {}
    for pair in pairs:
        place = pair.place
        groups.setdefault((place["gpu"], place["timer"], place["cache"]), []).append(pair)
    made = []
    for protocol in sorted(groups):
        mine = groups[protocol]
        made.append(Floor(*protocol, 0.0, math.inf, tuple(mine)))
        for low, high in pairwise(EDGES_US):
            inside = tuple(pair for pair in mine if low <= pair.time_us < high)
            if inside:
                made.append(Floor(*protocol, low, high, inside))
    return made


def most(values: Sequence[float]) -> float:
    """What 95 % of the values do not exceed: one that was seen, never less."""
    return float(np.quantile(values, SHARE, method="higher"))


def _away(ratio: float) -> float:
    return max(ratio, 1 / ratio) - 1
