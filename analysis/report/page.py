"""The page: everything that rows and records say, as one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from analysis import stepper
from analysis.claims import judge, judge_own
from analysis.figures.style import variant_order
from analysis.format import NamedTable, Table
from analysis.load import Inputs
from analysis.report import recorded, reproduction
from analysis.report.claims import audit_of, claims_of, shown_of
from analysis.report.contents import CONTENTS, SECTIONS, SIGNS, anchor_of, by_source
from analysis.report.figures import evenly, gallery, script_json
from analysis.report.inline import declarations
from analysis.report.results import results_of, standings_table, statuses_of
from analysis.roofline.verdicts import check_table, checked, summary_table
from analysis.tables import tables_of
from experiments.data.cards import card_of

HERE, STEPPER = Path(__file__).parent, Path(stepper.__file__).parent
SCRIPTS = ("theme.js", "points.js")
STYLES = ("page.css", "parts.css", "figures.css", "media.css")
OWN = {"C-prof", "D-test"}  # ids whose place is always there, with rows or without
# The section of a table by how its name begins; all others stand under Tables.
PLACED = {
    **{"traffic": "traffic", "cards": "traffic", "limits": "limits", "environment": "environment"},
    **dict.fromkeys(("card_to_card", "floor", "intervals", "timers", "cold", "flush"), "noise"),
}
FOLDED = 14  # lines above which a table is folded, about half a screen
MOST = 5000  # points of a figure and lines of a table; a page of more is slow to open
WRAPS = 40  # characters of a cell that is broken into lines, a line
SHORT = 32  # characters of a cell that is kept on one line
_NUMBER = re.compile(r"([−+-]?[\d,]*\.?\d+(e[+-]?\d+)? ?(%|×)?)?")


def page(inputs: Inputs, most: int = MOST) -> str:
    """The whole HTML document, the same text for the same rows and code.

    Of many rows it leaves points out, and says so where it does: ``most`` of them stand in a
    figure or table, evenly spaced in its order.
    """
    frame, traced = inputs.frame, bool(inputs.records.traces)
    gpus = sorted(map(str, frame["gpu"].unique()))
    anchors = {name for name, _ in SECTIONS} | OWN
    noise = recorded.noise_of(inputs)
    drawn = gallery(inputs, anchors, most, noise.pictures if noise else ())
    named, missing = tables_of(inputs)
    tables = _tables([*named, *(noise.tables if noise else ())], anchors)
    anchors |= {"C-viz"} if traced else set()
    results = [one for gpu in gpus for one in results_of(frame, gpu)]
    judgements = judge(inputs)
    scripts = [_text(HERE / "assets" / name) for name in SCRIPTS]
    styles = [_text(HERE / "assets" / name) for name in STYLES]
    if traced:
        scripts.append(_text(STEPPER / "stepper.js"))
        styles.append(_text(STEPPER / "stepper.css"))
    context: dict[str, Any] = {
        "sections": SECTIONS,
        "policy": _policy(scripts),
        "styles": Markup("".join([*styles, f":root{{{declarations(drawn.colors)}}}"])),
        "scripts": [Markup(text) for text in scripts],
        "points": Markup(script_json(drawn.readings.data())),
        "steps": Markup(_text(STEPPER / "stepper.html")) if traced else "",
        "steps_data": Markup(script_json(stepper.stepper_data(inputs.records))) if traced else "",
        "devices": gpus[0] if len(gpus) == 1 else f"{', '.join(gpus[:-1])} and {gpus[-1]}",
        "gallery": drawn,
        "tables": tables | {"missing": missing},
        "claims": claims_of(judgements),
        "own": claims_of(judge_own(inputs)),
        "audit": audit_of(),
        "results": results,
        "statuses": [(card_of(gpu).name, statuses_of(frame, gpu)) for gpu in gpus],
        "standings": [standings_table(one) for one in results],
        "noise": noise,
        **recorded.context(inputs, named),
        **_check(inputs),
        "counters_missing": _counters_missing(inputs),
        "sources": by_source(anchors, judgements),
        "environment": reproduction.environment_table(frame),
        "protocol": reproduction.protocol_table(frame),
        "checkouts": reproduction.checkouts(frame),
        "worked": reproduction.worked_table(frame),
        "irregular": reproduction.irregular_table(frame),
    }
    return _templates(most).get_template("page.html").render(context)


def columns(table: Table) -> list[str]:
    """The class of each column: ``n`` of numbers, which stand to the right, ``s`` of short texts.

    Neither is broken into lines; the empty class may be.
    """
    return [_kind(column) for column in zip(*table.lines, strict=True)] or [""] * len(table.heads)


def folds(table: Table) -> bool:
    """Whether it takes more lines than a reader wants before they ask."""
    lines = (max(map(len, line), default=0) for line in table.lines)
    return sum(1 + length // WRAPS if length > SHORT else 1 for length in lines) > FOLDED


def ticks(text: str) -> Markup:
    """Text as it stands, what is `between backticks` as code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if i % 2 else escape(part)
        for i, part in enumerate(parts)
    )


