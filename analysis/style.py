"""The names of before, until their last caller has changed: see `analysis.figures`."""

from analysis.figures.page import provenance, rows_hash
from analysis.figures.style import CACHES, TIMERS, ratio_axis, size_label, theme, value_axis

__all__ = [
    "CACHES",
    "TIMERS",
    "provenance",
    "ratio_axis",
    "rows_hash",
    "size_label",
    "theme",
    "value_axis",
]
