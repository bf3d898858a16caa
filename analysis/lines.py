"""The names of before, until their last caller has changed: see `analysis.figures`."""

from analysis.figures.draw import lines
from analysis.figures.style import variant_order

__all__ = ["lines", "variant_order"]
