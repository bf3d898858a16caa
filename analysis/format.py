"""Tables as Markdown, CSV and terminal output, and the text that goes into them.

The formatter is our own: whatever a row's text holds must stay text in all three formats, and
neither tabulate nor pandas' Styler escapes for more than one of them.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from experiments.data.files import write_file

NOTES = yaml.safe_load(Path(__file__).with_name("notes.yaml").read_text(encoding="utf-8"))
LONGEST_NAME = 80  # characters kept of a name; a file's name can have 255 bytes
LONGEST_TEXT = 400  # characters kept of a sentence

_NO_NUMBER = ("", "–", "—", "·")
_NUMBER = re.compile(r"[-+~<>≤≥]?\d[\d,.]*(?:$|[ %–×(±])")
# a spreadsheet runs a cell that begins with one of these (the last four are full-width)
_FORMULA = tuple("=+-@＝＋－＠")
_SIGNED = r"[-+]?\d[\d,]*(?:\.\d*)?(?:e[-+]?\d+)?"
_SPREADSHEET_NUMBER = re.compile(rf"{_SIGNED}(?: to {_SIGNED})?(?: ?[%×])?")


class Cell(str):
    """A cell's text: bold if ``strong``; if ``link`` is set, it leads to that trusted address."""

    strong: bool
    link: str

    def __new__(cls, text: str, strong: bool = False, link: str = "") -> Cell:
        """The text, and how it is set."""
        cell = super().__new__(cls, text)
        cell.strong, cell.link = strong, link
        return cell


