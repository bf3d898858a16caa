"""The figures that are lines over N or M: an entry each, all drawn by `analysis.figures.lines`."""

from analysis.figures.lines import TIME_US, LineFigure
from analysis.figures.style import STYLES
from analysis.published import name_of, series
from analysis.selection import Query

WIDTHS = series("a_fig2").sizes  # the widths of article A
TUTORIAL = range(256, 12673)  # N of Triton's tutorial 02; its axis is linear, ours logarithmic
VOCABULARY = (512, 1024, 2048, 4096, 8192, 16384, 32000, 65536, 131072)
OF_B_AND_C = ("three_pass", "hybrid", "hybrid_whole", "hybrid_capped")
# C draws its own kernel and torch. The kernels below are left out; others for wide rows stay.
NOT_WIDE = ("naive", "naive_script", "compiled", "three_pass", "fused")
NOT_OF_E = tuple(STYLES.keys() - {"torch", "fused_row", "copy", "copy_triton"})
A, C, D, E = map(name_of, "ACDE")

A_FIG2 = LineFigure(
    "a_fig2",
    "Softmax time by row width",
    Query(4096, "float32", sizes=WIDTHS, without=OF_B_AND_C),
    TIME_US,
    note=f"open, dashed: as {A} printed them, card unknown",
    caption=f"Figure 2 of {A}: time against row width at M = 4096, float32, beside the times that "
    "it prints; the shaded times are shorter than this card's memory takes to move 2MN.",
    source="A",
)
C_FIG1 = LineFigure(
    "c_fig1",
    "Softmax bandwidth at small batch",
    Query(32000, "float16", over="rows", sizes=(1, 4, 16, 64), without=NOT_WIDE),
    log=True,  # bandwidth grows with M: on an axis from 0 the point of one row would vanish
    note=f"{C} gives no numbers here",
    caption=f"The small-batch figure of {C}: bandwidth over 1 to 64 rows of a 32000-word "
    "vocabulary, float16; it prints no numbers for it.",
    source="C",
)
C_FIG2 = LineFigure(
    "c_fig2",
    "Softmax bandwidth as rows scale",
    Query(32000, "float16", over="rows", sizes=(512, 2048, 8192, 32768), without=NOT_WIDE),
    note=f"open: as {C} printed it, card unknown",
    caption=f"The batch figure of {C}: bandwidth against rows at N = 32000, float16, beside the "
    "two points that it prints for 8192 rows.",
    source="C",
)
C_FIG3 = LineFigure(
    "c_fig3",
    "Softmax bandwidth by vocabulary",
    Query(8192, "float16", sizes=VOCABULARY, without=NOT_WIDE),
    levels=("C",),
    note=f"open, band: as {C} printed them, card unknown",
    caption=f"The vocabulary figure of {C}: bandwidth against row width at M = 8192, float16, "
    "beside the two points that it prints and the 870–900 GB/s at which it sees Triton flatten.",
    source="C",
)
D_FIG1 = LineFigure(
    "d_fig1",
    "Softmax bandwidth by row width",
    Query(4096, "float32", sizes=TUTORIAL, without=("hybrid_whole", "hybrid_capped")),
    levels=("A", "D"),
    note=f"dotted: as {A} and {D} printed them, cards unknown",
    caption=f"The figure of {D}, which is Triton's tutorial 02: bandwidth against row width at "
    f"M = 4096, float32, beside the peaks that {A} states and the 1400+ GB/s that {D} sees "
    "sustained.",
    source="D",
)
E_FIG1 = LineFigure(
    "e_fig1",
    "One program per row against torch",
    Query(4096, "float32", sizes=TUTORIAL, without=NOT_OF_E),
    note=f"{E} gives no numbers here",
    caption=f"The figure of {E}: bandwidth of one program per row against torch; its own curve, of "
    "an RTX 3090 Ti, is not given in numbers.",
    source="E",
)
LINE_FIGURES = (A_FIG2, C_FIG1, C_FIG2, C_FIG3, D_FIG1, E_FIG1)
