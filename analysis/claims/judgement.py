"""Claims judged: each check's finding made one verdict on one GPU."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.claims.band import (
    UNTESTABLE,
    Band,
    Verdict,
    together,
)
from analysis.claims.bench import Bench, Seen
from analysis.claims.finding import Finding, evidence_of, why
from analysis.claims.printed import fastest
from analysis.claims.schema import Check, Claim
from analysis.format import number
from analysis.load import Records
from analysis.selection import records_of

KEY = 12  # letters of a row's key that a reference carries
ALL = Band(low=1.0, high=1.0)  # checks without a number: their share of what was asked


@dataclass(frozen=True)
class Judgement:
    """One claim on one GPU.

    Attributes:
        id: The claim's.
        source: Letter of its source.
        statement: The source's words.
        gpu: As its driver names it.
        verdict: Refuted if any check is, else inconclusive, not testable, supported.
        part: Which part of the claim decided.
        measured: What was found there, in words.
        value: The same as a number.
        low: Lower end of its interval.
        high: Upper end.
        expected: In words.
        why: One sentence.
        evidence: Which rows and records, how many, their hash.
        rows: References to the rows used.
        findings: Every check.
        note: How the words were read.
    """

    id: str
    source: str
    statement: str
    gpu: str
    verdict: Verdict
    part: str
    measured: str
    value: float | None
    low: float | None
    high: float | None
    expected: str
    why: str
    evidence: str
    rows: tuple[dict[str, Any], ...]
    findings: tuple[Finding, ...]
    note: str = ""


def judged(claims: Iterable[Claim], frame: pd.DataFrame, evidence: Records) -> list[Judgement]:
    """Every claim on every GPU of the rows, in the claims' order."""
    gpus = sorted(map(str, frame["gpu"].unique()))
    frames = {gpu: frame[frame["gpu"] == gpu] for gpu in gpus}
    return [
        _judgement(claim, Bench(gpu, frames[gpu], evidence, claim.source))
        for claim in claims
        for gpu in gpus
    ]


def _judgement(claim: Claim, bench: Bench) -> Judgement:
    findings = [_finding(check, bench) for check in claim.checks]
    found = list(zip(claim.checks, findings, strict=True))
    counted = [f for c, f in found if not (c.optional and f.seen.verdict == UNTESTABLE)]
    verdict = together(f.seen.verdict for f in counted)
    deciding = next((f for f in counted if f.seen.verdict == verdict), findings[0])
    measure = deciding.seen.measure
    labels = sorted({label for f in findings for label in f.seen.rows})
    used = bench.frame.loc[labels]
    return Judgement(
        id=claim.id,
        source=claim.source,
        statement=claim.statement,
        gpu=bench.gpu,
        verdict=verdict,
        part=deciding.part,
        measured=deciding.seen.measured,
        value=measure.value if measure else None,
        low=measure.low if measure else None,
        high=measure.high if measure else None,
        expected=deciding.expected,
        why=why(counted, verdict, interpreted=bool((bench.frame["device"] == "cpu").all())),
        evidence=evidence_of(findings, used),
        rows=tuple(_reference(row) for row in records_of(used)),
        findings=tuple(findings),
        note=" ".join((claim.note or "").split()),
    )


def _finding(check: Check, bench: Bench) -> Finding:
    if check.expect is None:
        return Finding(check.part, check.expected, check.kind.judge(bench, ALL))
    seen: Seen = check.kind.judge(bench, check.expect.band(fastest()))
    return Finding(check.part, check.expected, seen)


def _reference(row: dict[str, Any]) -> dict[str, Any]:
    params = {key: value for key, value in row["params"].items() if value is not None}
    return {
        "kernel": row["kernel"],
        "params": params,
        "M": int(row["rows"]),
        "N": int(row["cols"]),
        "dtype": row["dtype"],
        "status": row["status"],
        "time_us": number(row, "time_us"),
        "low": number(row, "time_low_us"),
        "high": number(row, "time_high_us"),
        "key": row["key"][:KEY],
    }
