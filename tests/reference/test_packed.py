"""What is committed of rows that lie there packed is what they and the code make."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from analysis.__main__ import main
from analysis.manifest import drawn_by, inputs, read_manifest
from tests.conftest import ROOT
from tests.reference.packed import unpack

REFERENCE = ROOT / "outputs" / "reference"
MADE = [  # the folder, the part of its rows, what is made of them
    ("h200_limits", ".", ["figures", "--only", "limits,limits_ratio"]),
    ("h200_limits", ".", ["tables", "--only", "limits,limits_summary,environment"]),
    ("h200_limits", ".", ["claims", "--claims", "analysis/own_claims.yaml"]),
    ("h200_cards", "together", ["figures", "--only", "card_to_card"]),
    ("h200_cards", "together", ["tables", "--only", "card_to_card"]),
]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Where the rows of a folder lie unpacked, each once."""
    found: dict[str, Path] = {}

    def of(folder: str) -> Path:
        if folder not in found:
            archive = REFERENCE / folder / "rows.tar.gz"
            found[folder] = unpack(archive, tmp_path_factory.mktemp(folder))
        return found[folder]

    return of


@pytest.mark.parametrize(("folder", "part", "made"), MADE, ids=str)
def test_what_is_committed_is_what_the_rows_make(
    folder: str,
    part: str,
    made: list[str],
    unpacked: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    rows, kind = unpacked(folder) / part, made[0]
    committed = read_manifest(kind, REFERENCE / folder / kind)
    assert committed["inputs"] == inputs(rows), "make reference"
    if committed["drawn_by"] == drawn_by():
        assert main([*made, "--rows", str(rows), "--out", str(tmp_path)]) == 0
        assert read_manifest(kind, tmp_path)["files"] == committed["files"], "make reference"


def test_the_comparison_of_alone_with_together_is_what_the_rows_make(
    unpacked: Callable[[str], Path], tmp_path: Path
) -> None:
    rows = unpacked("h200_cards")
    folders = [str(rows / "alone"), str(rows / "together")]
    assert main(["compare", *folders, "--out", str(tmp_path)]) == 0
    committed = REFERENCE / "h200_cards" / "compare" / "compare.csv"
    assert (tmp_path / "compare.csv").read_text() == committed.read_text(), "make reference"
