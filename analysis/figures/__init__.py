"""The sources' figures, one module each. A new one is a module and a line here."""

from analysis.figures.a_fig2 import A_FIG2
from analysis.figures.beside import D_FIG1_GPUS
from analysis.figures.c_fig1 import C_FIG1
from analysis.figures.c_fig2 import C_FIG2
from analysis.figures.c_fig3 import C_FIG3
from analysis.figures.card_to_card import CARD_TO_CARD
from analysis.figures.d_fig1 import D_FIG1
from analysis.figures.dtypes import DTYPES_BANDWIDTH, DTYPES_TIME
from analysis.figures.e_fig1 import E_FIG1
from analysis.figures.limits import LIMITS, LIMITS_RATIO
from analysis.figures.speedup_naive import SPEEDUP_NAIVE
from analysis.figures.speedup_torch import SPEEDUP_TORCH

FIGURES = (
    A_FIG2,
    C_FIG1,
    C_FIG2,
    C_FIG3,
    D_FIG1,
    E_FIG1,
    SPEEDUP_NAIVE,
    SPEEDUP_TORCH,
    DTYPES_TIME,
    DTYPES_BANDWIDTH,
    LIMITS,
    LIMITS_RATIO,
    CARD_TO_CARD,
    D_FIG1_GPUS,
)
