"""The sources' claims and our own, one function each, judged by rows and records.

A table has a line per claim, and its CSV a line per part of a claim with the keys of its rows. The
audit lists printed statements that arithmetic or another statement refutes: C's worked example is
recomputed, the others are in ``published.yaml`` with what refutes them.
"""

import argparse
import re
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import NamedTuple

import pandas as pd

from analysis.__main__ import finish
from analysis.claims import a, b, c, d, e, own
from analysis.claims.card import Card
from analysis.claims.verdict import NOT_MEASURED, OWN, WORDS, Judgement, Part, judge_claim
from analysis.figures.style import slug
from analysis.format import Cell, Table, keys_of, table, texts, write_table
from analysis.load import Inputs, read_inputs
from analysis.published import sources, worked_example
from experiments.data.cards import datasheet_of

SOURCES = (a, b, c, d, e)
TITLES = {"claims": "The sources' claims", "own_claims": "This project's claims"}
IMPOSSIBLE, CONTRADICTORY, WRONG = "physically impossible", "self-contradictory", "wrong"


def judge(inputs: Inputs, gpu: str, modules: Iterable[ModuleType] = SOURCES) -> list[Judgement]:
    """Judges the claims of some modules, functions such as ``a1``, by the rows of one GPU."""
    card = Card(gpu, inputs.by_gpu[gpu])
    items = [item for module in modules for item in vars(module).items()]
    return [judge_claim(one, card) for name, one in items if re.fullmatch(r"[a-z]\d+", name)]


def judge_own(inputs: Inputs, gpu: str) -> list[Judgement]:
    """Judges this project's claims by the rows of one GPU; empty if no row decides a part."""
    found = judge(inputs, gpu, [own])
    # counts are the same on every machine: if only they decide, this card measured nothing
    return found if any(part.labels for one in found for part in one.parts) else []


def run(options: argparse.Namespace) -> int:
    """Judges the claims on each GPU, audits the printed numbers, and writes both."""
    inputs = read_inputs(options.rows, options.out, "claims", options.ours)
    found = {gpu: [*judge(inputs, gpu), *judge_own(inputs, gpu)] for gpu in inputs.by_gpu}
    tested = {gpu for gpu in found for one in found[gpu] if one.word != NOT_MEASURED}
    written = [gpu for i, gpu in enumerate(found) if i == 0 or gpu in tested]
    tables = {"audit": audit_table()}
    for gpu in written:
        for one in found[gpu]:
            print(f"{one.id:3}  {one.verdict:30}  {one.statement}")
        for stem, made in claims_tables(inputs.by_gpu[gpu].frame, found[gpu]).items():
            tables[stem if gpu == written[0] else f"{stem}-{slug(gpu)}"] = made
            if made.notes:
                print(f"{made.title}, {made.notes[0]}")
    finish(path for stem, one in tables.items() for path in write_table(inputs.out, stem, one))
    return 0


def claims_tables(frame: pd.DataFrame, judgements: Sequence[Judgement]) -> dict[str, Table]:
    """The tables of the sources' claims, of ours and of the sources, by the stem of their files.

    ``frame`` has the rows of the GPU by which the claims were judged.
    """
    found, card = dict[str, Table](), datasheet_of(judgements[0].gpu).name
    for stem, title in TITLES.items():
        mine = [one for one in judgements if (one.source == OWN) == (stem == "own_claims")]
        lines = [
            {
                **{"claim": one.id, "statement": one.statement, "verdict": one.verdict},
                "measured": f"{one.deciding.label}: {one.deciding.measured or one.deciding.lacks}",
                **{"expected": one.deciding.expected, "why": one.remark},
            }
            for one in mine
        ]
        data = pd.DataFrame([_data(frame, one, part) for one in mine for part in one.parts])
        notes = [f"{card}: {tally(mine)}.", *texts("claims")]
        found |= {stem: table(title, pd.DataFrame(lines), notes, data)} if mine else {}
    lines = [
        {"": letter, "article": Cell(one.title, link=one.url), f"its claims on {card}": tally(by)}
        for letter, one in sources().items()
        for by in [[each for each in judgements if each.source == letter]]
    ]
    return found | {"sources": table("The articles", pd.DataFrame(lines, dtype=object))}


def tally(judgements: Sequence[Judgement]) -> str:
    """How many there are of each verdict: ``16 reproduced, 5 contradicted``."""
    words = [one.word for one in judgements]
    return ", ".join(f"{words.count(word)} {word}" for word in WORDS if word in words)


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


class Finding(NamedTuple):
    """One printed statement, compared with something that it has to agree with."""

    source: str  # its letter
    subject: str  # the statement: ``"A-fig2 fused, N ≥ 4,096"``
    verdict: str  # empty if both agree; the table's notes explain the others
    printed: str
    computed: str  # the right number, or what another statement implies
    why: str = ""  # a sentence, if the numbers do not explain themselves


def audit_table() -> Table:
    """The statements that are refuted, and how many were checked."""
    found = audit()
    wrong = [one for one in found if one.verdict]
    words = [one.verdict for one in wrong]
    counts = ", ".join(f"{words.count(word)} {word}" for word in (IMPOSSIBLE, CONTRADICTORY, WRONG))
    tally = f"{len(found)} statements were checked: {counts}, {len(found) - len(wrong)} consistent."
    return Table("Audit of published numbers", Finding._fields, wrong, [tally, *texts("audit")])


def audit() -> list[Finding]:
    """Every check of every statement, by source."""
    found = []
    for line in (one for one in worked_example() if one.published):
        verdict = "" if line.agrees == "yes" else WRONG
        subject = f"C-ex row {line.row}, {line.quantity}"
        found.append(Finding("C", subject, verdict, line.published, line.recomputed))
    for letter, source in sources().items():
        found += [Finding(letter, *statement.values()) for statement in source.statements]
    return sorted(found, key=lambda one: one.source)  # stable
