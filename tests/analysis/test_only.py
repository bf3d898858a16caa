"""``--only`` makes what it names and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.__main__ import main
from tests.analysis.plausible import PAPER, row, write

pytestmark = pytest.mark.usefixtures("small_pictures")


@pytest.mark.parametrize(
    ("kind", "only", "made"),
    [("figures", "speedup_torch", {f"speedup_torch-nvidia-h200.{k}" for k in ("png", "svg")}),
     ("tables", "environment", {f"environment.{k}" for k in ("csv", "md", "tex")})],
)  # fmt: skip
def test_only_what_is_named_is_made(
    kind: str, only: str, made: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = write(tmp_path / "rows", [row(k, n) for k in ("torch", "fused") for n in PAPER[:3]])
    assert main([kind, "--rows", str(rows), "--out", str(tmp_path / "out"), "--only", only]) == 0
    found = {path.name for path in (tmp_path / "out").iterdir()}
    assert found == made | {f"{kind}.manifest.json"}


@pytest.mark.parametrize("kind", ["figures", "tables"])
def test_a_name_that_nothing_has_is_refused_in_one_line(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([kind, "--rows", str(tmp_path), "--only", "limits,nonesuch"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: --only: no 'nonesuch'; known are ")
    assert told.count("\n") == 1
