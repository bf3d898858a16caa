"""What is committed of the recorded rows is what they and the code make: `make reference`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from analysis.manifest import drawn_by, mismatches, read_manifest
from tests.conftest import ROOT
from tests.house.shell import variable

REFERENCE = Path("outputs") / "reference"
H200 = REFERENCE / "h200"
RECORDED = ("h200", "h200_exploration")
KINDS = ("figures", "tables", "roofline", "claims", "report")
COMMITTED = KINDS[:-1]  # of the report, 10 MB that are made in a minute, only the digests


@pytest.fixture(autouse=True)
def _in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The H200's folders as `make reference` takes them, without those of other cards."""
    rows = tmp_path_factory.mktemp("recorded")
    for name in RECORDED:
        made = shutil.ignore_patterns("*.tar.gz", *KINDS, "selftest")
        shutil.copytree(ROOT / REFERENCE / name, rows / name, ignore=made)
    return rows


def test_make_takes_the_same_folders() -> None:
    assert variable("recorded") == [str(REFERENCE / name) for name in RECORDED]


@pytest.mark.parametrize("kind", COMMITTED)
def test_what_is_committed_belongs_to_todays_rows_and_code(kind: str, recorded: Path) -> None:
    assert mismatches(kind, H200 / kind, recorded) == [], "make reference"


@pytest.mark.parametrize("kind", KINDS)
def test_drawing_again_gives_the_committed_bytes(kind: str, recorded: Path, tmp_path: Path) -> None:
    committed = read_manifest(kind, H200 / kind)
    if committed["drawn_by"] != drawn_by():
        pytest.skip("bytes compare under the versions that drew them; digests do everywhere")
    subprocess.run(
        [sys.executable, "-m", "analysis", kind, "--rows", recorded, "--out", tmp_path],
        env=os.environ | {"PYTHONHASHSEED": "1"},  # sets come in another order than they did
        check=True,
        capture_output=True,
        timeout=250,
    )
    assert read_manifest(kind, tmp_path)["files"] == committed["files"], "make reference"
    assert {path.name for path in tmp_path.iterdir()} == {
        *committed["files"], f"{kind}.manifest.json"
    }  # fmt: skip


def test_a_stale_figure_is_named(recorded: Path, tmp_path: Path) -> None:
    out, rows = tmp_path / "tables", tmp_path / "rows"
    shutil.copytree(H200 / "tables", out)
    shutil.copytree(recorded, rows)
    assert mismatches("tables", out, rows) == []
    (out / "cards.md").write_text("| edited |")
    (out / "traffic.md").unlink()
    edited = next((rows / "h200" / "wide").rglob("rows.jsonl"))
    edited.write_text(edited.read_text().replace('"round":0', '"round":1'))
    assert mismatches("tables", out, rows) == [
        "tables: the rows changed",
        "tables: cards.md is another file",
        "tables: traffic.md is missing",
    ]
