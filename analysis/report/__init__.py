"""``report``: all figures, tables and claims of the rows as one self-contained HTML page.

The result comes first, then the sources with each claim beside its figure, then every operation,
then how it was measured. The page computes no number: all come from other commands.
"""

import argparse
import base64
import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from PIL import Image

from analysis import stepper
from analysis.__main__ import finish
from analysis.claims import audit, judge, judge_own
from analysis.claims.verdict import Judgement
from analysis.figures import FIGURES, Picture, pictures
from analysis.figures.lines import LineFigure
from analysis.figures.style import Figure, Page, slug, theme
from analysis.format import Table, visible
from analysis.load import Inputs, read_inputs, rows_hash
from analysis.published import OPERATION, sources
from analysis.tables import TABLES, tables_of
from experiments.data.cards import datasheet_of
from experiments.data.files import RowsError, read_json, write_file

HERE, STEPPER = Path(__file__).parent, Path(stepper.__file__).parent
FIRST = "headline"  # the picture and the table of the result
ALL_OPERATIONS = ("kernels", "operations")  # prefixes of names of tables that cover all operations
MOST_PICTURES = 80  # pictures on the page; if there are more, `figures` draws the rest
MOST_TABLE_LINES = 300  # lines that a table shows; its CSV has all
FOLDED = 12  # lines above which a table is folded
DPI, PALETTE, SCALE = 170, 48, 110  # of images: dots an inch, colours, CSS pixels an inch
DAYS = "recorded.json"  # beside recordings: the first and the last day of recording


@dataclass
class Exhibit:
    """The content under one heading: pictures and tables of one thing, and the claims about it."""

    title: str
    label: str = ""  # the source's own id, such as ``A-fig2``
    pictures: list[Mapping[str, Any]] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    claims: list[Sequence[Judgement]] = field(default_factory=list)  # of each claim, one per card
    missing: str = ""  # the rows that a picture needs, if it is not drawn


Exhibits = dict[tuple[str, str], dict[str, Exhibit]]  # by source or operation, then by heading


def run(options: argparse.Namespace) -> int:
    """Writes the page and prints its path."""
    inputs = read_inputs(options.rows, options.out, "report", options.ours)
    finish([write_file(inputs.out / "report.html", render(inputs))])
    return 0


