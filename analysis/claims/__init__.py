"""The sources' claims and our own, a function each, judged by rows and records.

``python -m analysis claims`` judges them all and audits the printed numbers.
"""

from __future__ import annotations

import argparse
import re
import shutil
from collections.abc import Iterable
from types import ModuleType

from analysis.claims import a, audit, b, c, d, e, own
from analysis.claims.measure import Card, of_gpu
from analysis.claims.tables import claims_tables, tally
from analysis.claims.verdict import OURS, Claim, Judgement, claim
from analysis.format import write_table
from analysis.load import Inputs, read_inputs

SOURCES = (a, b, c, d, e)


def claims_of(modules: Iterable[ModuleType]) -> list[Claim]:
    """The claims of some modules, in their order: functions called ``a1``, ``l35`` and the like."""
    found = (vars(module).items() for module in modules)
    named = [
        (name, one) for items in found for name, one in items if re.fullmatch(r"[a-z]\d+", name)
    ]
    return [one if isinstance(one, Claim) else claim()(one) for name, one in named]


def judge(inputs: Inputs, gpu: str, modules: Iterable[ModuleType] = SOURCES) -> list[Judgement]:
    """The claims of some modules, by default the sources', by the rows of one GPU."""
    card = Card(gpu, of_gpu(inputs, gpu))
    return [claim.judge(card) for claim in claims_of(modules)]


def judge_own(inputs: Inputs, gpu: str) -> list[Judgement]:
    """Every claim of this project by the rows of one GPU; none where nothing is measured."""
    judged = judge(inputs, gpu, [own])
    # counts are the same on every machine, and alone say nothing of this card
    measured = any(part.labels for one in judged for part in one.parts)
    return judged if measured else []


def run(options: argparse.Namespace) -> int:
    """Judges every claim on every GPU, audits the printed numbers, and writes both as tables."""
    from analysis.__main__ import finish

    inputs = read_inputs(options.rows, options.out, "claims", options.ours)
    judged: list[Judgement] = []
    for gpu in sorted(inputs.frame["gpu"].unique()):
        mine = of_gpu(inputs, gpu)
        judged += judge(mine, gpu) + judge_own(mine, gpu)
    tables = claims_tables(inputs.frame, judged, audit.audit())
    _show(judged)
    finish(
        [path for stem, table in tables.items() for path in write_table(inputs.out, stem, table)]
    )
    return 0


def _show(judged: list[Judgement]) -> None:
    """The verdicts on the terminal, a line per claim, and how many there are of each."""
    longest = max((len(one.verdict) for one in judged), default=0)
    for one in judged:
        line = f"{one.id:3}  {one.verdict:{longest}}  {one.statement}"
        print(line[: shutil.get_terminal_size().columns])
    for title, ours in (("The sources' claims", False), ("This project's claims", True)):
        for counts in tally([one for one in judged if (one.source == OURS) == ours]):
            print(f"{title}, {counts}")
