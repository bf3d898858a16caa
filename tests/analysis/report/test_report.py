"""The report: its numbers are those of the points, and it says what rows do not tell."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

import pytest

from analysis.__main__ import main
from analysis.headline import headline, operations
from analysis.load import read_inputs
from analysis.points import geomean
from analysis.published import sources
from analysis.report import SIGNS, page, ticks
from experiments.data.rows import Row
from tests.analysis.limit_rows import FEWER, limits
from tests.analysis.plausible import interpreted, paper, row, unsupported, write
from tests.analysis.records import count, h200, record_files, trace
from tests.analysis.report.reading import Read, read

MARKUP = (
    "</script><script>window.taken=1</script><img src='https://example.invalid/x' "
    'onerror="window.taken=2">{{ 7 * 7 }}{% set x = 1 %}<!--'
)
URL = "javascript:window.taken=4"


def limit_rows() -> list[Row]:
    return limits(FEWER, dtypes=("float32",), timers=("events",), rounds=2)


def test_the_result_is_the_mean_of_the_points_in_every_digit(tmp_path: Path) -> None:
    folder = write(tmp_path / "rows", limit_rows())
    inputs = read_inputs(folder, None, "report")
    found = Read(page(inputs)).text("result")
    softmax = inputs.points["softmax"]
    large = softmax[(softmax["bytes"] >= 256_000_000) & softmax["tuned"]]
    mean, copy = geomean(large), geomean(large, "roof")
    assert mean is not None
    assert copy is not None
    assert f"Our softmax is {mean.value:.2f} times as fast as the fastest public" in found
    assert f"{100 * min(copy.value, 1):.1f} % of the speed of a plain copy" in found
    for table in (headline(inputs.frame, inputs.points), operations(inputs.frame, inputs.points)):
        assert table is not None
        for line in table.lines:
            assert " ".join(line) in found, line


def test_the_first_lines_say_which_rows_the_page_is_made_of(tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    write(folder / "card" / "one", paper([256, 65536]))
    (folder / "recorded.json").write_text('{"card": "2026-11-23", "other": "<b>", "third": 7}')
    inputs = read_inputs(folder, None, "report")
    text = Read(page(inputs)).text()
    opening = text[: text.index("The result")]
    for words in (f"{len(inputs.frame)} rows of NVIDIA H200", "recorded 2026-11-23",
                  "by commit 0123456789ab", str(folder), "1 unsupported"):  # fmt: skip
        assert words in opening, words
    assert "<b>" not in text


def test_sources_have_their_figures_claims_and_tables_and_every_link_leads_somewhere(
    tmp_path: Path,
) -> None:
    record_files(tmp_path, counts=[count("online"), count("naive")], counters=h200())
    record_files(tmp_path, traces=[trace("naive"), trace("fused"), trace("online")])
    found = read([*paper(), *limit_rows()], tmp_path)
    ids = found.all("id")
    assert len(ids) == len(set(ids))
    assert len(found.headings) == len(set(found.headings)), found.headings
    addresses = found.all("href")
    outside = {address for address in addresses if not address.startswith("#")}
    assert outside == {source.url for source in sources().values()}
    assert {address[1:] for address in addresses} - {u[1:] for u in outside} <= set(ids)
    assert {"A-fig2", "D-fig1", "C-viz", "A4", "B2", "D2", "E1"} <= set(ids)
    assert "Triton is about 4× faster" in found.text("A4")
    assert any(word in found.text("A4") for word in SIGNS)
    for letter, source in sources().items():
        assert f"{letter} · {source.title}" in found.headings


@pytest.mark.parametrize(
    ("rows", "sentences"),
    [
        ([interpreted(k, n) for k in ("online", "naive", "copy") for n in (32, 64)],
         ["they say nothing about which is faster", "of A CPU", "No variant was measured"]),
        ([unsupported("fused", 65536)],
         ["1 row of NVIDIA H200", "Of them 1 unsupported", "nothing about which is faster"]),
        ([row("online", n, gpu="A CPU", device="cpu") for n in (32, 64)],
         ["2 rows of A CPU", "not measured", "These rows judge none"]),
    ],
)  # fmt: skip
def test_rows_that_tell_little_make_a_page_that_says_so(
    rows: list[Row], sentences: list[str], tmp_path: Path
) -> None:
    found = read(rows, tmp_path)
    for sentence in sentences:
        assert sentence in found.text(), sentence
    assert "Not drawn from these rows:" in found.text("sources")
    assert not re.findall(r"\b(?:nan|NaN|None)\b", found.text())
    assert len(found.headings) == len(set(found.headings))


def test_nothing_that_rows_hold_becomes_markup(tmp_path: Path) -> None:
    environment = {"torch": MARKUP, "commit": URL, "python": {"<b>": [MARKUP]}}
    alike = {"gpu": f"Card {MARKUP}", "environment": environment, "sweep": MARKUP, "roof": MARKUP}
    rows = [r.model_copy(update=alike) for r in paper([256, 4096])]
    rows += [row(f"a{MARKUP}", n, params={"<i>": MARKUP}, key=MARKUP, **alike) for n in (256, 512)]
    rows.append(row("x", 256, operation=MARKUP, **alike))
    rows.append(unsupported("fused", 8192).model_copy(update=alike | {"reason": MARKUP}))
    found = read(rows, tmp_path)
    assert "<script>window.taken=1</script>" in found.text()
    assert "{{ 7 * 7 }}" in found.text()
    assert len(found.scripts) == 2
    assert not any("window.taken" in script for script in found.scripts)
    for tag, given in found.tags:
        assert not [name for name in given if name.startswith("on") or name == "style"], given
        assert tag not in ("iframe", "object", "base", "form", "link")
    assert all(source.startswith("data:image/webp;base64,") for source in found.all("src"))
    outside = {at for at in found.all("href") if not at.startswith("#")}
    assert outside == {source.url for source in sources().values()}
    assert str(ticks("<b> `<i>` & `")) == "&lt;b&gt; <code>&lt;i&gt;</code> &amp; `"


def test_a_browser_may_run_these_scripts_and_load_nothing(tmp_path: Path) -> None:
    found = read([row("online", 256)], tmp_path)
    (policy,) = (given["content"] for _, given in found.tags if "http-equiv" in given)
    for text in (*found.scripts, *found.styles):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert not re.findall(r"@import|url\(", "".join(found.styles))


def test_the_same_rows_give_the_same_bytes_in_whatever_order_they_lie(tmp_path: Path) -> None:
    rows, pages = paper([256, 4096]), []
    for name, order in (("one", 1), ("two", -1)):
        write(tmp_path / name / "rows", rows[::order])
        pages.append(page(read_inputs(tmp_path / name / "rows", None, "report")))
    assert pages[0].replace("/one/", "/two/") == pages[1]


def test_the_command_writes_one_file_and_says_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write(tmp_path / "rows", [row("online", 256), row("copy", 256)])
    assert main(["report", "--rows", str(folder), "--out", str(tmp_path / "out")]) == 0
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["report.html"]
    first, last = capsys.readouterr().out.strip().split("\n")
    assert first == f"2 rows of NVIDIA H200, read from {folder}"
    assert last == str(tmp_path / "out" / "report.html")


