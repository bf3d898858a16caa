"""What a source states in words and small tables, as data: a model for each kind of statement.

Every statement carries ``at``, where it stands: a claim, figure or table of the source. The files
``a.yaml`` to ``e.yaml`` hold what the texts say, right or wrong, and nothing that was found.
"""

from __future__ import annotations

from pathlib import Path

import yaml
from pydantic import Field

from analysis.statements.launched import Occupancy, Scope, Setting, Shape, Tuned
from analysis.statements.moved import (
    OnChip,
    RowSize,
    Steps,
    TrafficLimit,
    TrafficStatement,
    Trips,
)
from analysis.statements.statement import LeftOut, Printed
from analysis.statements.timed import Gap, Timing, TrendStatement, Win

FOLDER = Path(__file__).parent


class Statements(Printed):
    """Everything that a source states, by kind.

    ``continues`` is the source it is the sequel of, ``describes`` the code it gives an account of,
    ``offset_bits`` the width of its kernels' indices, ``also`` a kernel here that is the same
    function there, such as naive as a script and as it is.
    """

    continues: str | None = None
    describes: str | None = None
    offset_bits: int | None = None
    also: dict[str, str] = Field(default_factory=dict)
    traffic: tuple[TrafficStatement, ...] = ()
    steps: tuple[Steps, ...] = ()
    trips: tuple[Trips, ...] = ()
    wins: tuple[Win, ...] = ()
    traffic_limits: tuple[TrafficLimit, ...] = ()
    timings: tuple[Timing, ...] = ()
    row_sizes: tuple[RowSize, ...] = ()
    on_chip: tuple[OnChip, ...] = ()
    shapes: tuple[Shape, ...] = ()
    trends: tuple[TrendStatement, ...] = ()
    gaps: tuple[Gap, ...] = ()
    settings: tuple[Setting, ...] = ()
    tuned: tuple[Tuned, ...] = ()
    scopes: tuple[Scope, ...] = ()
    occupancy: tuple[Occupancy, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


def statements_of(letter: str, folder: Path = FOLDER) -> Statements:
    """What a source states.

    Raises:
        pydantic.ValidationError: its file holds something else.
    """
    text = (folder / f"{letter.lower()}.yaml").read_text(encoding="utf-8")
    return Statements.model_validate(yaml.safe_load(text))
