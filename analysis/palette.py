"""The names of before, until their last caller has changed: see `analysis.figures`."""

from analysis.figures.style import BLUSH, FAINT, INK, MUTED
from analysis.figures.style import STYLES as LOOKS
from analysis.figures.style import LineStyle as Look
from analysis.figures.style import style_of as look_of

__all__ = ["BLUSH", "FAINT", "INK", "LOOKS", "MUTED", "Look", "look_of"]
