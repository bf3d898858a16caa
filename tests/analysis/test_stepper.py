"""The stepper: its last step is softmax, and each step is what online softmax knows by then."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from analysis.stepper import example, steps

SHAPES = st.tuples(st.integers(1, 3), st.integers(1, 9))


@given(arrays.arrays(float, SHAPES, elements=st.floats(-30, 30)), st.integers(1, 5))
def test_steps_end_in_softmax_whatever_the_shape_and_the_block(x: np.ndarray, block: int) -> None:
    made = steps(x, block)
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    assert made[-1].output == pytest.approx(powers / powers.sum(axis=1, keepdims=True))
    assert made[-1].reads.sum() == 2 * x.size  # 3MN with the writes, as source B has it
    assert np.isfinite(made[-1].output).all()
    assert len(made) == 1 + 2 * x.shape[0] * math.ceil(x.shape[1] / block)


def test_each_step_knows_what_was_read_so_far_and_nothing_more() -> None:
    x, made = example(), steps(example())
    assert np.isnan(made[0].statistics).all()
    for step in made:
        for row, reads in enumerate(step.reads):
            seen = x[row][reads > 0]
            known = [seen.max(), np.exp(seen - seen.max()).sum()] if seen.size else [math.nan] * 2
            assert step.known[row] == pytest.approx(known, nan_ok=True)
        assert (np.isfinite(step.output) == (step.reads == 2)).all()
    first, second = made[2].columns
    assert f"Row 1 reads columns {first + 1} to {second}. The maximum rises" in made[2].text
    scale = f"multiplied by exp(2.0 − 3.0) = {math.exp(2 - 3):.3f}"
    assert f"The maximum rises from 2.0 to 3.0, so the sum so far is {scale}" in made[2].text
    p, shown = made[-1].output, [line[-1] for line in made[-1].statistics]
    assert shown == pytest.approx(-(p * np.log(p)).sum(axis=1))  # entropies
