"""The names of before, until their last caller has changed: see `analysis.figures`."""

from analysis.figures.page import DPI, SIZE
from analysis.figures.page import Page as Plate

__all__ = ["DPI", "SIZE", "Plate"]
