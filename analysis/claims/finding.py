"""What a check found, in words: why a claim has its verdict, and by which evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from analysis.claims.band import INCONCLUSIVE, REFUTED, SUPPORTED, UNTESTABLE, Verdict
from analysis.claims.bench import Seen
from analysis.figures.page import rows_hash

WORDS: dict[Verdict, str] = {
    REFUTED: "not as claimed",
    INCONCLUSIVE: "undecided",
    UNTESTABLE: "not testable",
    SUPPORTED: "as claimed",
}


@dataclass(frozen=True)
class Finding:
    """One check of a claim.

    Attributes:
        part: Which part of the claim it decides.
        expected: What the claim makes one expect there.
        seen: What was found.
    """

    part: str
    expected: str
    seen: Seen


def why(findings: Sequence[Finding], verdict: Verdict, interpreted: bool) -> str:
    """Which parts decided, then how the others stand.

    ``interpreted`` says that Triton has no times here.
    """
    told = []
    for name in dict.fromkeys([verdict, *WORDS]):
        parts = [_part(f) for f in findings if f.seen.verdict == name]
        if parts:
            told.append(f"{WORDS[name]}: {', '.join(parts)}")
    if interpreted and any(f.seen.verdict == UNTESTABLE for f in findings):
        told.append("on a CPU Triton runs under its interpreter, whose time means nothing")
    return "; ".join(told)


def _part(finding: Finding) -> str:
    told = finding.seen.why or finding.seen.brief
    return f"{finding.part} ({told})" if told else finding.part


def evidence_of(findings: Sequence[Finding], used: pd.DataFrame) -> str:
    """Rows with their hash and protocol, then records."""
    told = []
    if len(used):
        timed = used[used["timer"].notna()]
        protocols = sorted(
            {f"{t} {c}" for t, c in zip(timed["timer"], timed["cache"], strict=True)}
        )
        told.append(", ".join([f"rows {rows_hash(used)} ({len(used)})", *protocols]))
    told += [f.seen.used for f in findings if f.seen.used and not f.seen.rows]
    return "; ".join(dict.fromkeys(told)) or "none"
