"""C-fig2: bandwidth as rows scale past C's worked point, N = 32000, float16."""

from __future__ import annotations

from matplotlib.axes import Axes

from analysis import levels
from analysis.figure import Figure
from analysis.figures.bandwidth import bandwidth
from analysis.figures.c_fig1 import BESIDE
from analysis.lines import published
from analysis.margin import Name, write_names
from analysis.published import Series, series
from analysis.selection import Query, Selection

PUBLISHED = series("c_fig2")
BATCHES = (512, 2048, 8192, 32768)
NOTE = "open: as C printed it, card unknown"


def draw(ax: Axes, view: Selection) -> None:
    """GB/s from 0, with C's two points of 8192 rows."""
    write_names(ax, levels.reachable(ax, bandwidth(ax, view) + points(ax, view, PUBLISHED)))


def as_run(view: Selection) -> dict[str, str]:
    """Where rows hold hybrid as C ran it, ``hybrid_whole``, that is what C's numbers are of."""
    return {"hybrid": "hybrid_whole"} if "hybrid_whole" in set(view.points["kernel"]) else {}


def points(ax: Axes, view: Selection, printed: Series) -> list[Name]:
    """Draws C's own points, where the view holds their shape and dtype."""
    names = as_run(view)
    kernels = {names.get(kernel, kernel): values for kernel, values in printed.kernels.items()}
    return published(ax, printed.sizes, kernels, "C") if view.exact else []


C_FIG2 = Figure(
    "c_fig2",
    "Softmax bandwidth as rows scale",
    Query(32000, "float16", over="rows", sizes=BATCHES, without=BESIDE),
    draw,
    note=NOTE,
    caption="C's batch figure: bandwidth against rows at N = 32000, float16, beside the two points "
    "that C prints for 8192 rows.",
)
