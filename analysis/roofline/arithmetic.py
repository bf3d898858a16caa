"""What softmax computes, and how fast a card could: defined here and nowhere else."""

from __future__ import annotations

import numpy as np
import pandas as pd

from experiments.data.cards import Card

# Per element: compare with the maximum, subtract it, one exponential, add to the sum, scale.
# Each counts one, whichever unit does it; what a variant computes twice is not counted twice.
FLOPS_PER_ELEMENT = 5
STATED = "5 flop an element: max, subtract, exp, add, scale"


def flops(rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
    """Operations of softmaxes of rows × cols."""
    return np.asarray(FLOPS_PER_ELEMENT * rows * cols)


def flops_per_us(points: pd.DataFrame) -> np.ndarray:
    """Operations a microsecond, 1e-6 of Tflop/s."""
    done = flops(points["rows"].to_numpy(), points["cols"].to_numpy())
    return np.asarray(done / points["time_us"].to_numpy(dtype=float))


def fp32_gflops(card: Card) -> float | None:
    """The datasheet's arithmetic peak, Gflop/s."""
    peak = card.facts.get("fp32_tflops")
    return None if peak is None else 1e3 * peak


def exponential_gflops(card: Card) -> float | None:
    """Softmax's Gflop/s when the exponential unit is the limit: one exp in every five flop."""
    facts = [card.facts.get(name) for name in ("exp2_per_sm_clock", "sms", "clock_mhz")]
    if None in facts:
        return None
    per_clock, sms, mhz = (float(f) for f in facts if f is not None)
    return FLOPS_PER_ELEMENT * per_clock * sms * mhz / 1e3
