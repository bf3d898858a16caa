"""What a command reads, and where it writes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from analysis.declarations import Declaration, load_declarations
from analysis.load import REFERENCE, load, newest_rows
from analysis.records import Evidence, load_evidence
from analysis.tracking import fetch, is_address

OUTPUTS = Path("outputs")


@dataclass(frozen=True)
class Material:
    """Rows, and all that lies beside them.

    Attributes:
        rows: The folder or file they were read from.
        out: The folder to write into.
        frame: The rows as `analysis.load.load` gives them.
        evidence: What was counted, traced and measured.
        declarations: What variants declare, by label.
        tracker: Where what is made is logged; see `analysis.tracking.log`.
    """

    rows: Path
    out: Path
    frame: pd.DataFrame
    evidence: Evidence
    declarations: Mapping[str, Declaration]
    tracker: str = "none"


def read(options: argparse.Namespace, kind: str) -> Material:
    """The material of a command that writes into ``kind/`` unless ``--out`` says otherwise.

    Raises:
        RowsError: there are no rows, W&B does not give any, or something read is malformed; it
            names file and line.
    """
    rows = _fetched(str(options.rows)) if is_address(options.rows) else options.rows
    rows = rows or newest_rows(OUTPUTS)
    folder = rows.parent if rows.is_file() else rows
    # what is drawn from the reference as a whole goes to the outputs, not into it
    beside = OUTPUTS if folder == OUTPUTS / REFERENCE else folder
    out = options.out or beside / kind
    frame, evidence, declarations = load(rows), load_evidence(rows), load_declarations(rows)
    return Material(rows, out, frame, evidence, declarations, getattr(options, "tracker", "none"))


def _fetched(address: str) -> Path:
    """The folder that a W&B project's rows were fetched into."""
    rows, warnings = fetch(address, OUTPUTS)
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)
    return rows
