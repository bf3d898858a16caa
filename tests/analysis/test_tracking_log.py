"""What analysis makes, as a W&B run of the sweep's group: real offline files, and a server."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from analysis.tracking import log
from experiments.data.rows import rows_files
from experiments.mirror import child
from tests.analysis.logged import CELLS, made, read
from tests.wandb_files import read_offline
from tests.wandb_jobs import secrets_of_this_machine
from tests.wandb_server import REFUSED_KEY, WandbServer

pytestmark = pytest.mark.usefixtures("account")


@dataclass(frozen=True)
class Verdict:
    gpu: str
    verdict: str


VERDICTS = [Verdict("NVIDIA H200", v) for v in ("supported", "refuted", "supported")]


@pytest.fixture(autouse=True)
def another_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_RUN_ID", "not-this-one")


def test_a_command_becomes_a_run_of_the_sweeps_group(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    found = read(tmp_path)
    assert log("claims", found, made(found), "wandb", VERDICTS) == []
    assert capfd.readouterr() == ("", "")
    [run] = read_offline(found.out)
    assert (run.group, run.job_type, run.name) == ("paper-f72b50", "analysis", "claims")
    assert (run.exit_code, run.host) == (0, "")
    assert (run.summary["claims/supported"], run.summary["claims/refuted"]) == (2, 1)
    assert run.config["gpus"] == ["NVIDIA H200"]
    assert set(run.config["inputs"]) == {"rows", "records", "code"}
    [line] = run.lines
    shown = {name.removesuffix("/_type"): kind for name, kind in line.items() if "_type" in name}
    assert shown == {
        "figures/made": "image-file", "tables/made": "table-file", "pages/made": "html-file",
    }  # fmt: skip
    assert line["tables/made/nrows"] == 2
    files = [file for file in (found.out / "wandb").rglob("media/**/*") if file.is_file()]
    assert sorted(file.suffix for file in files) == [".html", ".json", ".png"]
    assert any(file.read_bytes() == (found.out / "made.png").read_bytes() for file in files)
    told = b"".join(f.read_bytes() for f in (found.out / "wandb").rglob("*") if f.is_file())
    assert [s for s in secrets_of_this_machine(tmp_path) if s.encode() in told] == []
    assert rows_files(tmp_path) == [tmp_path / "rows" / "rows.jsonl"]


def test_the_same_again_is_not_logged_again_and_something_else_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = read(tmp_path)
    assert log("claims", found, made(found), "wandb") == []
    with monkeypatch.context() as patched:
        patched.setattr(child, "WRITER", tmp_path / "there is no such file")
        assert log("claims", found, made(found), "wandb") == []
    assert log("claims", found, made(found, [["a"], ["1"]]), "wandb") == []
    first, second = read_offline(found.out)
    assert first.id != second.id


def test_no_tracker_leaves_no_trace(tmp_path: Path) -> None:
    found = read(tmp_path)
    assert log("claims", found, made(found), "none") == []
    assert not (found.out / "wandb").exists()


def test_rows_of_several_sweeps_are_a_group_of_their_own(tmp_path: Path) -> None:
    found = read(tmp_path, "b-2", "a-1")
    assert log("figures", found, made(found), "wandb") == []
    assert read_offline(found.out)[0].group == "a-1 + b-2"


def test_offline_and_online_the_server_gets_one_run_with_all_that_was_made(
    tmp_path: Path, server: WandbServer
) -> None:
    found = read(tmp_path)
    files = made(found)
    assert log("report", found, files, "wandb") == []
    done = subprocess.run(
        [sys.executable, "-m", "experiments.sync", "--out", str(tmp_path)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout == f"uploaded 1 run from {tmp_path}\n", done.stderr
    (found.out / "wandb" / "mirrored.json").unlink()
    assert log("report", found, files, "online") == []
    [run] = server.store.runs.values()
    assert (run.fields["groupName"], run.fields["jobType"]) == ("paper-f72b50", "analysis")
    assert (len(run.lines), run.exit_code) == (1, 0)
    uploads = server.store.uploads.values()
    assert all(file.read_bytes() in uploads for file in files if file.suffix != ".csv")
    [table] = [json.loads(data) for data in uploads if data.startswith(b'{"columns"')]
    assert (table["columns"], table["data"]) == (CELLS[0], [["A-c1", 2.5, ""], ["A-c2", None, ""]])
    told = server.everything()
    assert [s for s in secrets_of_this_machine(tmp_path) if s in told] == []
    assert server.store.artifacts == {}


def test_what_goes_wrong_costs_a_warning_and_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = read(tmp_path)
    files = made(found)
    (tmp_path / "writer.py").write_text("raise SystemExit(3)")
    monkeypatch.setattr(child, "WRITER", tmp_path / "writer.py")
    [warning] = log("figures", found, files, "wandb")
    assert warning == ("W&B offline: its process ended with status 3; the files made are complete")
    assert all(file.exists() for file in files)


def test_a_server_that_refuses_costs_a_warning_and_the_run_goes_offline(
    tmp_path: Path, server: WandbServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", REFUSED_KEY)
    found = read(tmp_path)
    [warning] = log("figures", found, made(found), "online")
    assert "written offline instead, upload later with make sync" in warning
    assert len(read_offline(found.out)) == 1
