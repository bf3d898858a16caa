"""Student's t distribution, by the array: what a corrected interval needs far out in its tails.

SciPy is no dependency of this project; two functions of it are no reason to make it one.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
MOST_DF = 1000.0  # beyond, t is the normal within 0.3 % of a quantile, and on the wide side
_STEPS, _HALVINGS = 200, 36
_TINY = 1e-300


def tail(t: ArrayLike, df: ArrayLike) -> Floats:
    """P(T > t) for ``df`` degrees of freedom, both broadcast against each other."""
    t, df = np.broadcast_arrays(np.asarray(t, float), np.minimum(np.asarray(df, float), MOST_DF))
    both = _incomplete_beta(df / 2, 0.5, df / (df + t * t)) / 2
    return np.where(t >= 0, both, 1 - both)


def quantile(level: ArrayLike, df: ArrayLike) -> Floats:
    """The t above which lies a share ``level`` (at most one half) of the distribution.

    Found by halving on a logarithm: it need not be fast, it must be right at 1e-6.
    """
    level, df = np.broadcast_arrays(np.asarray(level, float), np.asarray(df, float))
    low, high = np.full(level.shape, -5.0), np.full(level.shape, 8.0)  # powers of ten
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        beyond = tail(10.0**middle, df) > level
        low, high = np.where(beyond, middle, low), np.where(beyond, high, middle)
    return np.asarray(np.where(level >= 0.5, 0.0, 10.0**high))


@cache
def critical(level: float, df: int) -> float:
    """The same of one two-sided ``level``: mean ± this many standard errors."""
    return float(quantile((1 - level) / 2, df))


def normal_tail(z: float) -> float:
    """P(Z > z) of the standard normal."""
    return math.erfc(z / math.sqrt(2)) / 2


def _incomplete_beta(a: Any, b: float, x: Any) -> Floats:
    """The regularised I_x(a, b), by the continued fraction on the side where it converges fast."""
    flip = x > (a + 1) / (a + b + 2)
    p, q = np.where(flip, b, a), np.where(flip, a, b)
    y = np.where(flip, 1 - x, x)
    with np.errstate(divide="ignore"):
        front = p * np.log(y) + q * np.log1p(-np.where(y < 1, y, 0.5))
    scale = np.exp(front - _log_beta(a, b)) / p
    value = np.where(y > 0, scale * _fraction(p, q, y), 0.0)
    return np.asarray(np.clip(np.where(flip, 1 - value, value), 0.0, 1.0))


def _fraction(p: Floats, q: Floats, y: Floats) -> Floats:
    """Lentz's method; Numerical Recipes, 3rd edition, section 6.4."""
    c = np.ones_like(y)
    d = 1 / _away(1 - (p + q) * y / (p + 1))
    h = d
    for m in range(1, _STEPS):
        for term in (
            m * (q - m) * y / ((p + 2 * m - 1) * (p + 2 * m)),
            -(p + m) * (p + q + m) * y / ((p + 2 * m) * (p + 2 * m + 1)),
        ):
            d = 1 / _away(1 + term * d)
            c = _away(1 + term / c)
            h = h * d * c
        if np.all(np.abs(d * c - 1) < 1e-12):
            break
    return np.asarray(h)


def _away(value: Any) -> Any:
    return np.where(np.abs(value) < _TINY, _TINY, value)


def _log_beta(a: Any, b: float) -> Floats:
    gamma = np.vectorize(math.lgamma, otypes=[float])
    return np.asarray(gamma(a) + math.lgamma(b) - gamma(a + b))
