"""The names of before, until their last caller has changed: see `analysis.figures`."""

from analysis.figures.draw import Label as Name
from analysis.figures.draw import write_labels as write_names

__all__ = ["Name", "write_names"]
