"""``claims``: the sources' claims and our own judged, and the sources' numbers audited."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from analysis.claims import (
    CLAIMS,
    Finding,
    Judgement,
    claims_tables,
    judge,
    judge_own,
    sources_table,
)
from analysis.claims.audit import audit, audit_tables
from analysis.claims.tables import lacking, shown, tally
from analysis.claims.verdict import COLORS, UNTESTABLE
from analysis.limits import NEEDS
from analysis.load import read_inputs
from analysis.output import finish
from experiments.data.cards import card_of
from experiments.data.files import write_file

OWN_STEM = "own_claims"


def run(options: argparse.Namespace) -> int:
    """Judges and audits, writes both as tables and the claims as JSON, and prints the verdicts.

    A file that was asked for is judged alone. Our own claims are judged on GPUs that have rows of
    what they are about, and apart from the sources'.
    """
    inputs = read_inputs(options.rows, options.out, "claims")
    title = "The claims" if options.claims else "The sources' claims"
    judged = [("claims", title, judge(inputs, options.claims or CLAIMS))]
    if not options.claims and (own := judge_own(inputs)):
        judged.append((OWN_STEM, "This project's claims", own))
    audits = audit_tables(audit())
    tables = [table for stem, title, mine in judged for table in claims_tables(mine, stem, title)]
    tables += [] if options.claims else [sources_table(judged[0][2])]
    made: list[Path] = [path for named in [*tables, *audits] for path in named.files(inputs.out)]
    made += [write_file(inputs.out / f"{stem}.json", as_json(mine)) for stem, _, mine in judged]
    _show(*(mine for *_, mine in judged), audited=audits[1].table.notes[0])
    missed = [] if options.claims or len(judged) > 1 else [f"{OWN_STEM} needs {NEEDS}"]
    finish("claims", inputs, made, missed, [str(options.claims)] if options.claims else [])
    return 0


def as_json(judgements: Sequence[Judgement]) -> str:
    """Everything: verdicts counted by GPU, each judgement with its checks, and the rows used.

    A row stands there once; a judgement's ``rows`` are places in that list. Numbers have six
    significant digits: the others differ from processor to processor.
    """
    places: dict[str, int] = {}
    gpus = dict.fromkeys(j.gpu for j in judgements)
    fields = {
        "counts": {g: dict(Counter(j.verdict for j in judgements if j.gpu == g)) for g in gpus},
        "claims": [_judgement(j, places) for j in judgements],
    }
    text = json.dumps(fields, indent=1, ensure_ascii=False, allow_nan=False)
    return text.removesuffix("\n}") + ',\n "rows": [\n  ' + ",\n  ".join(places) + "\n ]\n}\n"


def _judgement(j: Judgement, places: dict[str, int]) -> dict[str, Any]:
    rows = [{"gpu": j.gpu} | {name: _rounded(one) for name, one in row.items()} for row in j.rows]
    lines = [json.dumps(row, ensure_ascii=False, allow_nan=False) for row in rows]
    return {
        "id": j.id, "source": j.source, "statement": j.statement, "words": j.words,
        "place": j.place, "gpu": j.gpu,
        "verdict": j.verdict, "part": j.deciding.part, "measured": j.measured,
        **_numbers(j.deciding), "expected": j.expected, "why": j.why, "evidence": j.evidence,
        "rows": [places.setdefault(line, len(places)) for line in lines],
        "findings": [
            {"part": f.part, "expected": f.expected, "verdict": f.verdict,
             "measured": f.measured, "brief": f.brief, "used": f.used, "why": f.why,
             "needs": f.needs, **_numbers(f), "rows_used": len(f.rows)}
            for f in j.findings
        ],
        "note": j.note,
    }  # fmt: skip


def _numbers(finding: Finding) -> dict[str, float | None]:
    ends = ("value", "low", "high")
    return {end: _rounded(getattr(finding.estimate, end, None)) for end in ends}


def _rounded(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _show(theirs: Sequence[Judgement], own: Sequence[Judgement] = (), *, audited: str) -> None:
    every, several = [*theirs, *own], len({j.gpu for j in theirs}) > 1
    table = Table("claim", *["GPU"] * several, "verdict", "measured", "expected", box=None)
    for j in every:
        verdict = Text(j.verdict, style=COLORS.get(j.verdict, "dim"))
        gpu = [Text(card_of(j.gpu).name)] * several
        table.add_row(Text(j.id), *gpu, verdict, Text(shown(j)), Text(j.expected or "–"))
    console = Console()
    console.print(table)
    texts = [
        "\n  ".join([f"\n{j.id} {j.why}", *lacking(j.findings)])
        for j in every
        if j.verdict == UNTESTABLE
    ]
    texts.append(f"\n{tally(theirs)}")
    texts += [f"This project's claims: {tally(own)}"] if own else []
    console.print(Text("\n".join([*texts, f"Published numbers: {audited}\n"])), soft_wrap=True)
