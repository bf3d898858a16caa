"""The figures that are lines over N or M: an entry each, all drawn by `analysis.figures.draw`."""

from __future__ import annotations

from analysis.figures.draw import LineFigure, Panel
from analysis.figures.style import STYLES
from analysis.published import series
from analysis.selection import Query

TIME = "time, µs (lower is better)"
BANDWIDTH = "effective bandwidth, GB/s = 2MN bytes / time"
WIDTHS = series("a_fig2").sizes  # A's
TUTORIAL = range(256, 12673)  # N of Triton's tutorial 02; its axis is linear, ours shows all powers
VOCABULARY = (512, 1024, 2048, 4096, 8192, 16384, 32000, 65536, 131072)
# C draws its kernel and torch; what stays beside them are the other ways to take a wide row.
NOT_WIDE = ("naive", "naive_script", "compiled", "three_pass", "fused")
OF_E = ("torch", "fused_row", "copy", "copy_triton")
QUIET = "grey dots: the ratio of the models' bytes"

A_FIG2 = LineFigure(
    "a_fig2",
    "Softmax time by row width",
    Query(
        4096, "float32", sizes=WIDTHS,
        without=("three_pass", "hybrid", "hybrid_whole", "hybrid_capped"),  # B's and C's
    ),
    (Panel("time_us", TIME, "log", series="a_fig2", l2=0.945),),
    note="open, dashed: as A printed them, card unknown",
    caption="A's figure 2: time against row width at M = 4096, float32, beside the times that A "
    "prints; the shaded times are shorter than this card's memory takes to move 2MN.",
)  # fmt: skip
C_FIG1 = LineFigure(
    "c_fig1",
    "Softmax bandwidth at small batch",
    Query(32000, "float16", over="rows", sizes=(1, 4, 16, 64), without=NOT_WIDE),
    (Panel("effective_gbps", BANDWIDTH, "log"),),  # it grows with M: from 0 one row would vanish
    note="C gives no numbers here",
    caption="C's small-batch figure: bandwidth over 1 to 64 rows of a 32000-word vocabulary, "
    "float16; C prints no numbers for it.",
)
C_FIG2 = LineFigure(
    "c_fig2",
    "Softmax bandwidth as rows scale",
    Query(32000, "float16", over="rows", sizes=(512, 2048, 8192, 32768), without=NOT_WIDE),
    (Panel("effective_gbps", BANDWIDTH, series="c_fig2"),),
    note="open: as C printed it, card unknown",
    caption="C's batch figure: bandwidth against rows at N = 32000, float16, beside the two points "
    "that C prints for 8192 rows.",
)
C_FIG3 = LineFigure(
    "c_fig3",
    "Softmax bandwidth by vocabulary",
    Query(8192, "float16", sizes=VOCABULARY, without=NOT_WIDE),
    (Panel("effective_gbps", BANDWIDTH, series="c_fig3", levels=("C",)),),
    note="open, band: as C printed them, card unknown",
    caption="C's vocabulary figure: bandwidth against row width at M = 8192, float16, beside the "
    "two points that C prints and the 870–900 GB/s at which it sees Triton flatten.",
)
D_FIG1 = LineFigure(
    "d_fig1",
    "Softmax bandwidth by row width",
    Query(4096, "float32", sizes=TUTORIAL, without=("hybrid_whole", "hybrid_capped")),
    (Panel("effective_gbps", BANDWIDTH, levels=("A", "D")),),
    note="dotted: as A and D printed them, cards unknown",
    caption="D's figure, which is Triton's tutorial 02: bandwidth against row width at M = 4096, "
    "float32, beside the peaks that A states and the 1400+ GB/s that D sees sustained.",
)
E_FIG1 = LineFigure(
    "e_fig1",
    "One program per row against torch",
    Query(4096, "float32", sizes=TUTORIAL, without=tuple(k for k in STYLES if k not in OF_E)),
    (
        Panel("effective_gbps", BANDWIDTH, card="E", place=(0.49, 0.365), gap=0.105),
        Panel("speedup", "time of torch / time", over=("torch",), levels=("E",),
              place=(0.17, 0.22), gap=0.1785),
    ),
    note="dotted: E's claim, and the peak of its RTX 3090 Ti, of which it prints no numbers",
    caption="E's figure: bandwidth of one program per row against torch, and their ratio beside "
    "E's “up to 3×”; E's own curve, of an RTX 3090 Ti, is not given in numbers.",
    size=(5.8, 4.8),
)  # fmt: skip
SPEEDUP_NAIVE = LineFigure(
    "speedup_naive",
    "Speedup over naive softmax",
    Query(4096, "float32", sizes=WIDTHS),
    (
        Panel("speedup", "speedup: time of naive / time", "ratio", over=("naive", "naive_script"),
              series="a_fig2", levels=("A", "D", "E")),
    ),
    note=f"open, band, blue dots: as A and D printed them, cards unknown; {QUIET}",
    caption="Time of naive softmax over each variant's, with intervals, beside the ratios of their "
    "modelled traffic, the ratios of A's published times, and what A and D claim.",
)  # fmt: skip
SPEEDUP_TORCH = LineFigure(
    "speedup_torch",
    "Speedup over torch.softmax",
    Query(4096, "float32", sizes=WIDTHS),
    (
        Panel("speedup", "speedup: time of torch / time", "ratio", over=("torch",),
              series="a_fig2", levels=("A", "D", "E")),
    ),
    note=f"open, blue dots: as A, D and E printed them, on other cards; {QUIET}",
    caption="Time of torch.softmax over each variant's, with intervals, beside the ratios of their "
    "modelled traffic, the ratios of A's published times, and what D and E claim.",
)  # fmt: skip

LINE_FIGURES = (A_FIG2, C_FIG1, C_FIG2, C_FIG3, D_FIG1, E_FIG1, SPEEDUP_NAIVE, SPEEDUP_TORCH)
