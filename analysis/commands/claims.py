"""``claims``: the sources' claims and our own judged, and the sources' numbers audited."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as Printed
from rich.text import Text

from analysis.claims import CLAIMS, OWN_CLAIMS, Judgement, claims_tables, judge
from analysis.claims.audit import audit, audit_tables
from analysis.claims.band import UNTESTABLE
from analysis.claims.tables import lacking, shown, tally
from analysis.commands.telling import finish
from analysis.format import write
from analysis.limits import NEEDS, points_of
from analysis.load import Inputs, read_inputs
from experiments.data.cards import card_of

OWN_STEM = "own_claims"
COLORS = {"supported": "green", "refuted": "red", "inconclusive": "yellow"}


def run(options: argparse.Namespace) -> int:
    """Judges and audits, writes both as tables and the claims as JSON, and prints the verdicts.

    A file that was asked for is judged alone. Our own claims are judged on GPUs that have rows of
    what they are about, and apart from the sources'.
    """
    found = read_inputs(options.rows, options.out, "claims")
    judgements, audited = judge(found, options.claims or CLAIMS), audit()
    own = [] if options.claims else _own(found)
    title = "The claims" if options.claims else "The sources' claims"
    tables = [
        *claims_tables(judgements, title=title),
        *claims_tables(own, OWN_STEM, "This project's claims"),
    ]
    made: list[Path] = []
    audits = audit_tables(audited)
    for named in [*tables, *audits]:
        made += named.files(found.out)
    made.append(write(found.out / "claims.json", as_json(judgements)))
    if own:
        made.append(write(found.out / f"{OWN_STEM}.json", as_json(own)))
    _show(judgements, own, audits[1].table.notes[0])
    missed = [] if own or options.claims else [f"{OWN_STEM} needs {NEEDS}"]
    finish("claims", found, made, missed)
    return 0


def _own(found: Inputs) -> list[Judgement]:
    gpus = {point.gpu for point in points_of(found.frame)}
    if not gpus:
        return []
    frame = found.frame[found.frame["gpu"].isin(gpus)]
    return judge(replace(found, frame=frame), OWN_CLAIMS)


def as_json(judgements: Sequence[Judgement]) -> str:
    """Everything: verdicts counted by GPU, each judgement with its checks, and the rows used.

    A row stands there once; a judgement's ``rows`` are places in that list.
    """
    places: dict[str, int] = {}
    told: dict[str, Any] = {
        "counts": {
            gpu: dict(Counter(j.verdict for j in judgements if j.gpu == gpu))
            for gpu in dict.fromkeys(j.gpu for j in judgements)
        },
        "claims": [_plain(j, places) for j in judgements],
    }
    text = json.dumps(told, indent=1, ensure_ascii=False, allow_nan=False)
    return text.removesuffix("\n}") + ',\n "rows": [\n  ' + ",\n  ".join(places) + "\n ]\n}\n"


def _plain(judgement: Judgement, places: dict[str, int]) -> dict[str, Any]:
    told = asdict(judgement)
    for finding in told["findings"]:
        seen = finding.pop("seen")
        measure = seen.pop("measure") or {}
        rows = len(seen.pop("rows"))
        numbers = {name: measure.get(name) for name in ("value", "low", "high")}
        finding |= {**seen, **numbers, "rows_used": rows}
    rows_of_one = [{"gpu": judgement.gpu} | row for row in judgement.rows]
    lines = [json.dumps(row, ensure_ascii=False, allow_nan=False) for row in rows_of_one]
    return told | {"rows": [places.setdefault(line, len(places)) for line in lines]}


def _show(judgements: Sequence[Judgement], own: Sequence[Judgement], audited: str) -> None:
    several, every = len({j.gpu for j in judgements}) > 1, [*judgements, *own]
    table = Printed("claim", *["GPU"] * several, "verdict", "measured", "expected", box=None)
    for j in every:
        verdict = Text(j.verdict, style=COLORS.get(j.verdict, "dim"))
        gpu = [Text(card_of(j.gpu).name)] * several
        table.add_row(Text(j.id), *gpu, verdict, Text(shown(j)), Text(j.expected or "–"))
    console = Console()
    console.print(table)
    for j in every:
        if j.verdict == UNTESTABLE:
            needs = lacking(j.findings)
            told = [f"\n{j.id} {j.why}", *(f"  {command}" for command in needs)]
            console.print(Text("\n".join(told)), soft_wrap=True)
    console.print(Text(f"\n{tally(judgements)}"), soft_wrap=True)
    if own:
        console.print(Text(f"This project's own: {tally(own)}"), soft_wrap=True)
    console.print(Text(f"Published numbers: {audited}\n"), soft_wrap=True)
