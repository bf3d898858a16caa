"""C-fig1: bandwidth over few rows, as in decoding: N = 32000, float16."""

from __future__ import annotations

from matplotlib.axes import Axes

from analysis.figure import Figure
from analysis.figures.bandwidth import LABEL
from analysis.lines import lines
from analysis.margin import write_names
from analysis.roofs import copy_roof, datasheet_peak, shade_l2
from analysis.selection import Query, Selection
from analysis.style import value_axis

BATCHES = (1, 4, 16, 64)
# C draws its kernel and torch; what stays beside them are the other ways to take a wide row.
BESIDE = ("naive", "naive_script", "compiled", "three_pass", "fused")


def draw(ax: Axes, view: Selection) -> None:
    """GB/s on a logarithm: it grows with the rows, and from 0 one row would vanish."""
    ax.set_yscale("log")
    names = lines(ax, view, y="effective_gbps") + copy_roof(ax, view, y="effective_gbps")
    names += datasheet_peak(ax, view)
    shade_l2(ax, view, height=0.87)
    value_axis(ax, LABEL)
    write_names(ax, names)


C_FIG1 = Figure(
    "c_fig1",
    "Softmax bandwidth at small batch",
    Query(32000, "float16", over="rows", sizes=BATCHES, without=BESIDE),
    draw,
    note="C gives no numbers here",
    caption="C's small-batch figure: bandwidth over 1 to 64 rows of a 32000-word vocabulary, "
    "float16; C prints no numbers for it.",
)
