"""Claims, the sources' and our own, each with its checks, judged by rows and records."""

from __future__ import annotations

from analysis.claims.judgement import Judgement, judge, judge_own
from analysis.claims.points import Finding
from analysis.claims.schema import CLAIMS, OWN_CLAIMS, read_claims
from analysis.claims.tables import claims_tables, sources_table

__all__ = [
    "CLAIMS",
    "OWN_CLAIMS",
    "Finding",
    "Judgement",
    "claims_tables",
    "judge",
    "judge_own",
    "read_claims",
    "sources_table",
]
