"""The roofline's pictures for a page of all pictures: of every card and protocol that was timed."""

from __future__ import annotations

import pandas as pd

from analysis.check import checked
from analysis.figure import slug
from analysis.load import Records
from analysis.plate import Plate
from analysis.roofline.intensity import intensity
from analysis.roofline.predicted import predicted
from analysis.roofline.share import SHARE
from analysis.traffic.figure import EvidenceFigure

Group = tuple[pd.DataFrame, str, str]
NEEDS = "needs timed rows and a copy variant, the roof, at the same shapes"


def _by_protocol(points: pd.DataFrame) -> list[Group]:
    """Checked points of one card and protocol each, with the card and a suffix for file names."""
    groups = points.groupby(["gpu", "timer", "cache"], sort=True)
    return [
        (mine, str(gpu), f"{slug(str(gpu))}-{timer}-{cache}")
        for (gpu, timer, cache), mine in groups
    ]


def _intensity(evidence: Records, frame: pd.DataFrame) -> list[Plate]:
    groups = _by_protocol(checked(frame, evidence))
    plates = [intensity(mine, gpu, evidence, suffix) for mine, gpu, suffix in groups]
    return [plate for plate in plates if plate is not None]


def _predicted(evidence: Records, frame: pd.DataFrame) -> list[Plate]:
    plates = [predicted(*group) for group in _by_protocol(checked(frame, evidence))]
    return [plate for plate in plates if plate is not None]


INTENSITY = EvidenceFigure(
    "roofline_intensity",
    f"roofline_intensity {NEEDS}",
    _intensity,
    "The classic roofline: arithmetic done a second against arithmetic a byte, by the bytes of the "
    "models and, open, by those that DRAM's counters saw.",
)
PREDICTED = EvidenceFigure(
    "roofline_predicted",
    f"roofline_predicted {NEEDS}",
    _predicted,
    "Every timed point's measured time against the time that its model's bytes take at the copy "
    "roof, and what is left of each variant.",
)
ROOFLINE_FIGURES = (SHARE, INTENSITY, PREDICTED)
