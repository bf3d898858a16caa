"""The report: its numbers are those of the points, and it says what rows do not tell."""

import base64
import hashlib
import re
from collections.abc import Iterable
from copy import deepcopy
from html.parser import HTMLParser
from pathlib import Path
from xml.etree.ElementTree import TreeBuilder

import pytest

from analysis.__main__ import main
from analysis.load import Inputs, read_inputs
from analysis.points import ROOF, geomean
from analysis.published import sources
from analysis.report import render
from analysis.tables import tables_of
from experiments.data.rows import Row
from tests.analysis.plausible import interpreted, paper, point, row, unsupported, write
from tests.analysis.records import count, h200, record_files, trace

MARKUP = (
    "</script><script>window.taken=1</script>{{ 7 * 7 }}<img src='https://example.invalid/x' "
    'onerror="window.taken=2">{% set x = 1 %}<!--'
)

EMPTY = {"meta", "img", "input"}  # the page's tags that nothing ends


class Read(HTMLParser):
    """A page as a browser's parser would read it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._tree = TreeBuilder()
        self.feed(text)
        self.elements = [*self._tree.close().iter()]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._tree.start(tag, {name: value or "" for name, value in attrs})
        if tag in EMPTY:
            self._tree.end(tag)

    def handle_endtag(self, tag: str) -> None:
        self._tree.end(tag)

    def handle_data(self, data: str) -> None:
        self._tree.data(data)

    def inside(self, *tags: str) -> list[str]:
        """The text of each element of these names."""
        return ["".join(one.itertext()) for one in self.elements if one.tag in tags]

    def text(self, within: str = "") -> str:
        """What a reader sees, of the page or of the element with an id, on one line."""
        shown = deepcopy(next(one for one in self.elements if one.get("id", "") == within))
        for one in (*shown.iter("script"), *shown.iter("style")):
            one.text = None
        return " ".join(" ".join(shown.itertext()).split())

    def all(self, attribute: str) -> list[str]:
        """Every value of an attribute."""
        return [one.attrib[attribute] for one in self.elements if attribute in one.attrib]


def read(rows: Iterable[Row], folder: Path) -> Read:
    """The page of these rows."""
    return Read(render(read_inputs(write(folder, rows), None, "report")))


def sound(found: Read) -> None:
    """Each heading and id is there once, and each link leads to one of them or to a source."""
    headings, ids = found.inside("h1", "h2", "h3", "h4"), found.all("id")
    assert len(headings) == len(set(headings)), headings
    assert len(ids) == len(set(ids)), ids
    assert {at[1:] for at in found.all("href") if at.startswith("#")} <= set(ids)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Inputs, Read]:
    """One page of everything: rows of the sources, limits, and records."""
    folder = tmp_path_factory.mktemp("rows")
    ours = {"auto": 66.0, "torch": 100.0, "quack": 70.0, "copy": 65.0}
    rows = [*paper(), *point(8192, **ours), *point(131072, **{k: 16 * ours[k] for k in ours})]
    write(folder / "card" / "one", rows)
    card = {"gpu": "NVIDIA H100 80GB HBM3", "sweep": "other"}
    write(folder / "other" / "one", [one.model_copy(update=card) for one in paper([256, 4096])])
    record_files(folder, counts=[count("online"), count("naive")], counters=h200())
    record_files(folder, traces=[trace("naive"), trace("fused"), trace("online")])
    days = '{"first": "2026-11-23", "last": "2026-11-24", "b": "<b>", "c": 7}'
    (folder / "recorded.json").write_text(days)
    assert main(["report", "--rows", str(folder), "--out", str(folder / "out")]) == 0
    text = (folder / "out" / "report.html").read_text(encoding="utf-8")
    return read_inputs(folder, None, "report"), Read(text)


def test_the_result_is_the_mean_of_the_points_in_every_digit(made: tuple[Inputs, Read]) -> None:
    inputs, found = made
    every = (inputs.ratios("softmax", over) for over in ("peers", ROOF))
    mean, copy = (geomean(one[one["large"] & one["tuned"]]) for one in every)
    assert mean
    assert copy
    text = found.text("result")
    assert f"Our softmax is {mean.value:.2f} times as fast as the fastest public" in text
    assert f"{100 * min(copy.value, 1):.1f} % of the speed of a plain copy" in text
    for name in ("headline", "operations"):
        for line in (table := tables_of(inputs, name)[name]).lines:
            assert " ".join(line) in text, line
    line = dict(zip(table.heads, table.lines[0], strict=True))
    assert f"{line['speed / fastest public']} times as fast" in found.text("operations")


def test_it_says_which_rows_it_is_of_and_sources_have_figures_and_claims(
    made: tuple[Inputs, Read],
) -> None:
    inputs, found = made
    sound(found)
    opening = found.text()[: found.text().index("The result")]
    rows = f"{len(inputs.frame)} rows of NVIDIA H200, NVIDIA H100 SXM"
    days = "recorded 2026-11-23 to 2026-11-24 ,"
    for words in (rows, days, "by commit 0123456789ab", str(inputs.rows)):
        assert words in opening, words
    assert {"A-fig2", "D-fig1", "C-viz", "A4", "B2", "D2", "E1"} <= set(found.all("id"))
    assert "4× faster" in found.text("A4")
    # each claim once, with each card's verdict; the table of sources counts the first card's
    word = "(?:not )?(?:reproduced|measured)|undecided|contradicted"
    assert re.search(f"({word}) NVIDIA H200 . ({word}) NVIDIA H100 SXM", found.text("A4"))
    of_a = re.findall(rf"(\d+) (?:{word})", found.text("sources").partition("B Online")[0])
    assert sum(map(int, of_a)) == len([one for one in found.all("id") if re.match(r"A\d", one)])


@pytest.mark.parametrize(
    ("rows", "sentences"),
    [
        ([interpreted(k, n) for k in ("online", "naive", "copy") for n in (32, 64)],
         ["they say nothing about which is faster", "of A CPU"]),
        ([unsupported("fused", 65536)],
         ["1 row of NVIDIA H200", "Of them 1 unsupported", "nothing about which is faster"]),
        ([row("online", n, gpu=gpu) for gpu in ("Card <1>", "NVIDIA H200") for n in (32, 64)],
         ["4 rows of Card <1>, NVIDIA H200", "not measured", "These rows judge none"]),
    ],
)  # fmt: skip
def test_rows_that_tell_little_make_a_page_that_says_so(
    rows: list[Row], sentences: list[str], tmp_path: Path
) -> None:
    found = read(rows, tmp_path)
    for sentence in sentences:
        assert sentence in found.text(), sentence
    assert "Not drawn from these rows:" in found.text("sources")
    assert not re.findall(r"\b(?:nan|NaN)\b", found.text())
    sound(found)


def test_nothing_that_rows_hold_becomes_markup_or_may_run(tmp_path: Path) -> None:
    environment = {"torch": MARKUP, "commit": "javascript:taken()", "python": {"<b>": [MARKUP]}}
    alike = {"gpu": f"Card {MARKUP}", "environment": environment, "sweep": MARKUP, "roof": MARKUP}
    rows = [r.model_copy(update=alike) for r in paper([256, 4096])]
    rows += [row(f"a{MARKUP}", n, params={"<i>": MARKUP}, key=MARKUP, **alike) for n in (256, 512)]
    refused = unsupported("fused", 8192).model_copy(update=alike | {"reason": MARKUP})
    rows += [row("x", 256, **alike | {"operation": MARKUP}), refused]
    found = read(rows, tmp_path)
    assert "<script>window.taken=1</script>" in found.text()
    assert "{{ 7 * 7 }}" in found.text()
    (policy,) = (one.attrib["content"] for one in found.elements if "http-equiv" in one.attrib)
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for text in found.inside("script", "style"):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
        assert not re.findall(r"window.taken|@import|url\(", text)
    for one in found.elements:
        assert not [name for name in one.attrib if name.startswith("on") or name == "style"]
        assert one.tag not in ("iframe", "object", "base", "form", "link")
    assert all(source.startswith("data:image/webp;base64,") for source in found.all("src"))
    outside = {at for at in found.all("href") if not at.startswith("#")}
    assert outside == {source.url for source in sources().values()}
