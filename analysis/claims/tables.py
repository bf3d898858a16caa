"""Judgements and findings as tables: a line per claim to read, a line per part for machines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pandas as pd

from analysis.claims.audit import NOTE, VERDICTS, AuditFinding
from analysis.claims.verdict import CONTRADICTED, NOT_REPRODUCED, OURS, WORDS, Judgement, Part
from analysis.format import Cell, Table, keys_of
from analysis.published import sources
from experiments.data.cards import card_of

NOTES = (
    "Not reproduced: rows of this card say something else; another card may not. Contradicted: no "
    "card could do it, by arithmetic or by the source itself. Undecided: an interval straddles the "
    "threshold.",
    "Intervals: 95 %. A time's is rank-based, of its median, a ratio's goes from lower over upper "
    "bound to the opposite. Where this project's kernel stands beside its rivals the interval is "
    "over recordings, widths or rounds.",
    "One rule for numbers: a range is judged at both ends, “at least” and “up to” at the end that "
    "they name, “about” within the share given, and a factor said of many widths by the geometric "
    "mean over them.",
)


def claims_tables(
    frame: pd.DataFrame, judged: Sequence[Judgement], findings: Sequence[AuditFinding] = ()
) -> dict[str, Table]:
    """The sources' claims, ours and the audit as tables by the stem of their files.

    ``frame`` has the rows that judged the claims, which may be of any number of GPUs.
    """
    ours = [one for one in judged if one.source == OURS]
    theirs = [one for one in judged if one.source != OURS]
    tables = {"claims": _claims("The sources' claims", frame, theirs)} if theirs else {}
    if ours:
        tables["own_claims"] = _claims("This project's claims", frame, ours)
    if findings:
        lines = [list(vars(finding).values()) for finding in findings]
        tally = counted([finding.verdict for finding in findings], VERDICTS)
        heads = ["source", "subject", "verdict", "printed", "computed", "why"]
        tables["audit"] = Table("Audit of published numbers", heads, lines, [f"{tally}.", NOTE])
    return tables


def sources_table(judged: Sequence[Judgement]) -> Table:
    """The sources, and how their claims were judged on one GPU."""
    lines = []
    for letter, source in sources().items():
        words = [one.word for one in judged if one.source == letter]
        title = Cell(source.title, link=source.url)
        lines.append([letter, title, counted(words, WORDS)])
    heads = ["", "article", "its claims, judged here"]
    return Table("The articles", heads, lines)


def counted(verdicts: Sequence[str], order: Sequence[str]) -> str:
    """How many there are of each: ``16 reproduced, 5 contradicted``."""
    counts = Counter(verdicts)
    return ", ".join(f"{counts[word]} {word}" for word in order if counts[word])


def tally(judged: Sequence[Judgement]) -> list[str]:
    """The verdicts counted, a sentence per GPU."""
    return [
        f"{card_of(gpu).name}: {counted([one.word for one in judged if one.gpu == gpu], WORDS)}."
        for gpu in dict.fromkeys(one.gpu for one in judged)
    ]


def explained(one: Judgement) -> str:
    """Which way a claim is missed and why, or how its words were read."""
    if one.word not in (NOT_REPRODUCED, CONTRADICTED):
        return one.why or one.reading
    way = f"Triton does {one.direction} than claimed." if one.direction and not one.why else ""
    return " ".join(filter(None, (way, one.why)))


def _claims(title: str, frame: pd.DataFrame, judged: Sequence[Judgement]) -> Table:
    several = len({one.gpu for one in judged}) > 1
    heads = ["claim", *["GPU"] * several, "statement", "verdict", "measured", "expected", "why"]
    lines = []
    for one in judged:
        part, gpu = one.deciding, [card_of(one.gpu).name] * several
        measured = f"{part.label}: {part.measured or part.lacks}"
        texts = [one.statement, one.verdict, measured, part.expected, explained(one) or "–"]
        lines.append([one.id, *gpu, *texts])
    data = pd.DataFrame([_data(frame, one, part) for one in judged for part in one.parts])
    return Table(title, heads, lines, [*tally(judged), *NOTES], data)


def _data(frame: pd.DataFrame, one: Judgement, part: Part) -> dict[str, object]:
    """One part of a claim as a line of the CSV, with the keys of the rows behind it."""
    found, (keys, recordings) = part.estimate, keys_of(frame, part.labels)
    return {
        **{"claim": one.id, "source": one.source, "figure": one.figure, "gpu": one.gpu},
        **{"claim_verdict": one.verdict, "direction": one.direction, "part": part.label},
        **{"as_expected": part.outcome, "value": found and found.value},
        **{"low": found and found.low, "high": found and found.high},
        **{"measured": part.measured, "expected": part.expected, "needs": part.lacks},
        **{"keys": keys, "recordings": recordings},
    }
