"""``figures``: every figure that the rows and records allow."""

from __future__ import annotations

import argparse

from analysis import material
from analysis.commands.telling import finish
from analysis.gallery import DRAWN, missing, pictures
from experiments.rows import RowsError


def run(options: argparse.Namespace) -> int:
    """Draws every figure the rows and records allow and prints the paths of what it made."""
    found = material.read(options, "figures")
    made = [path for picture in pictures(found, DRAWN) for path in picture.plate.files(found.out)]
    missed = missing(found, DRAWN)
    if not made:
        raise RowsError(f"{found.rows}: no figure can be drawn: {'; '.join(missed)}")
    finish("figures", found, made, missed)
    return 0
