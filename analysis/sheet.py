"""The names of before, until their last caller has changed: see `analysis.figures`."""

from analysis.figures.page import Canvas as Sheet
from analysis.figures.page import Mark, mark

__all__ = ["Mark", "Sheet", "mark"]
