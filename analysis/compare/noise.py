"""How far two sweeps of the same code lie apart: measured, by time range, and kept in a file.

    tar xzf outputs/reference/h200/again.tar.gz -C /tmp
    python -m analysis.compare.noise /tmp/once /tmp/again > analysis/compare/noise.json

Two processes that run the same kernel differ by more than the samples of either can show: other
addresses, other neighbours in L2, another temperature. For each range of times the logarithms of
the ratios of equal points are fitted by a Student t around 0, whose few degrees of freedom are the
heavy tails that these differences have.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats
from scipy.optimize import minimize_scalar

from analysis.compare.points import NoiseRange, matched
from analysis.estimate import Floats
from analysis.load import load, rows_hash
from experiments.data.files import RowsError

EDGES_US = (10.0, 25.0, 50.0, 100.0, 200.0, 500.0, math.inf)
# Degrees of freedom tried. Fewer than three would put one point in 1500 off by 40 %, which nothing
# recorded comes near: the largest differences of 400 points are what three degrees predict.
SHAPES = (3.0, 4.0, 5.0, 7.0, 10.0, 15.0, 30.0)
LEAST = 20  # points that a range needs


def measure(points: pd.DataFrame) -> list[NoiseRange]:
    """The noise of two sweeps of equal code, from `analysis.compare.points.matched`.

    Raises:
        RowsError: some range has too few points.
    """
    timed = points[points["base_rounds"].gt(0) & points["head_rounds"].gt(0)]
    sides = timed[["base_log", "head_log"]].to_numpy(float)
    ratios, times = sides[:, 1] - sides[:, 0], np.exp(sides.mean(axis=1))
    ranges, least = [], 0.0
    for end in EDGES_US:
        mine = ratios[(times >= least) & (times < end)]
        if mine.size < LEAST:
            raise RowsError(f"{mine.size} points from {least:g} to {end:g} µs; {LEAST} are needed")
        scale, df = fit(mine)
        floor = float(np.quantile(np.abs(mine), 0.95))
        below = None if math.isinf(end) else end
        ranges.append(
            NoiseRange(below, mine.size, float(f"{scale:.4g}"), df, float(f"{floor:.4g}"))
        )
        least = end
    return ranges


def fit(values: Floats) -> tuple[float, float]:
    """Scale and degrees of freedom of the likeliest t around 0."""
    found = []
    for df in SHAPES:
        unlikely = minimize_scalar(
            lambda log, df=df: -stats.t.logpdf(values, df, scale=np.exp(log)).sum(),
            bracket=np.log(np.quantile(np.abs(values), [0.5, 0.7])),
        )
        found.append((-unlikely.fun, float(np.exp(unlikely.x)), df))
    return max(found)[1:]


def main(base: Path, head: Path) -> str:
    """The file of two sweeps of equal code on one GPU, as JSON."""
    frames = load(base), load(head)
    gpus = sorted({gpu for frame in frames for gpu in frame["gpu"]})
    if len(gpus) != 1:
        raise RowsError(f"noise is measured on one GPU, not on {', '.join(gpus)}")
    command = "python -m analysis.compare.noise outputs/reference/h200 AGAIN"
    facts = {"gpu": gpus[0], "rows": [rows_hash(frame) for frame in frames], "command": command}
    ranges = [one._asdict() for one in measure(matched(*frames))]
    return json.dumps(facts | {"ranges": ranges}, indent=1) + "\n"


if __name__ == "__main__":
    print(main(*map(Path, sys.argv[1:3])), end="")
