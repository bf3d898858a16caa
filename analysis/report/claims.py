"""Claims and audit as the page shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from analysis.claims import Judgement
from analysis.claims.audit import audit
from analysis.claims.tables import lacking, shown
from analysis.claims.verdict import UNTESTABLE
from analysis.figures.style import variant_order
from analysis.format import Table
from analysis.report.contents import ORDER, tally
from analysis.report.facts import microseconds
from experiments.data.statistics import unconverged

MOST = 100  # rows that a claim shows
ENDS = ("time_us", "low", "high")


def claims_of(judgements: Sequence[Judgement]) -> dict[str, Any]:
    """Judgements for the page, and the count of each verdict by GPU.

    Returns:
        ``judged``: each judgement (``one``) with its anchor, its interval as text, the commands
        that would give what is missing, its checks and rows as tables; ``counts``.
    """
    taken, judged = set[str](), []
    for one in judgements:
        anchor = one.id if one.id not in taken else f"{one.id}-{len(taken)}"
        taken.add(anchor)
        needs = lacking(one.findings) if one.verdict == UNTESTABLE else []
        judged.append({"one": one, "anchor": anchor, "interval": _interval(one), "needs": needs,
                       "checks": _checks(one), "rows": _rows(one)})  # fmt: skip
    gpus = sorted({one.gpu for one in judgements})
    counts = [(gpu, tally([j.verdict for j in judgements if j.gpu == gpu])) for gpu in gpus]
    return {"judged": judged, "counts": counts}


def audit_of() -> dict[str, Any]:
    """The findings of the audit, which needs no rows, by verdict, the gravest first; and counts."""
    findings = sorted(audit(), key=lambda finding: ORDER.index(finding.verdict))
    return {
        "groups": [
            (verdict, list(alike))
            for verdict, alike in groupby(findings, key=lambda one: one.verdict)
        ],
        "counts": tally([finding.verdict for finding in findings]),
    }


def shown_of(one: Judgement) -> str:
    """What was found, after the quantity that it is of; nothing where nothing was."""
    return shown(one) if one.measured else ""


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
    lines = sorted(map(_line, one.rows))
    if not lines:
        return None
    heads = ["variant", "M×N", "dtype", "status", "time µs", "low", "high", "key begins"]
    more = len(lines) - MOST
    notes = [f"And {more:,} more; the hash under Evidence covers all of them."] if more > 0 else []
    shown = [cells for *_, cells in lines[:MOST]]
    return Table(f"Rows used ({len(lines):,})", heads, shown, notes)


def _line(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """A row's place in the table, and its cells."""
    variant = " ".join([row["kernel"], *(f"{k}={v}" for k, v in row["params"].items())])
    times = ["" if row[end] is None else microseconds(row[end]) for end in ENDS]
    status = ", ".join(filter(None, [row["status"], unconverged(row["stop_reason"])]))
    cells = [variant, f"{row['M']}×{row['N']}", row["dtype"], status, *times, row["key"]]
    return variant_order(variant), row["dtype"], row["M"], row["N"], cells
