"""The stepper: its last step is softmax, and each step is what online softmax knows by then."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from analysis.stepper import BLOCK, HEADS, NORMALISE, STATISTICS, example, steps

SHAPES = st.tuples(st.integers(1, 3), st.integers(1, 9))


@given(arrays.arrays(float, SHAPES, elements=st.floats(-30, 30)), st.integers(1, 5))
def test_steps_end_in_softmax_whatever_the_shape_and_the_block(x: np.ndarray, block: int) -> None:
    made = steps(x, block)
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    assert made[-1].output == pytest.approx(powers / powers.sum(axis=1, keepdims=True))
    assert made[-1].moved == (2 * x.size, x.size)  # 3MN, as source B has it
    assert len(made) == 1 + 2 * x.shape[0] * math.ceil(x.shape[1] / block)


def test_each_step_knows_what_was_read_so_far_and_nothing_more() -> None:
    x, made = example(), steps(example())
    assert x.shape == (2, 8)
    assert made[0].statistics == [[""] * len(HEADS)] * 2
    for step in made[1:]:
        first, end = step.columns
        assert end - first == BLOCK
        assert f"Row {step.row + 1} reads columns {first + 1} to {end}" in step.text
        for row, (maximum, total) in enumerate(step.known):
            begun, current = row < step.row, row == step.row
            seen = x[row, : end if current and step.phase == STATISTICS else 8]
            if begun or current:
                assert maximum == seen.max()
                assert total == pytest.approx(np.exp(seen - seen.max()).sum())
            else:
                assert math.isnan(maximum)
            stored = 8 if begun else end if current and step.phase == NORMALISE else 0
            assert np.isfinite(step.output[row]).tolist() == [i < stored for i in range(8)]
            cells = step.cells(x, step.reads, 1)[row]
            now = [i for i, (_, state) in enumerate(cells) if state == "now"]
            assert now == (list(range(first, end)) if current else [])


def test_a_complete_rows_statistics_are_of_its_probabilities() -> None:
    made = steps(example())
    p, (maxima, sums) = made[-1].output, made[-1].known.T
    for row, texts in enumerate(made[-1].statistics):
        numbers = [maxima[row], sums[row], 1, p[row].min(), p[row].max()]
        numbers.append(-(p[row] * np.log(p[row])).sum())
        assert [float(text) for text in texts] == pytest.approx(numbers, abs=5e-4)
    half = made[1 + 4]  # the first block of row 1 is normalised: two of eight probabilities
    assert half.statistics[0][2] == f"{half.output[0, :2].sum():.3f}"
    assert half.statistics[0][-1] == ""
    scale = f"multiplied by exp(2.0 − 3.0) = {math.exp(2 - 3):.3f}"
    assert f"The maximum rises from 2.0 to 3.0, so the sum so far is {scale}" in made[2].text
