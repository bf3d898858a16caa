"""Every picture that rows and records allow, in the order of the sources."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator

from analysis.__main__ import finish, only
from analysis.figures.limits import HEADLINE, LIMITS
from analysis.figures.lines import LineFigure
from analysis.figures.specs import LINE_FIGURES
from analysis.figures.style import Figure, Page
from analysis.figures.traffic import TRAFFIC_FIGURES
from analysis.load import Inputs, read_inputs
from experiments.data.files import RowsError

Picture = tuple[Figure | LineFigure, Page]
# The sources' figures by source and number, then this project's own.
FIGURES: tuple[Figure | LineFigure, ...] = tuple(
    sorted(
        (*LINE_FIGURES, HEADLINE, LIMITS, *TRAFFIC_FIGURES),
        key=lambda figure: (not figure.source, figure.id if figure.source else ""),
    )
)


def pictures(inputs: Inputs, figures: Iterable[Figure | LineFigure] = FIGURES) -> Iterator[Picture]:
    """The pictures that the inputs allow."""
    return ((one, page) for one in figures for page in one.pages(inputs))


def run(options: argparse.Namespace) -> int:
    """Draws every figure that the rows and records allow, and prints the paths."""
    asked = only(options.only, [one.id for one in FIGURES])
    inputs = read_inputs(options.rows, options.out, "figures", options.ours)
    figures = [one for one in FIGURES if not asked or one.id in asked]
    drawn = list(pictures(inputs, figures))
    missing = [one.needs for one in figures if one.id not in {made.id for made, _ in drawn}]
    if not drawn:
        raise RowsError(f"{inputs.rows}: no figure can be drawn: {'; '.join(missing)}")
    finish([path for _, page in drawn for path in page.files(inputs.out)], missing)
    return 0
