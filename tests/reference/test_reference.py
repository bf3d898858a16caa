"""What is committed of recorded rows is what they and the code make: `make reference`."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from analysis import reference
from analysis.claims.points import listed
from analysis.claims.verdict import VERDICTS
from analysis.output import drawn_by
from analysis.selection import timer_label
from experiments import hostcost
from tests.conftest import ROOT

README = (ROOT / "README.md").read_text()


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


def test_readme_has_the_claims_and_the_audit_as_recorded(drawn: Drawn) -> None:
    folder = drawn.folder / "h200" / "claims"
    verdicts = [line[:4] for line in list(csv.reader((folder / "claims.csv").open()))[1:]]
    assert _table("claims")[1:] == verdicts
    counts = json.loads((folder / "claims.json").read_text())["counts"]["NVIDIA H200"]
    summary = listed([f"{counts[one]} {one}" for one in VERDICTS if one in counts])
    assert f"**{summary} of {len(verdicts)} claims**" in README
    audited = list(csv.reader((folder / "audit_summary.csv").open()))
    worst = ("physically impossible", "self-contradictory")
    assert _table("audit")[1:] == [line for line in audited if line[1] in worst]
    checks = Counter(line["verdict"] for line in csv.DictReader((folder / "audit.csv").open()))
    for verdict, count in checks.items():
        assert f"{count} {'are ' * (verdict == worst[0])}{verdict}" in " ".join(README.split())
    assert f"Of {checks.total()} checks" in README


def test_readme_has_the_limits_as_recorded(drawn: Drawn) -> None:
    folder = drawn.folder / "h200_limits"
    assert _table("limits") == list(csv.reader((folder / "tables/limits_summary.csv").open()))
    assert _table("own") == [line[:4] for line in csv.reader((folder / "claims/claims.csv").open())]


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


def test_readme_has_the_host_cost_as_recorded() -> None:
    folder = ROOT / reference.REFERENCE / "h200_limits"
    recorded = json.loads((folder / "hostcost.json").read_text())
    assert hostcost.table(recorded["layers"]) + "\n" == (folder / "hostcost.md").read_text()
    assert hostcost.table(recorded["layers"]) in _part("hostcost")
    assert "×".join(map(str, recorded["shape"])) in README.partition("<!-- hostcost -->")[0][-300:]


def test_every_picture_the_documentation_shows_is_committed(drawn: Drawn) -> None:
    checksums = json.loads((ROOT / reference.REFERENCE / reference.CHECKSUMS).read_text())
    shown = {
        name
        for name in checksums["files"]
        for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))
        if f"reference/{name})" in page.read_text()
    }
    assert "h200/figures/d_fig1-nvidia-h200.png" in shown
    assert [name for name in shown if not (ROOT / reference.REFERENCE / name).exists()] == []


def _numbers(cell: str) -> list[float]:
    """The numbers of a cell, in order."""
    return [float(each) for each in re.findall(r"-?[\d.]+", cell)]


def _part(name: str) -> str:
    """What stands between a marker and its end."""
    return README.partition(f"<!-- {name} -->")[2].partition("<!-- end -->")[0]


def _table(name: str) -> list[list[str]]:
    """The cells of the table below a marker, its heads first."""
    lines = [line for line in _part(name).strip().splitlines() if not line.startswith("|---")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
