"""A page made of some rows, read back as a browser's parser would read it."""

from __future__ import annotations

from collections.abc import Iterable
from html.parser import HTMLParser
from pathlib import Path

from analysis.load import read_inputs
from analysis.report import page
from experiments.data.rows import Row
from tests.analysis.plausible import write

EMPTY = {"meta", "img", "input", "br", "hr", "link"}  # tags that nothing ends


class Read(HTMLParser):
    """What a page holds.

    Attributes:
        tags: Every element's name and attributes, in order.
        headings: The texts of its headings.
        scripts: The texts of its scripts, and ``styles`` those of its styles.
    """

    def __init__(self, text: str) -> None:
        """Reads a whole page."""
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.headings: list[str] = []
        self.scripts: list[str] = []
        self.styles: list[str] = []
        self._open: list[tuple[str, str]] = []
        self._texts: list[tuple[str, tuple[str, ...]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keeps the element, and opens it."""
        given = {name: value or "" for name, value in attrs}
        self.tags.append((tag, given))
        if tag not in EMPTY:
            self._open.append((tag, given.get("id", "")))
        if tag in ("h1", "h2", "h3", "h4"):
            self.headings.append("")

    def handle_endtag(self, tag: str) -> None:
        """Closes the element."""
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        """Keeps the text under the elements that are open."""
        names = {tag for tag, _ in self._open}
        if names & {"script", "style"}:
            (self.scripts if "script" in names else self.styles).append(data)
            return
        if names & {"h1", "h2", "h3", "h4"}:
            self.headings[-1] += data
        self._texts.append((data, tuple(name for _, name in self._open)))

    def text(self, within: str = "") -> str:
        """The text of the page, or of the element with an id, on one line."""
        texts = [text for text, ids in self._texts if not within or within in ids]
        return " ".join(" ".join(texts).split())

    def all(self, attribute: str) -> list[str]:
        """Every value of an attribute."""
        return [given[attribute] for _, given in self.tags if attribute in given]


def read(rows: Iterable[Row], folder: Path) -> Read:
    """The page of these rows."""
    return Read(page(read_inputs(write(folder, rows), None, "report")))
