"""The audit of published numbers: rules that hold what the sources print against arithmetic,
against this project's models, against cited facts and against itself.

No rule knows a finding: the YAML files hold what is printed, the rules hold the arithmetic.
"""

from __future__ import annotations

from pathlib import Path

from analysis.audit import (
    example,
    impossible,
    launch,
    limits,
    peaks,
    printed_twice,
    ratios,
    sameness,
    traffic,
    traffic_limits,
    trends,
    trips,
)
from analysis.audit.facts import facts
from analysis.audit.finding import Finding
from analysis.audit.known import Known
from analysis.audit.tables import audit_summary_table, audit_table, audit_tables
from analysis.load import REFERENCE, load_declarations
from analysis.pricing import known_cards
from analysis.published import sources
from experiments.data.cards import GPU_FILES

__all__ = [
    "Finding",
    "audit",
    "audit_summary_table",
    "audit_table",
    "audit_tables",
    "check",
    "gather",
]

DECLARED = Path(__file__).resolve().parents[2] / "outputs" / REFERENCE
RULES = (
    impossible.implied,
    impossible.stated,
    peaks.above_own_peak,
    peaks.order,
    peaks.against_ratios,
    peaks.floors,
    limits.on_chip,
    limits.offsets,
    traffic_limits.against_models,
    traffic_limits.against_series,
    ratios.against_series,
    ratios.wins,
    ratios.exceptions,
    ratios.triangle,
    traffic.parts,
    traffic.index_writes,
    traffic.against_models,
    traffic.on_chip,
    sameness.same_as,
    trips.trips,
    example.example,
    trends.exclusive,
    trends.gaps,
    printed_twice.settings,
    printed_twice.time_and_bandwidth,
    printed_twice.plateau,
    printed_twice.row_sizes,
    launch.tuned,
    launch.scopes,
    launch.occupancy,
)


def audit(cards: Path = GPU_FILES, declared: Path = DECLARED) -> list[Finding]:
    """Every check of every statement, by source; needs no rows.

    Args:
        cards: The folder of the cards' datasheets.
        declared: The folder whose ``variants.json`` hold the variants' traffic.

    Raises:
        RowsError: a declaration is malformed or missing; it names the file or the variant.
    """
    return check(gather(cards, declared))


def gather(cards: Path = GPU_FILES, declared: Path = DECLARED) -> Known:
    """What the rules work from, of the five sources."""
    return Known(sources(), load_declarations(declared), tuple(known_cards(cards)), facts())


def check(known: Known) -> list[Finding]:
    """Every rule, its findings by source."""
    findings = [finding for rule in RULES for finding in rule(known)]
    return sorted(findings, key=lambda finding: finding.source)  # stable: rules keep their order