@dataclass(frozen=True)
class Table:
    """Cells of text under the names of their columns."""

    title: str
    heads: Sequence[str]
    lines: Sequence[Sequence[str]]
    notes: Sequence[str] = field(default=())  # sentences below the table
    data: pd.DataFrame | None = None  # for machines: what the CSV holds, by default the cells

    @property
    def numeric(self) -> list[bool]:
        """Which columns hold more numbers than texts; those are aligned to the right."""
        columns = [[line[i] for line in self.lines] for i in range(len(self.heads))]
        filled = [[cell for cell in column if cell not in _NO_NUMBER] for column in columns]
        return [2 * sum(map(bool, map(_NUMBER.match, cells))) > len(cells) for cells in filled]

    def markdown(self) -> str:
        """A heading, the table, its notes."""
        lines = [self.heads, *self.lines]
        rows = ["| " + " | ".join(map(markdown_of, line)) + " |" for line in lines]
        rows.insert(1, "|" + "|".join("---:" if n else "---" for n in self.numeric) + "|")
        notes = "".join(f"\n{markdown_of(note, cell=False)}\n" for note in self.notes)
        return f"## {markdown_of(self.title)}\n\n" + "\n".join(rows) + "\n" + notes

    def csv(self) -> str:
        """The numbers of ``data``, else the cells; safe to open in a spreadsheet (`csv_of`)."""
        known = pd.DataFrame(self.lines, columns=list(self.heads), dtype=object)
        data = known if self.data is None else self.data.astype(object)
        cells = data.map(lambda value: csv_of(_text(value, exact=True)))
        return cells.rename(columns=csv_of).to_csv(index=False, lineterminator="\n")

    def plain(self) -> str:
        """Aligned columns for a terminal: the first to the left, the others to the right."""
        lines = [[visible(cell, None) for cell in line] for line in (self.heads, *self.lines)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        form = "  ".join([f"{{:<{widths[0]}}}", *(f"{{:>{width}}}" for width in widths[1:])])
        return "\n".join([visible(self.title, None), *(form.format(*x).rstrip() for x in lines)])


Named = Iterator[tuple[str, Table]]  # the names of files without suffix, and their tables


def write_table(out: Path, stem: str, table: Table) -> list[Path]:
    """Writes ``<stem>.md`` and ``<stem>.csv`` into a folder; returns both paths."""
    texts = {"md": table.markdown(), "csv": table.csv()}
    return [write_file(out / f"{stem}.{kind}", text) for kind, text in texts.items()]


def texts(name: str, **facts: Any) -> list[str]:
    """The sentences below a table, from ``notes.yaml``, filled with facts."""
    return [one.format(**facts) for one in NOTES[name]]


def table(
    title: str, frame: pd.DataFrame, notes: Sequence[str] = (), data: pd.DataFrame | None = None
) -> Table:
    """A frame as a table that leaves out the columns of `BEHIND`; the CSV has them."""
    shown = frame.drop(columns=[*BEHIND], errors="ignore")
    lines = [list(map(_text, line)) for line in shown.to_numpy(object)]
    return Table(title, list(map(str, shown)), lines, notes, frame if data is None else data)


def keys_of(frame: pd.DataFrame, labels: Iterable[int]) -> tuple[str, str]:
    """The keys and the recordings of the rows with these labels, as a CSV names them.

    ``python -m analysis trace`` finds the rows by both.
    """
    rows = list(labels)
    return joined(frame["key"].loc[rows]), joined(frame["recording"].loc[rows])


def joined(values: Iterable[str]) -> str:
    """The distinct texts, sorted, as one cell of a CSV."""
    return " ".join(sorted(set(values)))


BEHIND = {"keys": ("key", joined), "recordings": ("recording", joined)}  # for ``groupby(…).agg``


def csv_of(text: str) -> str:
    """A cell of a CSV; a formula, which a spreadsheet would run, gets a leading apostrophe.

    Source: OWASP, CSV Injection.
    """
    cell = visible(text, None)
    formula = cell.lstrip().startswith(_FORMULA) and not _SPREADSHEET_NUMBER.fullmatch(cell)
    return f"'{cell}" if formula else cell


def markdown_of(text: str, cell: bool = True) -> str:
    """A cell as Markdown, or with ``cell=False`` a paragraph, in which ``|`` is no border."""
    # a row's links and tags are escaped; in a paragraph, backticks may mark code
    safe = re.sub(r"[\\`*]|\](?=\()" if cell else r"\\|\](?=\()", r"\\\g<0>", visible(text, None))
    safe = re.sub(r"&(?=#?\w+;)", "&amp;", safe).replace("<", "&lt;")
    if cell:
        safe = safe.replace("|", "\\|")
    if isinstance(text, Cell) and text.link:
        safe = f"[{safe}]({text.link})"
    return f"**{safe}**" if isinstance(text, Cell) and text.strong else safe


@lru_cache(maxsize=2**14)  # rows repeat the same texts
def visible(text: str, longest: int | None = LONGEST_TEXT) -> str:
    """Text from a file as one line of printable characters: escape sequences are disarmed.

    A longer text is cut to ``longest`` characters, of which the last are a hash of all of it.
    """
    if not text.isprintable():
        letters = " ".join(text.split())
        text = "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in letters)
    if longest is None or len(text) <= longest:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{text[: longest - 10]}… {digest}"


def shown(value: Any) -> Any:
    """A JSON value with all its texts made `visible`, line by line."""
    if isinstance(value, str):
        return "\n".join(visible(line) for line in value.split("\n"))
    if isinstance(value, list):
        return [shown(one) for one in value]
    if isinstance(value, dict):
        return {visible(str(name), LONGEST_NAME): shown(one) for name, one in value.items()}
    return value


def number_text(value: float | None, digits: int | None = None) -> str:
    """A number with ``digits`` decimals, or three significant figures: 1,234 or 56.7."""
    if value is None or not math.isfinite(value):
        return "–"
    if digits is None:
        digits = 2 - (math.floor(math.log10(abs(value))) if value else 0)
    return f"{value:,.{min(max(digits, 0), 9)}f}"


def _text(value: Any, exact: bool = False) -> str:
    """A cell's text; with ``exact`` as the CSV has it."""
    if isinstance(value, bool | np.bool_):
        return str(bool(value)).lower() if exact else "yes" if value else "no"
    if isinstance(value, float) and exact:
        return "" if math.isnan(value) else f"{value:.6g}"
    if isinstance(value, float):
        return f"{value:.2e}" if 0 < abs(value) < 1e-3 else number_text(value)
    text = value if isinstance(value, str) else "" if value is None else str(value)
    return text or "–" * (not exact)
