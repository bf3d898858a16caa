"""Judgements as tables: one line per claim to read, one line per check for machines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from analysis.claims.judgement import Judgement
from analysis.claims.points import Finding, listed, many
from analysis.claims.verdict import VERDICTS
from analysis.format import Cell, NamedTable, Table
from analysis.published import sources
from experiments.data.cards import card_of

NOTES = (
    "Refuted where any part of a claim is, else inconclusive (an interval straddles its "
    "threshold), else not testable here (rows or records are missing), else supported.",
    "Intervals: 95 %. A time's is rank-based, of its median, a ratio's goes from lower over upper "
    "bound to the opposite: of one session, and a second one on the same card may differ by more. "
    "Where a check compares this project's choice with its rivals, the interval is of recordings, "
    "or of the rounds where there is one recording.",
)
HEADS = ["claim", "GPU", "statement", "verdict", "measured", "expected", "place", "evidence"]
CHECK_HEADS = ["claim", "GPU", "part", "verdict", "measured", "expected", "why"]
DATA_HEADS = ["claim", "source", "gpu", "claim_verdict", "part", "verdict", "value", "low", "high",
              "measured", "expected", "evidence", "missing", "command"]  # fmt: skip

_SWEEP = re.compile(r"(?P<run>python -m \S+) kernel=(?P<kernels>\S+) (?P<rest>.*)")


def claims_tables(
    judgements: Sequence[Judgement], stem: str = "claims", title: str = "The sources' claims"
) -> list[NamedTable]:
    """A line per claim, and a line per check; none without judgements."""
    if not judgements:
        return []
    lines, checks, data = [HEADS], [CHECK_HEADS], []
    for j in judgements:
        gpu = card_of(j.gpu).name
        texts = [shown(j), j.expected or "–", j.place or "–", j.evidence]
        lines.append([j.id, gpu, j.statement, j.verdict, *texts])
        for f in j.findings:
            why = " – ".join(filter(None, (f.why, f.needs)))
            texts = [text or "–" for text in (f.measured, f.expected, why)]
            checks.append([j.id, gpu, f.part, f.verdict, *texts])
            ends = (f.estimate.value, f.estimate.low, f.estimate.high) if f.estimate else ()
            numbers = [f"{number:.6g}" for number in ends] or [""] * 3
            data.append([j.id, j.source, j.gpu, j.verdict, f.part, f.verdict, *numbers,
                         f.measured, f.expected, f.used, f.why, f.needs])  # fmt: skip
    if len({j.gpu for j in judgements}) == 1:
        lines, checks = ([[one[0], *one[2:]] for one in each] for each in (lines, checks))
    notes = tuple(dict.fromkeys(f"{j.id}: {j.note}" for j in judgements if j.note))
    parts = f"{title}, part by part"
    return [
        NamedTable(stem, Table(title, lines[0], lines[1:], (f"{tally(judgements)}.", *NOTES))),
        NamedTable(
            f"{stem}_checks",
            Table(parts, checks[0], checks[1:], notes),
            Table(parts, DATA_HEADS, data),
        ),
    ]


def sources_table(judgements: Sequence[Judgement]) -> NamedTable:
    """The sources: what each is, whose card it measured on, what it claims, how that was judged.

    For README and docs as well: ``python -m analysis claims`` writes it as ``sources.md``.
    """
    lines = []
    for letter, source in sources().items():
        counts = Counter((j.gpu, j.verdict) for j in judgements if j.source == letter)
        gpus = dict.fromkeys(gpu for gpu, _ in counts)
        each = [", ".join(f"{v} {counts[gpu, v]}" for v in VERDICTS if counts[gpu, v])
                for gpu in gpus]  # fmt: skip
        if len(each) > 1:
            each = [f"{card_of(gpu).name}: {text}" for gpu, text in zip(gpus, each, strict=True)]
        title, card = Cell(source.title, link=source.url), source.card or "not named"
        lines.append([letter, title, source.by, card, source.claim, "; ".join(each) or "–"])
    heads = ["source", "title", "by, what, when", "its card", "claims in short", "judged here"]
    return NamedTable("sources", Table("The sources", heads, lines))


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
        if sweep := _SWEEP.fullmatch(needs):
            known = kernels.setdefault((sweep["run"], sweep["rest"]), [])
            known += sweep["kernels"].split(",")
        else:
            commands.append(needs)
    for (run, rest), names in kernels.items():
        commands.append(f"{run} kernel={','.join(dict.fromkeys(names))} {rest}")
    return list(dict.fromkeys(commands))
