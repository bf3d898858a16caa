"""How far two sweeps of the same code lie apart: measured, by time range, and kept in a file.

    tar xzf outputs/reference/h200/again.tar.gz -C /tmp
    python -m analysis.comparison.noise outputs/reference/h200 /tmp/again > analysis/comparison/noise.json

Two processes that run the same kernel differ by more than the samples of either can tell: other
addresses, other neighbours in L2, another temperature. For each range of times the logarithms of
the ratios of equal points are fitted by a Student t around 0, whose few degrees of freedom are the
heavy tails that these differences have.
"""  # noqa: E501

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from analysis.comparison.pairs import Pair, Visits, pairs_of
from analysis.estimate import Floats
from analysis.load import load
from analysis.style import rows_hash
from experiments.data.files import RowsError

RECORDED = Path(__file__).with_name("noise.json")
EDGES_US = (10.0, 25.0, 50.0, 100.0, 200.0, 500.0, math.inf)
# Degrees of freedom tried. Fewer than three would put one point in 1500 off by 40 %, which nothing
# recorded comes near: the largest differences of 400 points are what three degrees predict.
SHAPES = (3.0, 4.0, 5.0, 7.0, 10.0, 15.0, 30.0)
LEAST = 20  # points that a range needs


@dataclass(frozen=True)
class Range:
    """The noise of times up to ``below_us`` (None: of all longer ones).

    Attributes:
        below_us: The range's upper end, µs.
        points: How many points it was measured at.
        scale: Of the fitted t, of the logarithm of a ratio of two sweeps of one round each.
        df: Its degrees of freedom.
        floor: What 5 % of the points differ by, or more, logarithm.
    """

    below_us: float | None
    points: int
    scale: float
    df: float
    floor: float


def recorded(path: Path = RECORDED) -> tuple[str, list[Range]]:
    """The GPU that noise was measured on, and its ranges by rising time."""
    told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return told["gpu"], [Range(**one) for one in told["ranges"]]


def at(ranges: Sequence[Range], times_us: Floats) -> tuple[Floats, Floats, Floats]:
    """Scale, degrees of freedom and floor at each time."""
    ends = [r.below_us for r in ranges if r.below_us is not None]
    place = np.searchsorted(ends, times_us, side="right")
    table = np.array([[r.scale, r.df, r.floor] for r in ranges])
    return table[place, 0], table[place, 1], table[place, 2]


def measure(pairs: Sequence[Pair]) -> list[Range]:
    """The noise of two sweeps of equal code.

    Raises:
        RowsError: some range has too few points.
    """
    timed = [(p.base, p.head) for p in pairs if p.timed and p.base and p.head]
    sides = np.array([[log_median(v) for v in pair] for pair in timed]).reshape(-1, 2)
    ratios, times = sides[:, 1] - sides[:, 0], np.exp(sides.mean(axis=1))
    ranges, least = [], 0.0
    for end in EDGES_US:
        mine = ratios[(times >= least) & (times < end)]
        if mine.size < LEAST:
            raise RowsError(f"{mine.size} points from {least:g} to {end:g} µs; {LEAST} are needed")
        scale, df = fit(mine)
        floor = float(np.quantile(np.abs(mine), 0.95))
        below = None if math.isinf(end) else end
        ranges.append(Range(below, mine.size, _round(scale), df, _round(floor)))
        least = end
    return ranges


def log_median(visits: Visits) -> float:
    """The logarithm of the geometric mean of the visits' medians."""
    return float(np.mean(np.log([row["time_us"] for row in visits.timed])))


def fit(values: Floats) -> tuple[float, float]:
    """Scale and degrees of freedom of the likeliest t around 0."""
    return max(((_scale(values, df), df) for df in SHAPES), key=lambda f: _likelihood(values, *f))


def _scale(values: Floats, df: float) -> float:
    """By expectation maximisation: a t is a normal whose variance is itself drawn."""
    square = float(np.median(values**2)) + 1e-12
    for _ in range(200):
        weights = (df + 1) / (df + values**2 / square)
        square = float(np.mean(weights * values**2))
    return math.sqrt(square)


def _likelihood(values: Floats, scale: float, df: float) -> float:
    constant = math.lgamma((df + 1) / 2) - math.lgamma(df / 2) - math.log(df * math.pi) / 2
    density = constant - math.log(scale) - (df + 1) / 2 * np.log1p((values / scale) ** 2 / df)
    return float(density.sum())


def _round(value: float) -> float:
    return float(f"{value:.4g}")


def told(base: Path, head: Path) -> str:
    """The file of two sweeps of equal code on one GPU, as JSON."""
    frames = load(base), load(head)
    gpus = sorted({gpu for frame in frames for gpu in frame["gpu"]})
    if len(gpus) != 1:
        raise RowsError(f"noise is measured on one GPU, not on {', '.join(gpus)}")
    ranges = measure(pairs_of(*frames))
    command = "python -m analysis.comparison.noise outputs/reference/h200 AGAIN"
    facts = {"gpu": gpus[0], "rows": [rows_hash(frame) for frame in frames], "command": command}
    return json.dumps(facts | {"ranges": [asdict(r) for r in ranges]}, indent=1) + "\n"


if __name__ == "__main__":
    print(told(*map(Path, sys.argv[1:3])), end="")
