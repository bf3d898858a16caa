"""Claims judged: each check's finding made one verdict on one GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.claims.points import Context, Finding
from analysis.claims.schema import CLAIMS, OWN_CLAIMS, Check, Claim, read_claims
from analysis.claims.verdict import MEANING, UNTESTABLE, Band, Verdict, together
from analysis.estimate import Estimate
from analysis.format import number
from analysis.limits import operations_of, points_of, with_all_operations
from analysis.load import Inputs, rows_hash
from analysis.selection import records_of

KEY = 12  # characters of a row's key that a reference carries
ALL = Band(low=1.0, high=1.0)  # checks without a number: their share of what was asked


@dataclass(frozen=True)
class Judgement:
    """One claim on one GPU.

    Attributes:
        source: Letter of the claim's source, whose ``words`` stand at ``place``; ``statement`` has
            them in short.
        verdict: Refuted if any check is, else inconclusive, not testable, supported.
        deciding: The finding that decided.
        why: One sentence.
        evidence: Which rows and records, how many, their hash.
        rows: References to the rows used.
        findings: Of every check.
        note: How the words were read.
    """

    id: str
    source: str
    statement: str
    words: str
    place: str
    gpu: str
    verdict: Verdict
    deciding: Finding
    why: str
    evidence: str
    rows: tuple[dict[str, Any], ...]
    findings: tuple[Finding, ...]
    note: str

    @property
    def measured(self) -> str:
        """What was found, in words."""
        return self.deciding.measured

    @property
    def estimate(self) -> Estimate | None:
        """The same as a number, if it is one."""
        return self.deciding.estimate

    @property
    def expected(self) -> str:
        """What the claim makes one expect, in words."""
        return self.deciding.expected


def judge(inputs: Inputs, claims: Path = CLAIMS) -> list[Judgement]:
    """Every claim of a file on every GPU of the rows, in the file's order.

    Raises:
        RowsError: the claims file has a mistake; one line names the claim and the field.
    """
    frames = list(inputs.frame.groupby("gpu"))
    if len(frames) == 1:
        frames = [(frames[0][0], inputs.frame)]  # whose points others may have found already
    return [
        _judgement(claim, Context(str(gpu), frame, inputs.records, claim.source))
        for claim in read_claims(claims)
        for gpu, frame in frames
    ]


def judge_own(inputs: Inputs) -> list[Judgement]:
    """Our own claims on each GPU that has rows of what they are about, packed ones too."""
    one = with_all_operations(inputs)
    gpus = {p.gpu for name in operations_of(one.frame) for p in points_of(one.frame, name)}
    whole = gpus == set(one.frame["gpu"])
    frame = one.frame if whole else one.frame[one.frame["gpu"].isin(gpus)]
    return judge(replace(one, frame=frame), OWN_CLAIMS)


def _judgement(claim: Claim, context: Context) -> Judgement:
    findings = [_finding(check, context) for check in claim.checks]
    counted = [
        finding
        for check, finding in zip(claim.checks, findings, strict=True)
        if not (check.optional and finding.verdict == UNTESTABLE)
    ]
    verdict = together(finding.verdict for finding in counted)
    used = context.frame.loc[sorted({label for f in findings for label in f.rows})]
    interpreted = bool((context.frame["device"] == "cpu").all())
    return Judgement(
        id=claim.id,
        source=claim.source,
        statement=claim.statement,
        words=claim.words,
        place=claim.place,
        gpu=context.gpu,
        verdict=verdict,
        deciding=next((f for f in counted if f.verdict == verdict), findings[0]),
        why=_why(counted, verdict, interpreted),
        evidence=_evidence(findings, used),
        rows=tuple(map(_reference, records_of(used))),
        findings=tuple(findings),
        note=" ".join(claim.note.split()),
    )


def _finding(check: Check, context: Context) -> Finding:
    found: Finding = check.kind.judge(context, check.expect.band() if check.expect else ALL)
    return replace(found, part=check.part, expected=check.expected)


def _why(findings: Sequence[Finding], verdict: Verdict, interpreted: bool) -> str:
    """Which parts decided, then how the others stand."""
    texts = []
    for name in dict.fromkeys([verdict, *MEANING]):
        noted = [(f.part, f.why or f.brief) for f in findings if f.verdict == name]
        if noted:
            each = [f"{part} ({note})" if note else part for part, note in noted]
            texts.append(f"{MEANING[name]}: {', '.join(each)}")
    if interpreted and any(f.verdict == UNTESTABLE for f in findings):
        texts.append("on a CPU Triton runs under its interpreter, whose time means nothing")
    return "; ".join(texts)


def _evidence(findings: Sequence[Finding], used: pd.DataFrame) -> str:
    """Rows with their hash and protocol, then records."""
    texts = []
    if len(used):
        protocols = (used["timer"] + " " + used["cache"]).dropna()
        texts.append(", ".join([f"rows {rows_hash(used)} ({len(used)})", *sorted(set(protocols))]))
    texts += [f.used for f in findings if f.used and not f.rows]
    return "; ".join(dict.fromkeys(texts)) or "none"


def _reference(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "kernel": row["kernel"],
        "params": {key: value for key, value in row["params"].items() if value is not None},
        "M": int(row["rows"]),
        "N": int(row["cols"]),
        "dtype": row["dtype"],
        "status": row["status"],
        "stop_reason": row["stop_reason"] if isinstance(row["stop_reason"], str) else None,
        "time_us": number(row, "time_us"),
        "low": number(row, "time_low_us"),
        "high": number(row, "time_high_us"),
        "key": row["key"][:KEY],
    }
