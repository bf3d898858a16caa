"""C-fig3: bandwidth over the vocabulary, M = 8192, float16."""

from __future__ import annotations

from matplotlib.axes import Axes

from analysis import levels
from analysis.figure import Figure
from analysis.figures.bandwidth import bandwidth
from analysis.figures.c_fig1 import BESIDE
from analysis.figures.c_fig2 import as_run, points
from analysis.margin import write_names
from analysis.published import series
from analysis.selection import Query, Selection

PUBLISHED = series("c_fig3")
WIDTHS = (512, 1024, 2048, 4096, 8192, 16384, 32000, 65536, 131072)


def draw(ax: Axes, view: Selection) -> None:
    """GB/s from 0, with C's two points of N = 32000 and the band where it says Triton stays."""
    names = bandwidth(ax, view) + points(ax, view, PUBLISHED)
    names += levels.bandwidths(ax, view, "C", names=as_run(view))
    write_names(ax, levels.reachable(ax, names))


C_FIG3 = Figure(
    "c_fig3",
    "Softmax bandwidth by vocabulary",
    Query(8192, "float16", sizes=WIDTHS, without=BESIDE),
    draw,
    note="open, band: as C printed them, card unknown",
    caption="C's vocabulary figure: bandwidth against row width at M = 8192, float16, beside the "
    "two points that C prints and the 870–900 GB/s at which it sees Triton flatten.",
)
