"""Points measured in rounds, with the noise that a GPU has, as samples, as rows and as a table."""

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from experiments.data.rows import Row
from tests.analysis.plausible import row

Dice = np.random.Generator
STEP_US = 0.032  # of CUDA events
TIMES_US = (4.0, 8.0, 15.0, 20.0, 30.0, 45.0, 60.0, 100.0, 150.0, 300.0, 900.0)  # of twins
TWINS = ("torch", "online", "fused_row")


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


def points(*pairs: tuple[Sequence[float], Sequence[float]]) -> pd.DataFrame:
    """Points as `analysis.compare.matched` gives them, from both sides' medians, µs.

    Each median is known within half a percent.
    """
    table: dict[str, Any] = {"variant": [f"fused {i}" for i in range(len(pairs))]}
    within = (np.log(1.0025 / 0.9975) / 2 / 1.959964) ** 2
    for side, name in enumerate(("base", "head")):
        logs = [np.log(pair[side]) for pair in pairs]
        table |= {
            f"{name}_visits": [len(one) for one in logs],
            f"{name}_rounds": [len(one) for one in logs],
            f"{name}_log": [one.mean() for one in logs],
            f"{name}_squares": [((one - one.mean()) ** 2).sum() for one in logs],
            f"{name}_within": [within * (len(one) == 1) for one in logs],
            f"{name}_status": "ok",
        }
    return pd.DataFrame(table)


def twins(
    *,
    rounds: int = 8,
    timers: Sequence[str] = ("events",),
    slower_b: float = 1.0,
    count: int = 60,
    times_us: Sequence[float] = TIMES_US,
    kernels: Sequence[str] = TWINS,
) -> list[Row]:
    """Rows of two twins of each kernel at each time; events report 2.5 µs more than other timers.

    The second twin's times are multiplied by ``slower_b``.
    """
    dice, made = np.random.default_rng(0), []
    names = [f"{kernel}-{mark}" for kernel in kernels for mark in "ab"]
    for timer, name, (i, true_us), number in product(
        timers, names, enumerate(times_us), range(rounds)
    ):
        middle = (true_us + 2.5 * (timer == "events")) * (slower_b if name.endswith("b") else 1.0)
        drawn = dice.normal(0, 0.004, count) + dice.normal(0, 0.002)  # of samples, and of the round
        taken = [float(us) for us in middle * np.exp(drawn)]
        place = {"rows": 1024 + i, "round": number, "timer": timer, "sweep": "selftest"}
        time = float(np.median(taken))
        made.append(row(name, 1024, samples_us=taken, time_us=time, **place))
    return made
