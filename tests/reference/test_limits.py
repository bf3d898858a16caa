"""What is committed of the recorded rows of `limits` is what they and the code make."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from analysis.__main__ import main
from analysis.manifest import drawn_by, inputs, read_manifest
from tests.conftest import ROOT

LIMITS = ROOT / "outputs" / "reference" / "h200_limits"
ASKED = {
    "figures": ["--only", "limits,limits_ratio"],
    "tables": ["--only", "limits,limits_summary,environment"],
    "claims": ["--claims", "analysis/own_claims.yaml"],
}
pytestmark = pytest.mark.skipif(not LIMITS.exists(), reason="no rows of limits are recorded")


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recorded rows, unpacked."""
    into = tmp_path_factory.mktemp("limits")
    with tarfile.open(LIMITS / "rows.tar.gz") as packed:
        packed.extractall(into, filter="data")
    return into


@pytest.mark.parametrize("kind", ASKED)
def test_what_is_committed_is_what_the_rows_make(
    kind: str, rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    committed = read_manifest(kind, LIMITS / kind)
    assert committed["inputs"] == inputs(rows), "make reference"
    if committed["drawn_by"] == drawn_by():
        assert main([kind, "--rows", str(rows), "--out", str(tmp_path), *ASKED[kind]]) == 0
        assert read_manifest(kind, tmp_path)["files"] == committed["files"], "make reference"
