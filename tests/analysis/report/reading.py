"""A page made of some rows, read back as a browser's parser would read it."""

from __future__ import annotations

from collections.abc import Iterable
from html.parser import HTMLParser
from pathlib import Path

from analysis.load import read_inputs
from analysis.report import page
from experiments.data.rows import Row
from tests.analysis.plausible import write

EMPTY = {"meta", "img", "input"}  # the page's tags that nothing ends


class Read(HTMLParser):
    """A page's elements (name and attributes), and its texts under the elements around them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self._open: list[int] = []
        self._texts: list[tuple[str, tuple[int, ...]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in EMPTY:
            self._open.append(len(self.tags) - 1)

    def handle_endtag(self, tag: str) -> None:
        while self._open and self.tags[self._open.pop()][0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        self._texts.append((data, tuple(self._open)))

    def inside(self, *tags: str) -> list[str]:
        """The text of each element of these names."""
        places = [i for i, (tag, _) in enumerate(self.tags) if tag in tags]
        return ["".join(text for text, around in self._texts if i in around) for i in places]

    def text(self, within: str = "") -> str:
        """What a reader sees, of the page or of the element with an id, on one line."""
        hidden = {i for i, (tag, _) in enumerate(self.tags) if tag in ("script", "style")}
        texts = [
            text for text, around in self._texts
            if not hidden & {*around}
            and (not within or within in {self.tags[i][1].get("id") for i in around})
        ]  # fmt: skip
        return " ".join(" ".join(texts).split())

    def all(self, attribute: str) -> list[str]:
        """Every value of an attribute."""
        return [given[attribute] for _, given in self.tags if attribute in given]


def read(rows: Iterable[Row], folder: Path) -> Read:
    """The page of these rows."""
    return Read(page(read_inputs(write(folder, rows), None, "report")))


def sound(found: Read) -> None:
    """Each heading and id is there once, and each link leads to one of them or to a source."""
    headings, ids = found.inside("h1", "h2", "h3", "h4"), found.all("id")
    assert len(headings) == len(set(headings)), headings
    assert len(ids) == len(set(ids)), ids
    assert {at[1:] for at in found.all("href") if at.startswith("#")} <= set(ids)
