from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import matplotlib
from matplotlib.font_manager import findfont, fontManager

from analysis.figures.style import FAMILY, typeface


def test_a_systems_font_of_the_same_name_is_never_taken(tmp_path: Path) -> None:
    own = Path(matplotlib.get_data_path())
    typeface.cache_clear()
    stranger = tmp_path / "DejaVuSans.ttf"
    stranger.write_bytes((own / "fonts" / "ttf" / "DejaVuSansMono.ttf").read_bytes())
    known = next(font for font in fontManager.ttflist if font.name == FAMILY)
    fontManager.ttflist.insert(0, replace(known, fname=str(stranger)))
    assert typeface() == FAMILY
    for weight in ("normal", "bold"):
        found = findfont(matplotlib.font_manager.FontProperties(family=FAMILY, weight=weight))
        assert Path(found).resolve().is_relative_to(own.resolve())
