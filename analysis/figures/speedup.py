"""Speedup over a variant against row width, as rows, models and sources have it."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from analysis import levels
from analysis.estimate import speedups
from analysis.lines import lines, published
from analysis.margin import Name
from analysis.palette import INK, MUTED, Look
from analysis.published import series
from analysis.selection import Selection
from analysis.style import ratio_axis

TIMES = series("a_fig2")
SAME = 0.02  # a ratio this near 1 is drawn by the line of the variant compared with
PLACES, HALF = 49, 4  # where words may stand along a level, and half their length in places
QUIET = "grey dots: the ratio of the models' bytes"
MIDDLE = 1.035  # how far above a level the middle of words on it is
PUBLISHED = {
    base: {
        kernel: tuple(b / t for b, t in zip(TIMES.kernels[base], times, strict=True))
        for kernel, times in TIMES.kernels.items()
        if kernel != base
    }
    for base in ("naive", "torch")
}


def speedup(ax: Axes, view: Selection, base: str, claims: tuple[str, ...]) -> list[Name]:
    """Draws ratios over ``base`` on a log2 axis and returns what the margin is to name."""
    compared = speedups(view, base)
    ax.set_yscale("log", base=2)
    names = lines(ax, compared, y="speedup")
    ax.axhline(1, color=INK, lw=1.2, zorder=2.4, label=base)
    names.append(Name(f"{base} = 1", view.sizes[-1], 1, Look(INK, "")))
    if view.exact:
        kernels = {k: v for k, v in PUBLISHED[base].items() if not k.startswith("naive")}
        names += published(ax, TIMES.sizes, kernels, "A")
    names += levels.ratios(ax, view, "A", "D", "E", over=claims)
    predicted(ax, compared)
    ratio_axis(ax, f"speedup: time of {base} / time")
    return names


def predicted(ax: Axes, compared: Selection) -> None:
    """Draws the ratios of the models' bytes, one quiet line for all variants that share a model."""
    simple = compared.points[~compared.points["model_formula"].str.contains(" if ", na=True)]
    for formula, alike in simple.groupby("model_formula"):
        by_size = alike.groupby(compared.query.over)["traffic_ratio"].first().dropna()
        if by_size.empty or abs(by_size.iloc[-1] - 1) < SAME:
            continue
        ax.plot(by_size.index, by_size, color=MUTED, lw=0.8, ls=(0, (1, 2)), zorder=1)
        ax.text(_clear(ax, by_size.iloc[-1]), by_size.iloc[-1], f"{formula} by traffic",
                fontsize=6, color=MUTED, va="bottom", ha="center", zorder=1.1)  # fmt: skip


def _clear(ax: Axes, level: float) -> float:
    """Where along ``level`` words above it keep farthest from the nearest line over a size."""
    across = np.geomspace(*ax.get_xlim(), PLACES)
    room = np.full(PLACES, np.inf)
    for line in ax.get_lines():
        x, y = (np.asarray(side, dtype=float) for side in line.get_data())
        real = np.isfinite(y) & (x > 0)
        if real.sum() > 1 and np.ptp(y[real]) > SAME:  # a level is as near everywhere
            height = np.interp(np.log(across), np.log(x[real]), np.log(y[real]))
            room = np.minimum(room, np.abs(height - np.log(level * MIDDLE)))
    worst = [room[i - HALF : i + HALF + 1].min() for i in range(HALF, PLACES - HALF)]
    return float(across[HALF + int(np.argmax(worst))])
