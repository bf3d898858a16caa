"""Time ratios against one variant of the same size, each with an interval."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd

from analysis.selection import Selection


def speedups(view: Selection, base: str) -> Selection:
    """The view's points with ``speedup``, ``speedup_low`` and ``speedup_high`` over ``base``.

    A ratio is the base's median over the variant's. Its interval goes from the base's lower end
    over the variant's upper end to the opposite: it holds wherever both medians' intervals do.
    ``traffic_ratio`` is the same of the models' bytes. The base and the copies are left out.
    """
    own = view.points[(view.points["operation"] != "copy") & (view.points["kernel"] != base)]
    good = view.points[(view.points["kernel"] == base) & (view.points["status"] == "ok")]
    sizes = own[view.query.over]

    def of_base(column: str) -> np.ndarray:
        return np.asarray(sizes.map(_by_size(good, view.query.over, column)), dtype=float)

    return replace(
        view,
        points=own.assign(
            speedup=(of_base("time_us") / own["time_us"]).where(own["status"] == "ok"),
            speedup_low=of_base("time_low_us") / own["time_high_us"],
            speedup_high=of_base("time_high_us") / own["time_low_us"],
            traffic_ratio=of_base("model_bytes") / own["model_bytes"],
        ),
    )


def comparable(base: str) -> Callable[[Selection], bool]:
    """Whether a view holds ``base`` and another variant, both timed at one size."""
    return lambda view: bool(speedups(view, base).points["speedup"].notna().any())


def _by_size(points: pd.DataFrame, over: str, column: str) -> pd.Series:
    """A kernel with several settings counts with the fastest of each size."""
    fastest = points.sort_values("time_us", kind="stable").drop_duplicates(over)
    return fastest.set_index(over)[column].astype(float)
