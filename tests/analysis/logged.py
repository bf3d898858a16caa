"""What a command read and made, for the tests of logging it."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from matplotlib.image import imsave

from analysis.load import load
from analysis.material import Material
from analysis.records import Evidence
from tests.analysis.plausible import row, write

CELLS = [["claim", "value", "low"], ["A-c1", "2.5", ""], ["A-c2", "", ""]]


def read(tmp_path: Path, *sweeps: str) -> Material:
    """Rows of these sweeps, read as a command reads them."""
    names = sweeps or ["paper-f72b50"]
    rows = [row("torch", 1024 * n, sweep=name) for n, name in enumerate(names, start=1)]
    folder = write(tmp_path / "rows", rows)
    return Material(folder, tmp_path / "out", load(folder), Evidence(), {})


def made(found: Material, table: list[list[str]] = CELLS) -> list[Path]:
    """A picture, a table and a page, as commands write them."""
    found.out.mkdir(exist_ok=True)
    picture, cells, page = (found.out / f"made.{end}" for end in ("png", "csv", "html"))
    imsave(picture, np.zeros((4, 4)))
    with cells.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(table)
    page.write_text("<p>a page")
    return [picture, cells, page]
