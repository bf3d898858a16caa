"""The noise between two sweeps of equal code, which `analysis.compare` takes from ``noise.json``.

``python -m tests.analysis.fit_noise ONCE AGAIN > analysis/noise.json`` measures it.
"""

from __future__ import annotations

import json
import math
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import optimize, stats

from analysis.compare import matched
from analysis.load import load, rows_hash

EDGES_US = (0.0, 10.0, 25.0, 50.0, 100.0, 200.0, 500.0, math.inf)
# Degrees of freedom tried. Fewer than three would put one point in 1500 off by 40 %, which nothing
# recorded comes near.
SHAPES = (3.0, 4.0, 5.0, 7.0, 10.0, 15.0, 30.0)


def measured_noise(base: pd.DataFrame, head: pd.DataFrame) -> list[dict[str, Any]]:
    """The ranges of ``noise.json``, from two sweeps of equal code of one round each.

    In each range of times the likeliest t around 0 is fitted to the logarithms of the ratios.
    """
    points = matched(base, head)
    points = points[points["base_rounds"].gt(0) & points["head_rounds"].gt(0)]
    ratios = (points["head_log"] - points["base_log"]).to_numpy(float)
    times_us = np.exp(points[["base_log", "head_log"]].to_numpy(float).mean(axis=1))
    ranges = []
    for low, high in pairwise(EDGES_US):
        mine = ratios[(times_us >= low) & (times_us < high)]
        (scale, df), floor = fitted(mine), np.quantile(np.abs(mine), 0.95)
        end = None if math.isinf(high) else high
        scale, floor = (float(f"{value:.4g}") for value in (scale, floor))
        one = {"below_us": end, "points": mine.size, "scale": scale, "df": df, "floor": floor}
        ranges.append(one)
    return ranges


def fitted(values: np.ndarray) -> tuple[float, float]:
    """Scale and degrees of freedom, of `SHAPES`, of the likeliest t around 0."""
    found = []
    for df in SHAPES:
        likeliest = optimize.minimize_scalar(
            lambda log, df=df: -stats.t.logpdf(values, df, scale=np.exp(log)).sum(),
            bracket=np.log(np.quantile(np.abs(values), [0.5, 0.7])),
        )
        found.append((-likeliest.fun, float(np.exp(likeliest.x)), df))
    return max(found)[1:]


if __name__ == "__main__":
    sweeps = [load(Path(name)) for name in sys.argv[1:3]]
    facts = {
        "gpu": str(sweeps[0]["gpu"].iloc[0]),
        "rows": [rows_hash(sweep) for sweep in sweeps],
        "command": "python -m tests.analysis.fit_noise ONCE AGAIN > analysis/noise.json",
        "ranges": measured_noise(*sweeps),
    }
    print(json.dumps(facts, indent=1))
