"""``figures``: every figure that the rows and records allow."""

from __future__ import annotations

import argparse

from analysis import material
from analysis.commands.telling import tell
from analysis.figure import draw_files
from analysis.figures import FIGURES
from analysis.traffic import EVIDENCE_FIGURES
from experiments.rows import RowsError


def run(options: argparse.Namespace) -> int:
    """Draws every figure the rows and records allow and prints the paths of what it made."""
    found = material.read(options, "figures")
    made, missed = [], []
    for figure in FIGURES:
        files = draw_files(figure, found.frame, found.out)
        made += files
        missed += [] if files else [figure.needs]
    for drawn in EVIDENCE_FIGURES:
        plates = drawn.plates(found.evidence, found.frame)
        made += [path for plate in plates for path in plate.files(found.out)]
        missed += [] if plates else [drawn.needs]
    if not made:
        raise RowsError(f"{found.rows}: no figure can be drawn: {'; '.join(missed)}")
    tell(made, missed)
    return 0
