"""Judgements as tables: one line per claim to read, one line per check for machines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from analysis.claims.judgement import Judgement
from analysis.claims.points import Finding, listed, many
from analysis.claims.verdict import VERDICTS
from analysis.format import NamedTable, Table
from experiments.data.cards import card_of

NOTES = (
    "Refuted where any part of a claim is, else inconclusive (an interval straddles its "
    "threshold), else not testable here (rows or records are missing), else supported.",
    "Intervals: 95 %, rank-based, of each median; a ratio's from lower over upper bound to the "
    "opposite. They describe one session; a second one on the same card may differ by more.",
)

_SWEEP = re.compile(r"(?P<run>python -m \S+) kernel=(?P<kernels>\S+) (?P<rest>.*)")


def claims_tables(
    judgements: Sequence[Judgement], stem: str = "claims", title: str = "The sources' claims"
) -> list[NamedTable]:
    """A line per claim, and a line per check; none without judgements."""
    if not judgements:
        return []
    several = len({j.gpu for j in judgements}) > 1
    gpu_head = ["GPU"] * several
    heads = ["claim", *gpu_head, "statement", "verdict", "measured", "expected", "evidence"]
    lines = [
        [j.id, *_gpu(j, several), j.statement, j.verdict, shown(j), j.expected or "–", j.evidence]
        for j in judgements
    ]
    check_heads = ["claim", *gpu_head, "part", "verdict", "measured", "expected", "why"]
    checks = [
        [j.id, *_gpu(j, several), f.part, f.verdict, f.measured or "–", f.expected or "–",
         " – ".join(filter(None, (f.why, f.needs))) or "–"]
        for j in judgements
        for f in j.findings
    ]  # fmt: skip
    notes = tuple(dict.fromkeys(f"{j.id}: {j.note}" for j in judgements if j.note))
    parts = f"{title}, part by part"
    return [
        NamedTable(stem, Table(title, heads, lines, (f"{tally(judgements)}.", *NOTES))),
        NamedTable(
            f"{stem}_checks", Table(parts, check_heads, checks, notes), _data(judgements, parts)
        ),
    ]


def tally(judgements: Sequence[Judgement]) -> str:
    """How many of each verdict: ``9 supported, 7 refuted``, by GPU where there are several."""
    texts = []
    for gpu in dict.fromkeys(j.gpu for j in judgements):
        counts = Counter(j.verdict for j in judgements if j.gpu == gpu)
        words = listed([f"{counts[v]} {v}" for v in VERDICTS if counts[v]])
        texts.append(f"{card_of(gpu).name}: {words} of {many(counts.total(), 'claim')}")
    return "; ".join(texts)


def shown(judgement: Judgement) -> str:
    """What was found, after the part of the claim that it decides."""
    return f"{judgement.deciding.part}: {judgement.measured}" if judgement.measured else "–"


def lacking(findings: Sequence[Finding]) -> list[str]:
    """The commands that would give what is missing; kernels of like sweeps in one."""
    kernels: dict[tuple[str, str], list[str]] = {}
    commands = []
    for needs in (finding.needs for finding in findings if finding.needs):
        if (sweep := _SWEEP.fullmatch(needs)) is None:
            commands.append(needs)
        else:
            kernels.setdefault((sweep["run"], sweep["rest"]), []).extend(
                sweep["kernels"].split(",")
            )
    for (run, rest), names in kernels.items():
        commands.append(f"{run} kernel={','.join(dict.fromkeys(names))} {rest}")
    return list(dict.fromkeys(commands))


def _gpu(judgement: Judgement, several: bool) -> list[str]:
    return [card_of(judgement.gpu).name] * several


def _data(judgements: Sequence[Judgement], title: str) -> Table:
    heads = ["claim", "source", "gpu", "claim_verdict", "part", "verdict", "value", "low", "high",
             "measured", "expected", "evidence", "missing", "command"]  # fmt: skip
    lines = []
    for j in judgements:
        for f in j.findings:
            ends = (f.estimate.value, f.estimate.low, f.estimate.high) if f.estimate else ()
            numbers = [f"{number:.6g}" for number in ends] or [""] * 3
            lines.append([j.id, j.source, j.gpu, j.verdict, f.part, f.verdict, *numbers,
                          f.measured, f.expected, f.used, f.why, f.needs])  # fmt: skip
    return Table(title, heads, lines)
