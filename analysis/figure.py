"""The names of before, until their last caller has changed: see `analysis.figures`."""

from analysis.figures.style import slug

__all__ = ["slug"]
