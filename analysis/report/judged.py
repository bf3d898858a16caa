"""Claims and audit as the page shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from analysis.claims import Judgement, judge
from analysis.claims.audit import AuditFinding, audit
from analysis.claims.tables import lacking
from analysis.claims.verdict import UNTESTABLE
from analysis.format import Table
from analysis.lines import variant_order
from analysis.load import Inputs
from analysis.report.facts import microseconds
from analysis.report.parts import ORDER, tally

GRAVE = ("physically impossible", "self-contradictory")
MOST = 400  # rows that a claim shows
ENDS = ("time_us", "low", "high")
Counts = list[tuple[str, int]]


@dataclass(frozen=True)
class Claim:
    """One judgement with its anchor, its interval as text, its checks and rows as tables.

    ``needs`` are the commands that would give what is missing.
    """

    one: Judgement
    anchor: str
    interval: str
    needs: tuple[str, ...]
    checks: Table | None
    rows: Table | None


@dataclass(frozen=True)
class Claims:
    """All judgements, and the count of each verdict by GPU."""

    judged: tuple[Claim, ...]
    counts: tuple[tuple[str, Counts], ...]


@dataclass(frozen=True)
class Audit:
    """All findings, the gravest first, and the count of each verdict."""

    findings: tuple[AuditFinding, ...]
    counts: Counts

    @property
    def grave(self) -> tuple[AuditFinding, ...]:
        """The impossible and the contradictory."""
        return tuple(f for f in self.findings if f.verdict in GRAVE)

    @property
    def consistent(self) -> tuple[AuditFinding, ...]:
        """What was checked and holds."""
        return tuple(f for f in self.findings if f.verdict == "consistent")


def claims_of(material: Inputs) -> Claims:
    """Judges every claim by the material's rows and records."""
    judgements, taken, found = judge(material), set[str](), []
    for one in judgements:
        anchor = one.id if one.id not in taken else f"{one.id}-{len(taken)}"
        taken.add(anchor)
        needs = lacking(one.findings) if one.verdict == UNTESTABLE else []
        found.append(Claim(one, anchor, _interval(one), tuple(needs), _checks(one), _rows(one)))
    by_gpu = groupby(sorted(judgements, key=lambda j: j.gpu), key=lambda j: j.gpu)
    counts = tuple((gpu, tally([j.verdict for j in mine])) for gpu, mine in by_gpu)
    return Claims(tuple(found), counts)


def audit_of() -> Audit:
    """The audit, which needs no rows."""
    findings = sorted(audit(), key=lambda f: ORDER.index(f.verdict))
    return Audit(tuple(findings), tally([f.verdict for f in findings]))


def _interval(one: Judgement) -> str:
    found = one.estimate
    if found is None or found.low == found.high or "[" in one.measured:
        return ""  # there is none, or the text has it already
    return f"(interval {found.low:.4g} to {found.high:.4g})"


def _checks(one: Judgement) -> Table | None:
    """Every check of a claim that has several."""
    if len(one.findings) < 2:
        return None
    lines = [[f.part, f.expected, f.measured or "nothing", f.verdict, f.why] for f in one.findings]
    return Table("Its parts", ["part", "expected", "measured", "verdict", "why"], lines)


def _rows(one: Judgement) -> Table | None:
    """The rows used, by variant and shape, the first of them where they are many."""
    lines = sorted(map(_line, one.rows), key=lambda each: each[0])
    if not lines:
        return None
    heads = ["variant", "M×N", "dtype", "status", "time µs", "low", "high", "key begins"]
    more = len(lines) - MOST
    notes = [f"And {more:,} more; the hash in the evidence is of all of them."] if more > 0 else []
    shown = [line for _, line in lines[:MOST]]
    return Table(f"Rows used ({len(lines):,})", heads, shown, notes)


def _line(row: Mapping[str, Any]) -> tuple[tuple[Any, ...], list[str]]:
    """A row's place in the table, and its cells."""
    variant = " ".join([row["kernel"], *(f"{k}={v}" for k, v in row["params"].items())])
    times = ["" if row[end] is None else microseconds(row[end]) for end in ENDS]
    cells = [variant, f"{row['M']}×{row['N']}", row["dtype"], row["status"], *times, row["key"]]
    return (variant_order(variant), row["dtype"], row["M"], row["N"], *cells), cells
