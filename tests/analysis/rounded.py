"""Points measured in rounds, with the noise that a GPU has, and pairs of them to compare."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from analysis.comparison.pairs import Pair, Visits
from experiments.data.rows import Row
from tests.analysis.plausible import row

Dice = np.random.Generator
STEP_US = 0.032  # of CUDA events
FLIP_US = 0.5  # between the two values of a short kernel


def normal(dice: Dice, rounds: int) -> np.ndarray:
    return 0.003 * dice.standard_normal(rounds)


def heavy(dice: Dice, rounds: int) -> np.ndarray:
    return 0.002 * dice.standard_t(3, rounds)


def two_valued(dice: Dice, rounds: int) -> np.ndarray:
    """Now and then 2 % slower, as a kernel of 25 µs that takes half a microsecond more."""
    return 0.02 * (dice.random(rounds) < dice.uniform(0.2, 0.8))


NOISES: Mapping[str, Callable[[Dice, int], np.ndarray]] = MappingProxyType(
    {"normal": normal, "heavy": heavy, "two_valued": two_valued}
)


def samples(dice: Dice, time_us: float, count: int = 60) -> list[float]:
    """One round: samples around its own median, in whole steps of the timer, some far too slow."""
    drawn = time_us * (1 + 0.005 * dice.standard_normal(count))
    drawn += time_us * 0.3 * (dice.random(count) < 0.02)
    return [float(s) for s in np.maximum(np.round(drawn / STEP_US), 1) * STEP_US]


def rounds_of(dice: Dice, noise: str, rounds: int, time_us: float = 50.0) -> list[list[float]]:
    """The samples of so many rounds of one point."""
    return [samples(dice, time_us * float(np.exp(e))) for e in NOISES[noise](dice, rounds)]


def visits(times: Sequence[float], **changes: Any) -> Visits:
    """A point's visits with these medians, µs, each known within half a percent."""
    return Visits(
        tuple(
            {"status": "ok", "backend": "triton", "time_us": t, "time_low_us": t * 0.9975,
             "time_high_us": t * 1.0025, "suspect": [], "reason": None, "round": i} | changes
            for i, t in enumerate(times)
        )
    )  # fmt: skip


def pair(base: Sequence[float], head: Sequence[float], name: str = "fused") -> Pair:
    """A point of two sets by its rounds' medians."""
    place = {"operation": "softmax", "kernel": name, "variant": name, "rows": 4096, "cols": 4096,
             "dtype": "float32", "gpu": "NVIDIA H200", "card": 0, "timer": "events",
             "cache": "cold"}  # fmt: skip
    return Pair(place, visits(base), visits(head))


def sweep(dice: Dice, times_us: np.ndarray, rounds: int, slowdown: float = 0.0) -> list[np.ndarray]:
    """One process: medians by point and round, the first point slowed down.

    Every point has an offset of its own in this process, and every round's noise is one of three.
    """
    names = list(NOISES)
    found = []
    for i, time in enumerate(times_us):
        noise = NOISES[names[i % 2]](dice, rounds)
        offset = 0.001 * dice.standard_normal()
        factor = 1 + (slowdown if i == 0 else 0.0)
        medians = time * factor * np.exp(noise + offset)
        if time < 25:
            medians = medians + FLIP_US * (dice.random(rounds) < 0.5)
        found.append(np.round(medians / STEP_US) * STEP_US)
    return found


def rounded_rows(kernel: str, cols: int, times: Sequence[float], **changes: Any) -> list[Row]:
    """The rows of one point, a round each."""
    return [row(kernel, cols, time_us=t, round=i, **changes) for i, t in enumerate(times)]
