"""One typeface for every picture: matplotlib's own, whatever fonts a machine has."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import matplotlib
from matplotlib.font_manager import fontManager

FAMILY = "DejaVu Sans"


@cache
def typeface() -> str:
    """The family's name, once only matplotlib's copy of it is left to be found.

    A system's DejaVu is another version with other outlines: which of the two matplotlib takes
    depends on what it listed first, and a picture's bytes would depend on the machine.
    """
    fontManager.ttflist = [font for font in fontManager.ttflist if font.name != FAMILY]
    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    for name in ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf"):
        fontManager.addfont(folder / name)
    return FAMILY
