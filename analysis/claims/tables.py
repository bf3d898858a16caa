"""Judgements as tables: one line a claim to read, one line a check for machines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from analysis.claims.band import VERDICTS
from analysis.claims.finding import Finding
from analysis.claims.judgement import Judgement
from analysis.claims.telling import listed, many
from analysis.format import NamedTable, Table
from experiments.data.cards import card_of

NOTES = (
    "Refuted where any part of a claim is, else inconclusive (an interval straddles its "
    "threshold), else not testable here (evidence is missing), else supported.",
    "Intervals: 95 %, rank-based, of each median; a ratio's from lower over upper bound to the "
    "opposite. They tell of one session; a second one on the same card may differ by more.",
)

_SWEEP = re.compile(r"(?P<run>python -m \S+) kernel=(?P<kernels>\S+) (?P<rest>.*)")


def claims_tables(
    judgements: Sequence[Judgement], stem: str = "claims", title: str = "The sources' claims"
) -> list[NamedTable]:
    """A line a claim, and a line a check; none without judgements."""
    if not judgements:
        return []
    parts = f"{title}, part by part"
    return [
        NamedTable(stem, _wide(judgements, title)),
        NamedTable(f"{stem}_checks", _checks(judgements, parts), _long(judgements, parts)),
    ]


def tally(judgements: Sequence[Judgement]) -> str:
    """How many of each verdict: ``9 supported, 7 refuted``, by GPU where there are several."""
    gpus = list(dict.fromkeys(j.gpu for j in judgements))
    told = []
    for gpu in gpus:
        counts = Counter(j.verdict for j in judgements if j.gpu == gpu)
        words = listed([f"{counts[v]} {v}" for v in VERDICTS if counts[v]])
        told.append(f"{card_of(gpu).name}: {words} of {many(counts.total(), 'claim')}")
    return "; ".join(told)


def _wide(judgements: Sequence[Judgement], title: str) -> Table:
    several = len({j.gpu for j in judgements}) > 1
    heads = [
        "claim",
        *["GPU"] * several,
        "statement",
        "verdict",
        "measured",
        "expected",
        "evidence",
    ]
    lines = [
        [j.id, *[card_of(j.gpu).name] * several, j.statement, j.verdict, shown(j),
         j.expected or "–", j.evidence]
        for j in judgements
    ]  # fmt: skip
    return Table(title, heads, lines, (f"{tally(judgements)}.", *NOTES))


def _checks(judgements: Sequence[Judgement], title: str) -> Table:
    several = len({j.gpu for j in judgements}) > 1
    heads = ["claim", *["GPU"] * several, "part", "verdict", "measured", "expected", "why"]
    lines = []
    for j in judgements:
        for found in j.findings:
            seen, gpu = found.seen, [card_of(j.gpu).name] * several
            told = " – ".join(filter(None, (seen.why, seen.needs))) or "–"
            lines.append([j.id, *gpu, found.part, seen.verdict, seen.measured or "–",
                          found.expected or "–", told])  # fmt: skip
    notes = dict.fromkeys(f"{j.id}: {j.note}" for j in judgements if j.note)
    return Table(title, heads, lines, tuple(notes))


def shown(judgement: Judgement) -> str:
    """What was found, after the part of the claim that it decides."""
    return f"{judgement.part}: {judgement.measured}" if judgement.measured else "–"


def lacking(findings: Sequence[Finding]) -> list[str]:
    """The commands that would give what is missing; kernels of like sweeps in one."""
    kernels: dict[tuple[str, str], list[str]] = {}
    told = []
    for needs in (f.seen.needs for f in findings if f.seen.needs):
        found = _SWEEP.fullmatch(needs)
        if found is None:
            told.append(needs)
            continue
        known = kernels.setdefault((found["run"], found["rest"]), [])
        known += [kernel for kernel in found["kernels"].split(",") if kernel not in known]
    told += [f"{run} kernel={','.join(each)} {rest}" for (run, rest), each in kernels.items()]
    return list(dict.fromkeys(told))


def _long(judgements: Sequence[Judgement], title: str) -> Table:
    heads = ["claim", "source", "gpu", "claim_verdict", "part", "verdict", "value", "low", "high",
             "measured", "expected", "evidence", "missing", "command"]  # fmt: skip
    lines = []
    for j in judgements:
        for finding in j.findings:
            seen, measure = finding.seen, finding.seen.measure
            numbers = (measure.value, measure.low, measure.high) if measure else ()
            told = [f"{n:.6g}" for n in numbers] or [""] * 3
            lines.append(
                [j.id, j.source, j.gpu, j.verdict, finding.part, seen.verdict, *told,
                 seen.measured, finding.expected, seen.used, seen.why, seen.needs]
            )  # fmt: skip
    return Table(title, heads, lines)
