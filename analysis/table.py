"""A table of text, and its Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from analysis.typeset import Cell, escape, latex_of, markdown_of, plain

__all__ = ["Cell", "Table", "escape", "thousands", "write"]

_NUMBER = re.compile(r"[-+~<>≤≥]?\d[\d,.]*(?:$|[ %–×(±])")
_EMPTY = ("", "–", "—")
WIDE = 6  # columns that fit a line of LaTeX as they are


@dataclass(frozen=True)
class Table:
    """Cells of text under their heads.

    Attributes:
        title: What it tells.
        heads: One a column.
        lines: Cells, as many a line as there are heads; a `Cell` is set in a way of its own.
        notes: What a reader must know, below it.
    """

    title: str
    heads: Sequence[str]
    lines: Sequence[Sequence[str]]
    notes: Sequence[str] = field(default=())

    @property
    def numeric(self) -> list[bool]:
        """Which columns hold numbers, and stand to the right."""
        return [self._is_number(column) for column in range(len(self.heads))]

    def markdown(self) -> str:
        """A heading, the table, its notes."""
        lines = [self.heads, *self.lines]
        rows = ["| " + " | ".join(map(markdown_of, line)) + " |" for line in lines]
        rows.insert(1, "|" + "|".join("---:" if n else "---" for n in self.numeric) + "|")
        notes = "".join(f"\n{markdown_of(note, cell=False)}\n" for note in self.notes)
        return f"## {markdown_of(self.title)}\n\n" + "\n".join(rows) + "\n" + notes

    def csv(self) -> str:
        """The cells alone."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(self._plain())
        return text.getvalue()

    def latex(self) -> str:
        """A ``table`` of its own, no wider than a line; it needs booktabs and graphicx."""
        body = [" & ".join(map(latex_of, line)) + r" \\" for line in self.lines]
        wide = len(self.heads) > WIDE
        columns = "".join("r" if number else "l" for number in self.numeric)
        return "\n".join(
            [
                r"\begin{table}",
                rf"\caption{{{' '.join(map(latex_of, [self.title + '.', *self.notes]))}}}",
                r"\resizebox{\linewidth}{!}{%" if wide else r"{%",
                rf"\begin{{tabular}}{{{columns}}}",
                r"\toprule",
                " & ".join(map(latex_of, self.heads)) + r" \\",
                r"\midrule",
                *body,
                r"\bottomrule",
                r"\end{tabular}}",
                r"\end{table}",
                "",
            ]
        )

    def plain(self) -> str:
        """Columns in line, for a terminal: words left, numbers right."""
        lines = self._plain()
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.heads))]
        rows = [
            "  ".join(
                [line[0].ljust(widths[0])]
                + [cell.rjust(w) for cell, w in zip(line[1:], widths[1:], strict=True)]
            ).rstrip()
            for line in lines
        ]
        return "\n".join([plain(self.title), *rows])

    def _plain(self) -> list[list[str]]:
        return [[plain(cell) for cell in line] for line in (self.heads, *self.lines)]

    def _is_number(self, column: int) -> bool:
        told = [line[column] for line in self.lines if line[column] not in _EMPTY]
        return sum(_NUMBER.match(cell) is not None for cell in told) > len(told) / 2


def thousands(value: float) -> str:
    """A whole number with its thousands apart."""
    return f"{value:,.0f}"


def write(path: Path, text: str) -> Path:
    """Writes a text file, with the folders it needs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path
