"""The report as a file: whole, alone, the same twice, and honest about what it lacks."""

from __future__ import annotations

import html
import json
import re
import shutil
import tarfile
from pathlib import Path

import pytest

from analysis.__main__ import main
from analysis.figures.style import slug
from analysis.load import read_inputs
from analysis.published import sources
from analysis.report.contents import CONTENTS
from analysis.report.page import page
from experiments.data.rows import Row
from tests.analysis.limit_rows import limits
from tests.analysis.noisy import twins
from tests.analysis.plausible import interpreted, paper, row, write
from tests.analysis.records import count, h200, record_files, trace
from tests.conftest import ROOT


class Read:
    """What a page holds: ids, addresses, and its text without scripts and styles."""

    def __init__(self, page: str) -> None:
        bare = re.sub(r"(?s)<(script|style)\b.*?</\1>", " ", page)
        self.ids = re.findall(r'\bid="([^"]*)"', bare)
        self.addresses = re.findall(r'\b(?:href|src)="([^"]*)"', bare)
        self.text = " ".join(html.unescape(re.sub(r"<[^>]*>", " ", bare)).split())


def report(folder: Path, rows: list[Row], where: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The page of these rows; ``where`` decides which counts are found beside them."""
    monkeypatch.chdir(where)
    write(folder, rows)
    assert main(["report", "--rows", str(folder), "--out", str(folder / "out")]) == 0
    made = [path for path in (folder / "out").iterdir() if path.suffix != ".json"]  # a manifest
    assert [path.name for path in made] == ["report.html"]
    return (folder / "out" / "report.html").read_text(encoding="utf-8")


def test_what_is_missing_is_named_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    rows = [interpreted(k, n) for k in ("online", "naive", "copy") for n in (256, 1024)]
    rows.append(interpreted("fused", 65536, status="unsupported", reason="too wide"))
    text = Read(report(tmp_path / "rows", rows, elsewhere, monkeypatch)).text
    for sentence in (
        "No speed on A CPU",
        "1 unsupported",
        "The stepper needs recorded traces",
        "a_fig2 needs timed softmax rows",
        "a_fig1 needs traces of naive and fused",
        "traffic needs counts.jsonl or counters.jsonl",
        "The check needs timed rows and those of their roof",
        "No hardware counters of A CPU",
        "No row was timed at C's worked point",
        "No row has the shape 1823×781",
        "No row has a time, so nothing here describes speed",
    ):
        assert sentence in text, sentence


def test_one_file_has_every_id_of_the_sources_both_gpus_and_why_points_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_files(tmp_path, counters=h200())
    other = [r.model_copy(update={"gpu": "Card of Tomorrow", "key": f"t{r.key}"})
             for r in paper([256, 4096])]  # fmt: skip
    failed = row("torch", 16384, status="timeout", reason="took longer than 600 s", time_us=None)
    never = [row("online", n, status="crashed", reason="worker died") for n in (256, 16384)]
    rows = [r for r in paper() if (r.kernel, r.cols) != ("torch", 16384) and r.kernel != "online"]
    page = report(tmp_path, [*rows, failed, *never, *other], ROOT, monkeypatch)
    read = Read(page)
    assert len(read.ids) == len(set(read.ids))
    absent = {one for one in CONTENTS if one not in read.ids}
    assert absent == {"A-tab1", "B-tab1", "C-fig1", "C-fig2"}
    assert all(f"{one.lower().replace('-', '_')} needs" in read.text for one in absent)
    # it loads nothing, and leads elsewhere to the sources alone
    outside = {address for address in read.addresses if not address.startswith("#")}
    assert outside == {source.url for source in sources().values()}
    assert {address[1:] for address in read.addresses if address not in outside} <= set(read.ids)
    assert not re.findall(r"@import|url\((?!#)", page)
    assert "default-src &#39;none&#39;" in page
    assert "figure-a_fig2-nvidia-h200" in read.ids
    for gpu in ("NVIDIA H200", "Card of Tomorrow"):  # one has no datasheet
        assert re.search(f"On {gpu}, \\S+ reaches [0-9.]+ % of the copy roof", read.text)
    # every claim says what its number is of, and what the source's words are
    assert "Triton is approximately 4x faster" in read.text
    assert "elements requested, over 2MN: 1 over" in read.text
    assert not re.findall(r"\{[\"']", read.text)  # no dictionary as it is
    assert "2 crashed" in read.text
    wide, narrow = (
        Read(page[page.index(f'id="figure-{name}-nvidia-h200"') :].partition("</figure>")[0]).text
        for name in ("a_fig2", "d_fig1")
    )
    assert "torch at 4096×16384 float32: timeout, took longer than 600 s" in wide
    assert "online at 4096×256 float32: crashed, worker died" in wide
    assert "online at 4096×256 float32: crashed" in narrow
    assert "16384" not in narrow  # beyond the widths it draws


def test_what_is_packed_beside_the_rows_is_on_the_page(tmp_path: Path, inside: None) -> None:
    rows = tmp_path / "rows"
    write(rows, paper([256, 1024]))
    shapes = [(4096, 65536), (1, 131072)]
    pack(rows / "card" / "limits.tar.gz", limits(shapes, dtypes=["float32"], rounds=2))
    pack(rows / "card" / "twins.tar.gz", twins(rounds=2, times_us=(30.0, 60.0), samples=20))
    both = [row(k, n, card=card, sweep="cards", time_us=40.0 + card)
            for k in ("auto", "copy") for n in (256, 1024) for card in (0, 1)]  # fmt: skip
    pack(rows / "card" / "cards.tar.gz", both)
    text = Read(page(read_inputs(rows, None, "report"))).text
    opening = text[text.index("The result") : text.rindex("The five sources")]
    assert re.search(r"On NVIDIA H200, auto is 1\.\d+ times as fast as the fastest public", opening)
    assert "Of 6 comparisons of a variant with itself" in opening
    assert "2 × NVIDIA H200 of one host: the slowest card's time over that of the fastest is 1.025"\
        in opening  # fmt: skip
    for name in ("limits", "twins", "cards"):
        assert f"card/{name}" in text
    assert "L1 auto is at least 1.08 times as fast as the best peer" in text
    assert "Not made" not in text or "limits needs" not in text
    for words, made in (
        (["tables", "--only", "limits_summary,card_to_card"], "limits_summary-card-limits.md"),
        (["figures", "--only", "limits_ratio,card_to_card"], "card_to_card*-card-cards.png"),
        (["claims"], "own_claims.md"),
    ):
        out = tmp_path / words[0]
        assert main([*words, "--rows", str(rows), "--out", str(out)]) == 0
        assert list(out.glob(made)), words


def pack(archive: Path, rows: list[Row]) -> None:
    folder = write(archive.with_suffix(".folder"), rows)
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(folder, "job")
    shutil.rmtree(folder)


def test_the_same_rows_give_the_same_bytes(tmp_path: Path, inside: None) -> None:
    """Whatever folder and order they lie in."""
    rows, pages = [row(k, n) for k in ("naive", "online", "copy") for n in (256, 4096)], []
    for name, order in (("one", 1), ("another", -1)):
        folder = tmp_path / name
        record_files(folder, counts=[count("online")], counters=h200())
        record_files(folder, traces=[trace("naive"), trace("fused")])
        for i, each in enumerate(rows[::order]):
            write(folder / str(i), [each])
        pages.append(page(read_inputs(folder, None, "report")))
    assert pages[0] == pages[1]


def test_of_many_points_some_are_left_out_and_the_page_says_so(
    tmp_path: Path, inside: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("analysis.report.figures.ALIKE", 6)
    rows = [row(kernel, n, card=card, sweep=f"night-{night}", key=f"{kernel}-{n}-{night}")
            for night in range(7) for card in (0, 1)
            for kernel in ("fused", "online", "copy") for n in (256, 1024)]  # fmt: skip
    write(tmp_path / "rows", rows)
    text = page(read_inputs(tmp_path / "rows", None, "report"), most=6)
    timed = 2 * 4  # cards, points of a kernel and width that are not copies, in one sweep
    figure = f"figure-roofline_predicted-{slug('NVIDIA H200')}-events-cold"
    drawn = text[text.index(f'id="{figure}"') :].partition("</figure>")[0]
    assert f"6 of {timed} points are drawn; rows.jsonl has all. 6 points" in drawn
    assert drawn.count("<use ") < 6 + 60  # and the ticks
    points = re.search(r'id="points">(.*?)</script>', text)
    assert points
    for series in json.loads(points[1])["pictures"].values():
        assert sum(len(one["points"]) for one in series) <= 6
    assert f"6 of {7 * timed * 3 // 2} lines are shown; rows.jsonl has all" in text
    assert "1 of 7 pictures of card_to_card on NVIDIA H200: the last 6 are above" in text
