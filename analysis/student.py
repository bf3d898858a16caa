"""Student's t distribution, by the array: what a corrected interval needs far out in its tails.

`scipy.stats.t` calls these same functions of `scipy.special`, which take a quarter of its time to
import.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

Floats = NDArray[np.float64]


def tail(t: ArrayLike, df: ArrayLike) -> Floats:
    """P(T > t) for ``df`` degrees of freedom, both broadcast against each other."""
    return np.asarray(special.stdtr(df, -np.asarray(t, float)))


def quantile(level: ArrayLike, df: ArrayLike) -> Floats:
    """The t above which lies a share ``level`` (at most one half) of the distribution."""
    return np.asarray(-special.stdtrit(df, level))


def critical(level: float, df: int) -> float:
    """The same of one two-sided ``level``: mean ± this many standard errors."""
    return float(quantile((1 - level) / 2, df))
