"""What goes wrong in W&B costs a warning within a bounded time, never a row."""

import json
import resource
import time
from pathlib import Path

import pytest

from experiments.data.metrics import derive
from experiments.mirror import child, mirror
from experiments.sweep.config import Tracker
from tests.wandb_files import read_offline
from tests.wandb_jobs import METRIC, job, mirror_all, mirrored, timed
from tests.wandb_server import WandbServer

pytestmark = pytest.mark.usefixtures("account")
ROWS = [timed(1024), timed(2048), timed(4096)]


def test_an_unknown_mode_costs_a_warning_that_names_the_known_ones(tmp_path: Path) -> None:
    [warning] = mirrored(tmp_path, [timed(1024)], "disabled")
    assert warning == "tracker.mode=disabled: W&B is written in mode offline or online"


def test_a_folder_that_cannot_be_written_costs_a_warning(tmp_path: Path) -> None:
    (tmp_path / "wandb").write_text("in the way")
    [warning] = mirrored(tmp_path, [timed(1024)])
    assert "W&B was not written" in warning
    assert "the rows are complete on disk" in warning


def test_a_disk_that_is_full_for_wandb_costs_a_warning_in_bounded_time(tmp_path: Path) -> None:
    jobs, rows = [job(tmp_path, ROWS)], {"s-online": derive(ROWS)}
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    start = time.monotonic()
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))  # W&B's process inherits it
    try:
        warnings = mirror(jobs, rows, Tracker(mode="offline"), tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert time.monotonic() - start < 60
    [warning] = warnings
    assert "the rows are complete on disk" in warning
    assert "\n" not in warning
    assert mirrored(tmp_path, ROWS) == []  # with room again, all of it is written
    [run] = {run.id: run for run in read_offline(tmp_path)}.values()
    assert len(run.lines) == 3


@pytest.mark.parametrize(
    ("writer", "complaint"),
    [
        ("import time; time.sleep(60)", "gave no answer for 1 s"),
        ("import os; os.kill(os.getpid(), 11)", "its process ended with status -11"),
        ("raise SystemExit(3)", "its process ended with status 3"),
        ("print('not JSON')", "JSONDecodeError"),
    ],
)
def test_a_wandb_that_hangs_or_dies_costs_a_warning_in_bounded_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: str, complaint: str
) -> None:
    (tmp_path / "writer.py").write_text(writer)
    monkeypatch.setattr(child, "WRITER", tmp_path / "writer.py")
    monkeypatch.setattr(child, "SILENCE_S", 1.0)
    [warning] = mirrored(tmp_path, [timed(1024)])
    assert complaint in warning
    assert json.loads((tmp_path / "wandb" / "mirrored.json").read_text()) == {}


@pytest.mark.parametrize("deaf", [False, True])
def test_a_server_out_of_reach_costs_one_warning_and_the_runs_go_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deaf: bool
) -> None:
    start = time.monotonic()
    with WandbServer(deaf=True) as server:
        monkeypatch.setenv("WANDB_BASE_URL", server.url if deaf else "http://127.0.0.1:9")
        [warning] = mirror_all(tmp_path, {"s-one": ROWS, "s-two": ROWS}, "online")
    assert time.monotonic() - start < 30
    assert "W&B online: " in warning
    assert "written offline instead, upload later with make sync" in warning
    assert sorted(run.id for run in read_offline(tmp_path)) == ["s-one", "s-two"]
    assert [len(run.lines) for run in read_offline(tmp_path)] == [3, 3]
    assert set(json.loads((tmp_path / "wandb/mirrored.json").read_text())) == {"s-one", "s-two"}


def test_a_server_lost_on_the_way_gets_every_line_once_when_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with WandbServer() as server:
        monkeypatch.setenv("WANDB_BASE_URL", server.url)
        server.deaf_after("CommitArtifact")
        [warning] = mirror_all(tmp_path, {"s-one": ROWS, "s-two": ROWS}, "online")
        assert "W&B online: " in warning
        assert [run.id for run in read_offline(tmp_path)] == ["s-two"]
        server.released.set()
        more = [*ROWS, timed(8192)]
        assert mirror_all(tmp_path, {"s-one": more, "s-two": more}, "online") == []
    assert set(server.store.runs) == {"s-one", "s-two"}
    for run in server.store.runs.values():
        assert [cols for cols, _ in run.history(METRIC)] == [1024, 2048, 4096, 8192]
        assert (run.exit_code, run.summary["points"]) == (0, 4)
