"""Intervals, ratios and means of times, held to how often they must be right."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from analysis.estimate import holm, of_rounds, over_recordings
from tests.analysis.noisy import NOISES, samples


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("count", [3, 8])
def test_95_of_100_intervals_of_rounds_hold_the_ratio(noise: str, count: int) -> None:
    # rounds as an H200 gives them: a drift that both sides share, far beyond the difference, and
    # an effect of each side's own: normal, Student's t of three degrees, or one of two values
    dice = np.random.default_rng(5)
    held, widths = [], []
    for _ in range(400):
        drift = 50 * np.exp(0.05 * dice.standard_normal(count))
        effects = NOISES[noise](dice, 2 * count).reshape(2, count)
        first, second = ([samples(dice, t) for t in drift * np.exp(one)] for one in effects)
        ratio = of_rounds(first, second)
        held.append(ratio.low <= 1 <= ratio.high)
        widths.append(ratio.high - ratio.low)
    assert 0.93 <= np.mean(held) <= 0.99
    assert np.median(widths) < 0.06  # and no more than what the noise allows


@pytest.mark.parametrize("count", [2, 3, 5])
def test_95_of_100_intervals_of_recordings_hold_what_recordings_vary_around(count: int) -> None:
    # hosts differ by 1 % with heavy tails, rounds within one by 0.2 %; in one the rounds say less
    dice = np.random.default_rng(11)
    held, alone = [], []
    for _ in range(2000):
        hosts = 0.01 * dice.standard_t(4, count)
        recordings = [np.exp(host + 0.002 * dice.standard_t(3, 3)) for host in hosts]
        found = over_recordings(recordings)
        held.append(found.low <= 1 <= found.high)
        single = over_recordings(recordings[:1])
        alone.append(single.low <= 1 <= single.high)
    assert 0.94 <= np.mean(held) <= 0.98
    assert np.mean(alone) < 0.6


@given(arrays(float, st.integers(1, 30), elements=st.floats(0, 1)), st.floats(0.001, 0.5))
def test_holm_steps_down_as_its_definition_says(p: np.ndarray, alpha: float) -> None:
    rejected: set[int] = set()
    for step, i in enumerate(np.argsort(p, kind="stable")):
        if p[i] * (p.size - step) > alpha:
            break
        rejected.add(int(i))
    assert {int(i) for i in np.flatnonzero(holm(p) <= alpha)} == rejected
