"""A table of text, and its Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "×": r"$\times$", "µ": r"$\mu$", "≤": r"$\le$", "≥": r"$\ge$", "→": r"$\to$",
    "·": r"$\cdot$", "—": "---", "–": "--", "<": r"$<$", ">": r"$>$", "\u2009": r"\,",
}  # fmt: skip


@dataclass(frozen=True)
class Table:
    """Cells of text under their heads.

    Attributes:
        title: What it tells.
        heads: One a column.
        lines: Cells, as many a line as there are heads.
        notes: What a reader must know, below it.
    """

    title: str
    heads: Sequence[str]
    lines: Sequence[Sequence[str]]
    notes: Sequence[str] = field(default=())

    def markdown(self) -> str:
        """A heading, the table, its notes."""
        rows = ["| " + " | ".join(map(_cell, line)) + " |" for line in (self.heads, *self.lines)]
        rows.insert(1, "|" + "---|" * len(self.heads))
        notes = "".join(f"\n{note}\n" for note in self.notes)
        return f"## {self.title}\n\n" + "\n".join(rows) + "\n" + notes

    def csv(self) -> str:
        """The cells alone."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([self.heads, *self.lines])
        return text.getvalue()

    def latex(self) -> str:
        """A ``table`` of its own; it needs booktabs."""
        body = [" & ".join(map(escape, line)) + r" \\" for line in self.lines]
        return "\n".join(
            [
                r"\begin{table}",
                rf"\caption{{{escape(' '.join([self.title + '.', *self.notes]))}}}",
                rf"\begin{{tabular}}{{{'l' * len(self.heads)}}}",
                r"\toprule",
                " & ".join(map(escape, self.heads)) + r" \\",
                r"\midrule",
                *body,
                r"\bottomrule",
                r"\end{tabular}",
                r"\end{table}",
                "",
            ]
        )

    def plain(self) -> str:
        """Columns in line, for a terminal: words left, numbers right."""
        lines = [self.heads, *self.lines]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.heads))]
        rows = [
            "  ".join(
                [line[0].ljust(widths[0])]
                + [cell.rjust(w) for cell, w in zip(line[1:], widths[1:], strict=True)]
            ).rstrip()
            for line in lines
        ]
        return "\n".join([self.title, *rows])


def escape(text: str) -> str:
    """Text as LaTeX sets it."""
    return "".join(_LATEX.get(letter, letter) for letter in text)


def thousands(value: float) -> str:
    """A whole number with its thousands apart."""
    return f"{value:,.0f}"


def write(path: Path, text: str) -> Path:
    """Writes a text file, with the folders it needs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
