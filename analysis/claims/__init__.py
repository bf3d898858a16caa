"""Claims, the sources' and our own, each with its checks, judged by rows and records."""

from __future__ import annotations

from analysis.claims.judgement import Judgement, judge
from analysis.claims.points import Finding
from analysis.claims.schema import CLAIMS, OWN_CLAIMS, read_claims
from analysis.claims.tables import claims_tables

__all__ = [
    "CLAIMS",
    "OWN_CLAIMS",
    "Finding",
    "Judgement",
    "claims_tables",
    "judge",
    "read_claims",
]