def shortened(table: Table, most: int) -> Table:
    """A table of at most so many lines, with a note on the others."""
    lines = [table.lines[place] for place in evenly(len(table.lines), most)]
    if len(lines) == len(table.lines):
        return table
    note = f"{len(lines):,} of {len(table.lines):,} lines are shown; rows.jsonl has all."
    return replace(table, lines=lines, notes=[*table.notes, note])


def _tables(named: Sequence[NamedTable], anchors: set[str]) -> dict[str, list[dict[str, Any]]]:
    """The tables by section; ``anchors`` gains theirs."""
    sections: dict[str, list[dict[str, Any]]] = {name: [] for name in ("sourced", *PLACED.values())}
    for one in named:
        anchor = anchor_of(one.stem, f"table-{one.stem}", anchors)
        label = anchor if anchor in CONTENTS else ""
        title = one.table.title.removeprefix(f"{label}: ")
        entry = {"anchor": anchor, "label": label, "title": title, "table": one.table}
        place = next((PLACED[name] for name in PLACED if one.stem.startswith(name)), "sourced")
        sections[place].append(entry)
    return sections


def _check(inputs: Inputs) -> dict[str, Any]:
    """The roofline's check: points by verdict, and each point; nothing where none has a roof."""
    points = checked(inputs.frame, inputs.records)
    if points.empty:
        return {"check": None, "explained": ""}
    share = (points["verdict"] == "traffic").mean()
    text = f"Of {len(points):,} timed points, traffic explains {100 * share:.0f} % within 10 %."
    tables = {"summary": summary_table(points), "points": check_table(points)}
    return {"check": tables, "explained": text}


def _counters_missing(inputs: Inputs) -> str:
    """What hardware counters are missing, a sentence, or nothing."""
    seen = {record.gpu for record in inputs.records.counters}
    lacking = sorted(set(inputs.frame["gpu"]) - seen, key=variant_order)
    if not lacking:
        return ""
    names = ", ".join(lacking)
    return f"No hardware counters of {names}: make counters records some, on the GPU, with ncu."


def _kind(column: Sequence[str]) -> str:
    if any(column) and all(_NUMBER.fullmatch(cell) for cell in column):
        return "n"
    return "s" if max(map(len, column)) <= SHORT else ""


def _templates(most: int) -> Environment:
    templates = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.globals |= {"signs": SIGNS}
    templates.filters |= {
        "markup": Markup,
        "ticks": ticks,
        "columns": columns,
        "shortened": partial(shortened, most=most),
        "folds": folds,
        "shown": shown_of,
    }
    return templates


def _policy(scripts: list[str]) -> str:
    """What the browser may do: run these very scripts and use the page's own styles."""
    digests = (hashlib.sha256(text.encode()).digest() for text in scripts)
    hashes = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")
