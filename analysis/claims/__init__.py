"""The sources' claims and our own, a function each, judged by rows and records.

``python -m analysis claims`` judges them all and audits the printed numbers. Each table has a line
per claim to read, and in its CSV a line per part with the keys of the rows behind it.
"""

from __future__ import annotations

import argparse
import re
import shutil
from collections.abc import Iterable, Sequence
from types import ModuleType

import pandas as pd

from analysis.__main__ import finish
from analysis.claims import a, b, c, d, e, own
from analysis.claims.audit import audit_table
from analysis.claims.measure import Card, of_gpu
from analysis.claims.verdict import OURS, WORDS, Judgement, Measure, Part, judged
from analysis.format import Cell, Table, keys_of, write_table
from analysis.load import Inputs, read_inputs
from analysis.published import sources
from experiments.data.cards import card_of

SOURCES = (a, b, c, d, e)
TITLES = {"claims": "The sources' claims", "own_claims": "This project's claims"}
NOTES = (
    "Not reproduced: rows of this card say something else; another card may not. Contradicted: no "
    "card could do it, by arithmetic or by the source itself. Undecided: an interval straddles the "
    "threshold.",
    "Intervals: 95 %, over recordings, widths or rounds; of one visit rank-based, of a time's "
    "median. A ratio of two such numbers goes from lower over upper end to the opposite.",
    "One rule for numbers: a range is judged at both ends, “at least” and “up to” at the end that "
    "they name, “about” within the share given, a factor said of many widths by their geometric "
    "mean, and “most” by their median.",
)


def claims_of(modules: Iterable[ModuleType]) -> list[Measure]:
    """The claims of some modules, in their order: functions called ``a1``, ``l35`` and the like."""
    items = [item for module in modules for item in vars(module).items()]
    return [one for name, one in items if re.fullmatch(r"[a-z]\d+", name)]


def judge(inputs: Inputs, gpu: str, modules: Iterable[ModuleType] = SOURCES) -> list[Judgement]:
    """The claims of some modules, by default the sources', by the rows of one GPU."""
    card = Card(gpu, of_gpu(inputs, gpu))
    return [judged(one, card) for one in claims_of(modules)]


def judge_own(inputs: Inputs, gpu: str) -> list[Judgement]:
    """Every claim of this project by the rows of one GPU; none where nothing is measured."""
    found = judge(inputs, gpu, [own])
    # counts are the same on every machine, and alone say nothing of this card
    measured = any(part.labels for one in found for part in one.parts)
    return found if measured else []


def run(options: argparse.Namespace) -> int:
    """Judges every claim on every GPU, audits the printed numbers, and writes both as tables."""
    inputs = read_inputs(options.rows, options.out, "claims", options.ours)
    every: list[Judgement] = []
    for gpu in sorted(inputs.frame["gpu"].unique()):
        mine = of_gpu(inputs, gpu)
        every += [*judge(mine, gpu), *judge_own(mine, gpu)]
    for one in every:
        line = f"{one.id:3}  {one.verdict:30}  {one.statement}"
        print(line[: shutil.get_terminal_size().columns])
    tables = claims_tables(inputs.frame, every)
    for table in tables.values():
        print(f"{table.title}, {table.notes[0]}")
    tables |= {"sources": sources_table(every), "audit": audit_table()}
    written = (write_table(inputs.out, stem, table) for stem, table in tables.items())
    finish([path for paths in written for path in paths])
    return 0


def claims_tables(frame: pd.DataFrame, judgements: Sequence[Judgement]) -> dict[str, Table]:
    """The sources' claims and ours as tables, by the stem of their files.

    ``frame`` has the rows that judged the claims, which may be of any number of GPUs.
    """
    found = {}
    for stem, title in TITLES.items():
        mine = [one for one in judgements if (one.source == OURS) == (stem == "own_claims")]
        by_gpu = _by_gpu(mine)
        gpus = ["GPU"] * (len(by_gpu) > 1)
        heads = ["claim", *gpus, "statement", "verdict", "measured", "expected", "why"]
        lines = []
        for one in mine:
            part, gpu = one.deciding, [card_of(one.gpu).name for _ in gpus]
            texts = [one.statement, one.verdict, f"{part.label}: {part.measured or part.lacks}"]
            lines.append([one.id, *gpu, *texts, part.expected, one.remark or "–"])
        data = pd.DataFrame([_data(frame, one, part) for one in mine for part in one.parts])
        counts = " ".join(f"{card_of(gpu).name}: {counted(own)}." for gpu, own in by_gpu.items())
        if mine:
            found[stem] = Table(title, heads, lines, [counts, *NOTES], data)
    return found


def sources_table(judgements: Sequence[Judgement]) -> Table:
    """The sources, and how their claims were judged on each GPU."""
    by_gpu = _by_gpu(judgements)
    lines = [
        [
            *(letter, Cell(one.title, link=one.url)),
            *(counted([j for j in own if j.source == letter]) for own in by_gpu.values()),
        ]
        for letter, one in sources().items()
    ]
    heads = [f"its claims on {card_of(gpu).name}" for gpu in by_gpu]
    return Table("The articles", ["", "article", *heads], lines)


def counted(judgements: Sequence[Judgement]) -> str:
    """How many there are of each verdict: ``16 reproduced, 5 contradicted``."""
    words = [one.word for one in judgements]
    return ", ".join(f"{words.count(word)} {word}" for word in WORDS if word in words)


def _by_gpu(judgements: Sequence[Judgement]) -> dict[str, list[Judgement]]:
    gpus = dict.fromkeys(one.gpu for one in judgements)
    return {gpu: [one for one in judgements if one.gpu == gpu] for gpu in gpus}


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
