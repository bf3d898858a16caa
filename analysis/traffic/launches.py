"""How many rows each variant has in flight on a full card, from its recorded launches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis.load import key_of
from analysis.residency import rows_in_flight
from analysis.selection import records_of
from experiments.data.cards import card_of

Launch = tuple[str, str, str]


def launches_of(frame: pd.DataFrame, gpu: str) -> dict[Launch, int]:
    """Rows in flight by variant and dtype, of its largest recorded matrix: a full card."""
    card, mine = card_of(gpu), frame[(frame["gpu"] == gpu) & (frame["status"] == "ok")]
    ordered = sorted(records_of(mine), key=lambda row: row["rows"] * row["cols"])
    found = {launch_of(row): rows_in_flight(row, card) for row in ordered}
    return {key: flying for key, flying in found.items() if flying}


def launch_of(record: Mapping[str, Any]) -> Launch:
    """What a row and a record of the same variant and dtype share."""
    name, params, _, _, dtype = key_of(record)
    return name, params, dtype
