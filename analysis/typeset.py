"""A cell's text, as Markdown and LaTeX set it: whatever it holds, it stays text."""

from __future__ import annotations

import re
import unicodedata

from analysis.visible import visible

_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "×": r"$\times$", "µ": r"$\mu$", "μ": r"$\mu$", "≤": r"$\le$", "≥": r"$\ge$", "≠": r"$\ne$",
    "≈": r"$\approx$", "→": r"$\to$", "·": r"$\cdot$", "−": "$-$", "±": r"$\pm$", "∞": r"$\infty$",
    "√": r"$\surd$", "‖": r"$\Vert$", "Σ": r"$\Sigma$", "—": "---", "–": "--", "…": r"\ldots{}",
    "<": r"$<$", ">": r"$>$", "|": r"$|$", "\"": r"\textquotedbl{}", "°": r"$^{\circ}$",
    "′": r"$'$", "‘": "`", "’": "'", "“": "``", "”": "''", "\u00a0": "~", "\u2009": r"\,",
    "\N{REPLACEMENT CHARACTER}": "?",
    **{digit: f"$^{{{n}}}$" for n, digit in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")},
    **{digit: f"$_{{{n}}}$" for n, digit in enumerate("₀₁₂₃₄₅₆₇₈₉")},
}  # fmt: skip
_ASCII = 128


class Cell(str):
    """Plain text that LaTeX sets otherwise, or that stands out.

    Attributes:
        latex: The whole cell in LaTeX, taken as it is; None sets the text.
        strong: Whether it is set in bold.
    """

    latex: str | None
    strong: bool

    def __new__(cls, text: str, latex: str | None = None, strong: bool = False) -> Cell:
        """Makes the text, then says how it is set."""
        cell = super().__new__(cls, text)
        cell.latex, cell.strong = latex, strong
        return cell


def plain(text: str) -> str:
    """The text on one line, without letters that a terminal would obey."""
    return visible(text, len(text))


def escape(text: str) -> str:
    """Text as LaTeX sets it."""
    return "".join(map(_letter, plain(text)))


def latex_of(text: str) -> str:
    """A cell as LaTeX."""
    if not isinstance(text, Cell):
        # after a line's end LaTeX takes these two for its own
        return ("{}" if text[:1] in ("[", "*") else "") + escape(text)
    told = escape(text) if text.latex is None else text.latex
    return rf"\textbf{{{told}}}" if text.strong else told


def markdown_of(text: str, cell: bool = True) -> str:
    """A cell as Markdown; with ``cell=False`` a paragraph, where a bar is no border."""
    # a link or a tag that a row holds stays text; in a paragraph, words may be set as code
    told = re.sub(r"[\\`*]|\](?=\()" if cell else r"\\|\](?=\()", r"\\\g<0>", plain(text))
    told = re.sub(r"&(?=#?\w+;)", "&amp;", told).replace("<", "&lt;")
    if cell:
        told = told.replace("|", "\\|")
    return f"**{told}**" if isinstance(text, Cell) and text.strong else told


def _letter(letter: str) -> str:
    if letter in _LATEX or ord(letter) < _ASCII:
        return _LATEX.get(letter, letter)
    # what a plain LaTeX has no glyph for must not stop it
    if unicodedata.category(letter)[0] == "L" and ord(letter) < 0x180:
        return letter
    return "?"
