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

from analysis.format import Table
from analysis.load import Inputs
from analysis.report import sections
from analysis.report.colors import declarations
from analysis.report.contents import by_source
from analysis.report.figures import evenly, gallery
from analysis.report.judged import audit_of, claims_of
from analysis.report.parts import PARTS, sign, tone
from analysis.report.reading import script_json
from analysis.report.reproduction import reproduction
from analysis.report.results import results_of
from analysis.report.single import PROFILE, irregular_table, worked_table

HERE = Path(__file__).parent
SCRIPTS = ("theme.js", "points.js")
STYLES = ("page.css", "parts.css", "figures.css", "media.css")
OWN = {"C-prof", "D-test"}  # ids whose place is always there, with rows or without
SHORT = 17  # letters of a cell that is kept on one line
MOST = 5000  # points of a figure and lines of a table; a page of more is slow to open
_NUMBER = re.compile(r"([−+-]?[\d,]*\.?\d+(e[+-]?\d+)? ?(%|×)?)?")


def page(material: Inputs, most: int = MOST) -> str:
    """The whole HTML document, the same text for the same rows and code.

    Of many rows it leaves points out, and says so where it does: ``most`` of them stand in a
    figure or table, evenly spaced in its order.
    """
    anchors = {part.id for part in PARTS} | OWN
    drawn = gallery(material, anchors, most)
    told = sections.tables(material, anchors)
    steps = sections.steps(material)
    anchors |= {"C-viz"} if steps else set()
    results = [results_of(material.frame, gpu) for gpu in sorted(material.frame["gpu"].unique())]
    found = sections.check(material)
    standings = [sections.standings_table(one) for one in results]
    scripts = [_asset(name) for name in SCRIPTS] + ([steps.script] if steps else [])
    colors = {color for shown in drawn.shown for color in shown.drawing.colors}
    styles = [
        *map(_asset, STYLES),
        steps.style if steps else "",
        f":root{{{declarations(colors)}}}",
    ]
    context: dict[str, Any] = {
        "parts": PARTS,
        "policy": _policy(scripts),
        "styles": Markup("".join(styles)),
        "scripts": [Markup(text) for text in scripts],
        "points": Markup(script_json(drawn.readings.data())),
        "steps": steps,
        "steps_data": Markup(script_json(steps.data)) if steps else "",
        "devices": sections.devices(material.frame),
        "gallery": drawn,
        "tables": told,
        "claims": claims_of(material),
        "audit": audit_of(),
        "results": results,
        "standings": [table for table in standings if table],
        "check": found,
        "explained": found.explained if found else "",
        "counters_missing": sections.counters_missing(material),
        "sources": by_source(anchors),
        "reproduction": reproduction(material),
        "profile": PROFILE,
        "worked": worked_table(material),
        "irregular": irregular_table(material),
    }
    return _templates(most).get_template("page.html").render(context)


def columns(table: Table) -> list[str]:
    """The class of each column: ``n`` of numbers, which stand to the right, ``s`` of short texts.

    Neither is broken into lines; the empty class may be.
    """
    return [_kind(column) for column in zip(*table.lines, strict=True)] or [""] * len(table.heads)


def _kind(column: Sequence[str]) -> str:
    if any(column) and all(_NUMBER.fullmatch(cell) for cell in column):
        return "n"
    return "s" if max(map(len, column)) <= SHORT else ""


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


def _templates(most: int) -> Environment:
    templates = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {
        "markup": Markup,
        "ticks": ticks,
        "tone": tone,
        "sign": sign,
        "columns": columns,
        "shortened": partial(shortened, most=most),
    }
    return templates


def _policy(scripts: list[str]) -> str:
    """What the browser may do: run these very scripts, use the page's own styles, and no more."""
    hashes = " ".join(f"'sha256-{_digest(text)}'" for text in scripts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _asset(name: str) -> str:
    return (HERE / "assets" / name).read_text(encoding="utf-8")
