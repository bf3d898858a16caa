"""What a comparison leans on: the recorded noise, its fit, and Holm's step-down."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from analysis.comparison.noise import at, fit, recorded
from analysis.estimate import holm

RANGES = recorded()[1]


@given(arrays(float, st.integers(1, 30), elements=st.floats(0, 1)), st.floats(0.001, 0.5))
def test_holm_steps_down_as_its_definition_says(p: np.ndarray, alpha: float) -> None:
    rejected: set[int] = set()
    for step, i in enumerate(np.argsort(p, kind="stable")):
        if p[i] * (p.size - step) > alpha:
            break
        rejected.add(int(i))
    assert {int(i) for i in np.flatnonzero(holm(p) <= alpha)} == rejected


def test_holm_holds_its_level_over_many_families_of_equals() -> None:
    dice = np.random.default_rng(4)
    alarms = [holm(dice.uniform(size=200)).min() <= 0.05 for _ in range(2000)]
    assert np.mean(alarms) == pytest.approx(0.05, abs=0.015)


def test_a_fit_finds_the_scale_and_tails_that_were_drawn() -> None:
    dice = np.random.default_rng(8)
    scale, df = fit(0.003 * dice.standard_t(3, 4000))
    assert scale == pytest.approx(0.003, rel=0.05)
    assert df in (3.0, 4.0)
    assert fit(0.003 * dice.standard_normal(4000))[1] >= 15


def test_noise_is_looked_up_by_time() -> None:
    ends = [r.below_us for r in RANGES]
    assert ends == [10.0, 25.0, 50.0, 100.0, 200.0, 500.0, None]
    scales, _, floors = at(RANGES, np.array([1.0, 9.99, 10.0, 60.0, 1e9]))
    assert scales[0] == scales[1] == RANGES[0].scale
    assert scales[2] == RANGES[1].scale
    assert (floors[3], floors[4]) == (RANGES[3].floor, RANGES[-1].floor)
