"""Claims, the sources' and our own, each with its checks, judged by rows and records."""

from __future__ import annotations

from pathlib import Path

from analysis.claims.judgement import Judgement, judged
from analysis.claims.points import Finding
from analysis.claims.schema import CLAIMS, OWN_CLAIMS, read_claims
from analysis.claims.tables import claims_tables
from analysis.load import Inputs

__all__ = [
    "CLAIMS",
    "OWN_CLAIMS",
    "Finding",
    "Judgement",
    "claims_tables",
    "judge",
    "read_claims",
]


def judge(inputs: Inputs, claims: Path = CLAIMS) -> list[Judgement]:
    """Every claim of a file on every GPU of the rows.

    Raises:
        RowsError: the claims file has a mistake; one line names the claim and the field.
    """
    return judged(read_claims(claims), inputs.frame, inputs.records)
