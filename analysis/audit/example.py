"""Rule: a worked example is what its printed input gives in float64, to the digits printed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from analysis.audit.finding import Finding
from analysis.audit.known import Known
from analysis.audit.wording import decimals
from analysis.published import Example

SLACK = 1e-9  # of printed decimals held in binary


def example(known: Known) -> Iterator[Finding]:
    """Each row's values and the sum of its outputs; block sums of row 1.

    A value may be off by one unit of its last digit: hand work cuts off, and goes on with rounded
    numbers.
    """
    for letter, source in known.sources.items():
        told = source.example
        if told is None:
            continue
        for row in range(len(told.input)):
            yield _values(letter, told, row)
            yield _outputs_sum(letter, told, row)
        yield _block_sums(letter, told)


def _values(letter: str, told: Example, row: int) -> Finding:
    numbers = np.asarray(told.input[row], dtype=np.float64)
    powers = np.exp(numbers - numbers.max())
    outputs = [float(p / powers.sum()) for p in powers]
    sum_, maximum = float(powers.sum()), float(numbers.max())
    off = {
        "maximum": abs(told.maxima[row] - maximum),
        "sum": abs(told.sums[row] - sum_),
        "outputs": max(abs(a - b) for a, b in zip(told.outputs[row], outputs, strict=True)),
    }
    unit = 10.0**-told.decimals
    wrong = [
        f"{what} by up to {by:.{told.decimals}f}" for what, by in off.items() if by > unit + SLACK
    ]
    return Finding(
        letter,
        f"{letter}-ex row {row + 1}",
        "wrong" if wrong else "consistent",
        _shown(told.maxima[row], told.sums[row], told.outputs[row], told.decimals),
        _shown(maximum, sum_, outputs, told.decimals),
        f"Against its input in float64 it is off: {', '.join(wrong)}."
        if wrong
        else f"In float64 its input gives these values, to one unit of the last digit ({unit:g}).",
    )


def _outputs_sum(letter: str, told: Example, row: int) -> Finding:
    printed, added = told.row_sums[row], sum(told.outputs[row])
    room = 10.0**-told.decimals * len(told.outputs[row])
    return Finding(
        letter,
        f"{letter}-ex row {row + 1}, sum of outputs",
        "consistent" if abs(added - printed) <= room + SLACK else "wrong",
        f"{printed:.{told.decimals}f}",
        f"{added:.{told.decimals}f}",
        f"The {len(told.outputs[row])} printed outputs add up to {added:.{told.decimals}f}; their "
        f"last digits account for {room:.{told.decimals}f} at most.",
    )


def _block_sums(letter: str, told: Example) -> Finding:
    numbers = np.asarray(told.input[0], dtype=np.float64)
    powers = np.exp(numbers - numbers.max())
    starts = range(0, len(numbers), told.block)
    sums = [float(powers[start : start + told.block].sum()) for start in starts]
    unit = 10.0**-told.decimals
    pairs = zip(told.block_sums, sums, strict=True)
    right = all(abs(a - b) <= unit + SLACK for a, b in pairs)
    added = sum(told.block_sums)
    adds_up = abs(added - told.sums[0]) <= unit * len(sums) + SLACK
    return Finding(
        letter,
        f"{letter}-ex row 1, block sums",
        "consistent" if right and adds_up else "wrong",
        f"{decimals(told.block_sums, told.decimals)}, sum {told.sums[0]:.{told.decimals}f}",
        f"{decimals(sums, told.decimals)}, sum {added:.{told.decimals}f}",
        f"Blocks of {told.block} have these sums, and the printed ones add up to "
        f"{added:.{told.decimals}f}.",
    )


def _shown(maximum: float, sum_: float, outputs: Sequence[float], digits: int) -> str:
    return f"maximum {maximum:.1f}, sum {sum_:.{digits}f}, outputs {decimals(outputs, digits)}"