def render(inputs: Inputs) -> str:
    """The whole HTML document, the same text for the same rows and code."""
    every = list(pictures(inputs))
    drawn, more = every[:MOST_PICTURES], len(every) - MOST_PICTURES
    needs = {one.id: one.needs for one in FIGURES if one not in {figure for figure, _ in every}}
    found, gpus = {name: tables_of(inputs, name) for name in TABLES}, [*inputs.by_gpu]
    lacking = [f"{name} needs {TABLES[name][0]}" for name in found if not found[name]]
    tables = {stem: table for one in found.values() for stem, table in one.items()}
    by_card = sorted(tables, key=lambda name: [slug(gpu) in name for gpu in gpus][::-1])
    tables = {name: tables[name] for name in by_card}
    lines, first = (tables.pop(name, None) for name in ("operations", FIRST))
    files = (HERE / "page.css", STEPPER / "stepper.css", HERE / "page.js", STEPPER / "stepper.js")
    *styles, script, other = (path.read_text(encoding="utf-8") for path in files)
    style, scripts = "".join(styles), [script, other]
    by_operation = {line[0]: line for line in lines.lines} if lines else {}
    claims = [*zip(*(judge(inputs, gpu) for gpu in gpus), strict=True)]
    own = filter(None, [judge_own(inputs, gpu) for gpu in gpus])
    exhibits = _exhibits(drawn, tables, [OPERATION, *by_operation], claims, needs)
    names = sorted(name for letter, name in exhibits if not letter)
    names.sort(key=[OPERATION, *by_operation, *names].index)  # as in the table of all operations
    context: dict[str, Any] = {
        "policy": _policy(style, scripts),
        "style": Markup(style),
        "scripts": list(map(Markup, scripts)),
        "opening": _opening(inputs),
        "headline": first,
        "every": lines,
        "lead": [_shown(*one) for one in drawn if one[0].id == FIRST],
        "sources": {at: (one, exhibits[at, ""].values()) for at, one in sources().items()},
        "audit": list(audit()),
        "labels": {label for own in exhibits.values() for label in own},
        "operations": [
            (name, by_operation.get(name, ()), [*exhibits["", name].values()]) for name in names
        ],
        "own": [*zip(*own, strict=True)],
        "gpus": gpus,
        "measured": [table for stem, table in tables.items() if stem.startswith(ALL_OPERATIONS)],
        "missing": [*[f"{more} more pictures"] * (more > 0), *needs.values(), *lacking],
        "steps": stepper.steps(stepper.example()),
        "step_input": stepper.example(),
        "step_heads": stepper.TABLE_HEADS,
    }
    templates = Environment(
        loader=FileSystemLoader([HERE, STEPPER]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.globals |= {"label_of": label_of, "most_lines": MOST_TABLE_LINES, "folded": FOLDED}
    templates.filters |= {"ticks": code_marks, "slug": slug, "digits": stepper.digits}
    templates.filters |= {"card": lambda gpu: datasheet_of(gpu).name}
    return templates.get_template("page.html").render(context)


def code_marks(text: str) -> Markup:
    """A sentence whose words between backticks are set as code."""
    return Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", str(escape(text))))


def label_of(stem: str) -> str:
    """The source's id of a figure or table: A-fig1 of ``a_fig1``; empty for our own."""
    found = re.fullmatch(r"([a-e])[_-](\w+)", stem.lower())
    return f"{found[1].upper()}-{found[2]}" if found else ""


def _exhibits(
    drawn: Sequence[Picture],
    tables: Mapping[str, Table],
    known: Sequence[str],
    claims: Sequence[Sequence[Judgement]],
    needs: Mapping[str, str],
) -> Exhibits:
    """The pictures, tables and claims of each source by label, and of each operation."""
    found: Exhibits = defaultdict(dict)

    def at(source: str, operation: str, label: str, title: str) -> Exhibit:
        return found[source, operation].setdefault(label or title, Exhibit(title, label))

    for figure, page in (one for one in drawn if one[0].id != FIRST):
        operation, label = ("", label_of(figure.id)) if figure.source else (page.operation, "")
        at(figure.source, operation, label, page.title).pictures.append(_shown(figure, page))
    by_length = sorted({*known, *(page.operation for _, page in drawn)}, key=len, reverse=True)
    for stem, table in (one for one in tables.items() if not one[0].startswith(ALL_OPERATIONS)):
        if label := label_of(stem):
            at(label[0], "", label, table.title.removeprefix(f"{label}: ")).tables.append(table)
        else:
            name = next((one for one in by_length if f"-{slug(one)}-" in f"{stem}-"), OPERATION)
            at("", name, "", f"Tables of {name}").tables.append(table)
    lacking = {label_of(name): text.partition(" needs ")[2] for name, text in needs.items()}
    for claim, *others in claims:
        label = label_of(claim.figure)
        label = label if label.startswith(claim.source) else ""  # none, or another source's
        title = "not drawn" if label else f"Claims of {claim.source} without a figure"
        exhibit = Exhibit(title, label, missing=lacking.get(label, "other rows") if label else "")
        found[claim.source, ""].setdefault(label, exhibit).claims.append((claim, *others))
    return found


def _shown(figure: Figure | LineFigure, page: Page) -> dict[str, Any]:
    """A picture as an image, without the texts that stand beside it on the page."""
    drawn, packed = BytesIO(), BytesIO()
    with matplotlib.rc_context(theme()):
        canvas = page.render(texts=False)
        canvas.savefig(drawn, format="png", dpi=DPI, bbox_inches="tight", pad_inches=0.06)
    image = Image.open(drawn).convert("RGB")
    image.quantize(PALETTE).convert("RGB").save(packed, "WEBP", lossless=True)
    uri = f"data:image/webp;base64,{base64.b64encode(packed.getvalue()).decode()}"
    width, height = (round(pixels * SCALE / DPI) for pixels in image.size)
    return {"page": page, "caption": figure.caption, "uri": uri, "width": width, "height": height}


def _opening(inputs: Inputs) -> dict[str, Any]:
    """The origin of the page: how many rows, of which cards, recorded when, by which code."""
    frame = inputs.frame
    commits = Counter(str(one["commit"])[:12] for one in frame["environment"] if one.get("commit"))
    counts = frame["status"].value_counts().items()
    folder = inputs.rows if inputs.rows.is_dir() else inputs.rows.parent
    try:
        read = read_json(folder / DAYS)
    except (RowsError, OSError):
        read = {}
    days = map(str, read.values() if isinstance(read, dict) else ())
    return {
        "rows": f"{len(frame):,}",
        "place": visible(str(inputs.rows), None),
        "days": sorted({day for day in days if re.fullmatch(r"\d{4}-\d\d-\d\d", day)}),
        "commits": [name for name, _ in commits.most_common()],
        "hash": rows_hash(frame),
        "statuses": [f"{count:,} {str(name).replace('_', ' ')}" for name, count in counts],
    }


def _policy(style: str, scripts: Sequence[str]) -> str:
    """The Content-Security-Policy: only these scripts, this style, and images in the page."""

    def digest(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    return (
        f"default-src 'none'; script-src {' '.join(map(digest, scripts))}; "
        f"style-src {digest(style)}; img-src data:; base-uri 'none'; form-action 'none'"
    )
