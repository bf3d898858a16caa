"""The sources' figures, one module each. A new one is a module and a line here."""

from analysis.figures.a_fig2 import A_FIG2
from analysis.figures.d_fig1 import D_FIG1

FIGURES = (A_FIG2, D_FIG1)
