"""``--tracker`` of the commands themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.__main__ import main
from tests.analysis.plausible import paper, write
from tests.wandb_files import read_offline

pytestmark = pytest.mark.usefixtures("small_pictures")


def test_a_command_logs_what_it_made_where_asked_to_and_nothing_else_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/nonexistent")
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    rows = str(write(tmp_path / "rows", paper([1024])))
    assert main(["tables", "--rows", rows, "--out", "plain"]) == 0
    assert not Path("plain/wandb").exists()
    assert main(["tables", "--rows", rows, "--out", "logged", "--tracker", "wandb"]) == 0
    [run] = read_offline(Path("logged"))
    assert (run.name, run.group, run.job_type) == ("tables", "paper", "analysis")
    assert any(name.startswith("tables/main") for name in run.lines[0])
    files = {path.name: path.read_bytes() for path in Path("logged").iterdir() if path.is_file()}
    assert files == {path.name: path.read_bytes() for path in Path("plain").iterdir()}


def test_a_wrong_tracker_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["tables", "--tracker", "mlflow"])
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "wandb" in told
