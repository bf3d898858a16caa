"""What is committed of recorded rows is what they and the code make: `make reference`."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from analysis import reference
from analysis.output import drawn_by
from analysis.selection import timer_label
from docs import fill
from experiments import hostcost
from experiments.data.records import COUNTERS, write_records
from tests.analysis.attention_rows import SLOWDOWN, attention_rows
from tests.analysis.plausible import row, write
from tests.analysis.records import counters
from tests.conftest import ROOT

LIMITS = ROOT / reference.REFERENCE / "h200_limits"


@dataclass(frozen=True)
class Drawn:
    """All of outputs/reference, drawn once."""

    folder: Path
    files: dict[str, str]


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drawn]:
    folder = tmp_path_factory.mktemp("drawn")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        yield Drawn(folder, reference.draw(folder))


@pytest.fixture
def committed(tmp_path: Path) -> Path:
    """A copy of what is committed beside the rows, to change something in."""
    folder = tmp_path / "reference"
    folder.mkdir()
    shutil.copy(ROOT / reference.REFERENCE / reference.CHECKSUMS, folder)
    return folder


def test_each_operation_has_a_headline_once_it_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "recorded", attention_rows((512, 1024)))
    monkeypatch.setattr(fill, "REFERENCE", tmp_path)
    monkeypatch.setattr(fill, "RECORDED", {"attention": "recorded"})
    _, _, attention = fill.operations(tmp_path).splitlines()
    share, speed = 1 / SLOWDOWN["attention_online"], SLOWDOWN["attention_torch"]
    assert f"| `attention_online` | **{speed * share:.2f} ×**" in attention
    assert f" torch | {share:.0%} of the longest of three | 2 |" in attention


def test_what_dram_moved_appears_once_counters_lie_beside_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fill, "REFERENCE", tmp_path)
    folder = tmp_path / fill.RECORDED["attention"]
    folder.mkdir()
    seen = [counters("online", 4096, 16384, 1.25, 0.25), counters("naive", 2048, 16384, 5.0, 3.0)]
    write_records(folder / COUNTERS, seen)
    heads, _, naive, online = fill.attention_dram(tmp_path).splitlines()
    assert heads.endswith("| 2048×16384 float32 | 4096×16384 float32 |")
    assert naive == "| `naive` | 0.67 + 0.40 (1.00) | – |"
    assert online == "| `online` | – | 0.34 + 0.07 (0.50) |"


def test_a_sentence_says_how_many_always_give_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [row("fused", 1024, deterministic=True, batch_invariant=True),
            row("online", 1024, deterministic=True, batch_invariant=False),
            row("torch", 1024, deterministic=False, batch_invariant=False)]  # fmt: skip
    write(tmp_path / "recordings", rows)
    below = tmp_path / "reference"
    archive = below / reference.DETERMINISM
    archive.parent.mkdir(parents=True)
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(tmp_path / "recordings", "recordings")
    (below / "recorded.json").write_text(json.dumps({archive.parent.name: "2026-11-24"}))
    monkeypatch.setattr(fill, "REFERENCE", below)
    alone = tuple(one for one in reference.DRAWINGS if one.rows == (reference.DETERMINISM,))
    monkeypatch.setattr(reference, "DRAWINGS", alone)
    reference.draw(tmp_path, below)
    text, *table = fill.determinism(tmp_path).splitlines()
    assert text == (
        "Recorded 2026-11-24. Of 3 variants 2 give the same bits at each call at every point, "
        "1 of them for a row in any M."
    )
    assert [line for line in table if " online |" in line] == [
        "| softmax | online | yes | no | 1 |"
    ]


@pytest.mark.timeout(600)
def test_drawing_again_gives_the_recorded_checksums(drawn: Drawn) -> None:
    assert reference.differences(drawn.files, ROOT / reference.REFERENCE) == [], "make reference"


def test_a_file_that_changed_is_named(drawn: Drawn, committed: Path) -> None:
    files = dict(drawn.files)
    files["h200/tables/cards.md"] = "0"
    files["h200/tables/added.md"] = files.pop("h200/tables/traffic.md")
    edited = committed / "h200" / "claims"
    edited.mkdir(parents=True)
    (edited / "audit.md").write_text("| edited |")
    assert reference.differences(files, committed) == [
        "h200/claims/audit.md: the committed file differs from the checksum",
        "h200/tables/added.md: new",
        "h200/tables/cards.md: differs",
        "h200/tables/traffic.md: no longer drawn",
    ]
    # what is written is what was drawn
    reference.write(drawn.files, drawn.folder, committed)
    assert (edited / "audit.md").read_bytes() == (
        drawn.folder / "h200" / "claims" / "audit.md"
    ).read_bytes()
    assert reference.differences(drawn.files, committed) == []


def test_pictures_count_under_the_versions_that_drew_them(drawn: Drawn, committed: Path) -> None:
    path = committed / reference.CHECKSUMS
    recorded = json.loads(path.read_text()) | {"drawn_by": drawn_by()}
    recorded["files"] |= {"h200/figures/a_fig1.svg": "0", "h200/tables/cards.csv": "0"}
    for version, names in ((drawn_by()["numpy"], 2), ("0", 1)):
        recorded["drawn_by"]["numpy"] = version
        path.write_text(json.dumps(recorded))
        changed = dict(drawn.files) | {"h200/figures/a_fig1.svg": "1", "h200/tables/cards.csv": "1"}
        assert len(reference.differences(changed, committed)) == names


def test_the_pages_have_the_numbers_that_the_rows_give(
    drawn: Drawn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [page.name for page in fill.stale(drawn.folder)] == [], "make docs"
    named = {one for page in fill.PAGES for one, _ in fill.MARKED.findall(page.read_text())}
    assert named == {*fill.NUMBERS}
    page = tmp_path / "page.md"
    monkeypatch.setattr(fill, "PAGES", (page,))
    page.write_text("At <!-- hostcost_shape -->1×1<!-- end --> float32.")
    assert fill.stale(drawn.folder) == [page]
    shape = "×".join(map(str, recorded_hostcost()["shape"]))
    assert fill.renewed(page, drawn.folder) == page.read_text().replace("1×1", shape)
    page.write_text("<!-- nothing -->1<!-- end -->")
    with pytest.raises(ValueError, match=r"page\.md: <!-- nothing --> names no number"):
        fill.stale(drawn.folder)


def test_the_headline_is_what_the_table_of_limits_says(drawn: Drawn) -> None:
    """It is made from the rows, the table from what was drawn: two ways to the same numbers."""
    table = drawn.folder / "h200_limits/tables/limits_summary.csv"
    for line in csv.DictReader(table.open()):
        if not line["timer"].startswith("CUDA events") or line["widths"] != "tuned":
            continue
        first, copied, torchs = fill.headline(drawn.folder).splitlines()[2:5]
        if line["points"] == "256 MB and more":
            assert f"the mean of {line['count']} shapes" in first
            assert f"**{_numbers(line['× best peer'])[0]:.2f} ×**" in first
            assert f"**{_numbers(line['× torch'])[0]:.2f} ×**" in torchs
            [least] = re.findall(r"least ([\d.]+) at", copied)
            assert float(least) == pytest.approx(_numbers(line["least of roof"])[0] / 100, abs=6e-3)
        if line["points"] == "all":
            assert (
                f"over all {line['count']} it is {_numbers(line['× best peer'])[0]:.2f} ×" in first
            )
            assert first.rstrip(" |").endswith(f"noise at {line['behind']}")


def test_a_script_that_shares_no_code_finds_the_same_headline(drawn: Drawn) -> None:
    script = ROOT / "docs" / "recompute.py"
    imported = re.findall(r"^(?:from|import) (\w+)", script.read_text(), re.MULTILINE)
    assert {*imported} <= {*sys.stdlib_module_names, "pandas"}
    rows = ROOT / reference.REFERENCE / reference.LIMITS
    printed = subprocess.run(
        [sys.executable, script, rows], capture_output=True, text=True, check=True
    ).stdout
    heads, *lines = [line.split(" | ") for line in printed.splitlines()]
    table = drawn.folder / "h200_limits" / "tables" / "limits_summary.csv"
    ours = list(csv.DictReader(table.open()))
    assert len(lines) == len(ours)
    for line in lines:
        theirs = dict(zip(heads, line, strict=True))
        [own] = [one for one in ours if one["points"] == theirs["points"]
                 and one["timer"].startswith(timer_label(theirs["timer"]))
                 and one["widths"] == theirs["widths"]]  # fmt: skip
        for head in ("count", "× best peer", "summed", "× torch", "least × best peer"):
            found, expected = _numbers(theirs[head]), _numbers(own[head])
            assert found == pytest.approx(expected, abs=0.001), (head, theirs, own)


def test_the_hosts_cost_is_as_recorded() -> None:
    table = hostcost.table(recorded_hostcost()["layers"])
    assert table + "\n" == (LIMITS / "hostcost.md").read_text()


def recorded_hostcost() -> dict[str, Any]:
    record: dict[str, Any] = json.loads((LIMITS / "hostcost.json").read_text())
    return record


def test_what_the_pages_link_of_the_drawn_is_drawn_and_committed(drawn: Drawn) -> None:
    text = "".join(page.read_text() for page in fill.PAGES)
    linked = set(re.findall(r"outputs/reference/([^)#\s]+)\)", text))
    shown = {one for one in linked if one.rpartition("/")[0] in {d.out for d in reference.DRAWINGS}}
    assert "h200/figures/d_fig1-nvidia-h200.png" in shown
    assert shown - drawn.files.keys() == set()  # else it shows what an earlier code drew
    assert [name for name in shown if not (ROOT / reference.REFERENCE / name).exists()] == []


def _numbers(cell: str) -> list[float]:
    """The numbers of a cell, in order."""
    return [float(each) for each in re.findall(r"-?[\d.]+", cell)]
