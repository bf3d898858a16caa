"""What is committed of recorded rows is what they and the code make: `make reference`.

All of it is drawn by `.ci/run`; here a drawing of each kind, with what a machine may have
otherwise: another processor, language, time zone, umask and path.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from analysis import reference
from analysis.selection import timer_label
from docs import fill
from experiments import hostcost
from experiments.data.records import COUNTERS, write_records
from tests.analysis.attention_rows import SLOWDOWN, attention_rows
from tests.analysis.plausible import row, write
from tests.analysis.records import counters
from tests.conftest import ROOT

REFERENCE = ROOT / reference.REFERENCE
LIMITS = REFERENCE / "h200_limits"


# Each kind of text, and the claims, which are the widest sums: about ten seconds
SAMPLE = ("h200_limits/claims", "h200_limits/selftest", "h200_cards/tables", "h200_x4/compare",
          "h200_determinism/tables")  # fmt: skip
AVX512 = "X86_V4 AVX512_ICL AVX512_SPR"
MACHINES = {
    "without AVX-512": {"NPY_DISABLE_CPU_FEATURES": AVX512, "LC_ALL": "C", "TZ": "Asia/Tokyo"},
    "without AVX2": {"NPY_DISABLE_CPU_FEATURES": f"X86_V3 {AVX512}", "LC_ALL": "tr_TR.UTF-8"},
}


@pytest.fixture
def committed(tmp_path: Path) -> Path:
    """A copy of some committed tables, to change something in."""
    folder = tmp_path / "reference"
    for name in ("h200_x4/compare", "h200_determinism/tables"):
        shutil.copytree(REFERENCE / name, folder / name)
    names = sorted(reference.names(folder))
    (folder / reference.NAMES).write_text("\n".join(names) + "\n")
    return folder


@pytest.mark.parametrize("machine", MACHINES)
def test_another_machine_draws_the_same(machine: str, tmp_path: Path) -> None:
    checkout = tmp_path / "Bücher & Regal"
    checkout.mkdir()
    for name in ("analysis", "conf", "experiments", "kernels", "outputs"):
        (checkout / name).symlink_to(ROOT / name)
    done = subprocess.run(
        [sys.executable, "-m", "analysis.reference", *SAMPLE],
        cwd=checkout,
        env=os.environ | {"PYTHONPATH": str(checkout)} | MACHINES[machine],
        umask=0o077,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert ", 0 differ from" in done.stdout


def test_what_differs_is_named(committed: Path, tmp_path: Path) -> None:
    drawn = tmp_path / "drawn"
    shutil.copytree(committed, drawn, ignore=shutil.ignore_patterns(reference.NAMES))
    places = {"h200_x4/compare", "h200_determinism/tables"}
    drawings = [one for one in reference.DRAWINGS if one.out in places]
    assert reference.differences(drawn, committed, drawings) == []

    (committed / "h200_x4/compare/compare.csv").write_text("name,us\na,1.07\nb,0.9\nc,2.5e-07\n")
    table = drawn / "h200_x4/compare/compare.csv"
    table.write_text("name,us\na,1.08\nb,0.899999\nc,2.6e-07\n")  # roundings of the same
    assert reference.differences(drawn, committed, drawings) == []
    for text, change in (
        ("name,us\na,1.09\nb,0.9\nc,2.5e-07\n", "2: 'a,1.07' is now 'a,1.09'"),
        ("name,us\na,1.07\nz,0.9\nc,2.5e-07\n", "3: 'b,0.9' is now 'z,0.9'"),
        ("name,us\na,1\nb,0.9\nc,2.5e-07\n", "2: 'a,1.07' is now 'a,1'"),
        ("name,us\na,1.07\n", " 4 lines are now 2"),
    ):
        table.write_text(text)
        expected = [f"h200_x4/compare/compare.csv:{change}"]
        assert reference.differences(drawn, committed, drawings) == expected
    table.rename(table.with_name("added.csv"))
    assert reference.differences(drawn, committed, drawings) == [
        "h200_x4/compare/added.csv: new",
        "h200_x4/compare/compare.csv: no longer drawn",
    ]
    reference.write(drawn, committed)
    assert not (committed / "h200_x4/compare/compare.csv").exists()
    assert reference.differences(drawn, committed, drawings) == []


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
    alone = [one for one in reference.DRAWINGS if one.rows == (reference.DETERMINISM,)]
    reference.draw(tmp_path, below, alone)
    text, *table = fill.determinism(tmp_path).splitlines()
    assert text == (
        "Recorded 2026-11-24. Of 3 variants 2 give the same bits at each call at every point, "
        "1 of them for a row in any M."
    )
    assert [line for line in table if " online |" in line] == [
        "| softmax | online | yes | no | 1 |"
    ]


def test_the_pages_have_the_numbers_that_the_rows_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [page.name for page in fill.stale(REFERENCE)] == [], "make docs"
    named = {one for page in fill.PAGES for one, _ in fill.MARKED.findall(page.read_text())}
    assert named == {*fill.NUMBERS}
    page = tmp_path / "page.md"
    monkeypatch.setattr(fill, "PAGES", (page,))
    page.write_text("At <!-- hostcost_shape -->1×1<!-- end --> float32.")
    assert fill.stale(REFERENCE) == [page]
    shape = "×".join(map(str, recorded_hostcost()["shape"]))
    assert fill.renewed(page, REFERENCE) == page.read_text().replace("1×1", shape)
    page.write_text("<!-- nothing -->1<!-- end -->")
    with pytest.raises(ValueError, match=r"page\.md: <!-- nothing --> names no number"):
        fill.stale(REFERENCE)


def test_the_headline_is_what_the_table_of_limits_says() -> None:
    """It is made from the rows, the table from what was drawn: two ways to the same numbers."""
    table = REFERENCE / "h200_limits/tables/limits_summary.csv"
    for line in csv.DictReader(table.open()):
        if not line["timer"].startswith("CUDA events") or line["widths"] != "tuned":
            continue
        first, copied, torchs = fill.headline(REFERENCE).splitlines()[2:5]
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


def test_a_script_that_shares_no_code_finds_the_same_headline() -> None:
    script = ROOT / "docs" / "recompute.py"
    imported = re.findall(r"^(?:from|import) (\w+)", script.read_text(), re.MULTILINE)
    assert {*imported} <= {*sys.stdlib_module_names, "pandas"}
    rows = REFERENCE / reference.LIMITS
    printed = subprocess.run(
        [sys.executable, script, rows], capture_output=True, text=True, check=True
    ).stdout
    heads, *lines = [line.split(" | ") for line in printed.splitlines()]
    table = REFERENCE / "h200_limits" / "tables" / "limits_summary.csv"
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


def test_what_the_pages_link_of_the_drawn_is_drawn_and_committed() -> None:
    text = "".join(page.read_text() for page in fill.PAGES)
    linked = set(re.findall(r"outputs/reference/([^)#\s]+)\)", text))
    shown = {one for one in linked if one.rpartition("/")[0] in {d.out for d in reference.DRAWINGS}}
    assert "h200/figures/d_fig1-nvidia-h200.png" in shown
    drawn = (REFERENCE / reference.NAMES).read_text().split()
    assert shown - {*drawn} == set()  # else it shows what an earlier code drew
    assert [name for name in shown if not (REFERENCE / name).exists()] == []


def _numbers(cell: str) -> list[float]:
    """The numbers of a cell, in order."""
    return [float(each) for each in re.findall(r"-?[\d.]+", cell)]
