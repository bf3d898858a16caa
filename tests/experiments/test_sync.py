"""The mirror and its server: online, and uploaded later. The server is tests/wandb_server.py."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.wandb_jobs import (
    METRIC,
    failure,
    mirror_all,
    mirrored,
    secrets_of_this_machine,
    timed,
)
from tests.wandb_server import KEY, REFUSED_KEY, WandbServer

pytestmark = pytest.mark.usefixtures("account")
ROWS = [timed(1024), timed(2048), timed(4096)]


def sync(out: Path) -> tuple[int, str]:
    """``make sync``: its status, and its one line."""
    done = subprocess.run(
        [sys.executable, "-m", "experiments.sync", "--out", str(out)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    [line] = (done.stdout + done.stderr).splitlines()
    return done.returncode, line


def test_online_the_server_gets_the_whole_run(tmp_path: Path, server: WandbServer) -> None:
    assert mirrored(tmp_path, [*ROWS, failure(8192)], "online") == []
    run = server.store.runs["s-online"]
    assert (run.fields["groupName"], run.fields["jobType"]) == ("a sweep", "online")
    assert run.fields["project"] == "softmax-roofline"
    assert run.config["kernel"] == {"_target_": "kernels.softmax.Online"}
    assert run.history(METRIC) == [(1024, 1024), (2048, 2048), (4096, 4096)]
    assert (run.summary["points"], run.summary["failed"]) == (4, 1)
    assert run.exit_code == 1
    assert run.artifacts == ["rows-s-online"]
    rows = (tmp_path / "s-online" / "rows.jsonl").read_bytes()
    assert rows in server.store.uploads.values()


def test_online_a_resumed_sweep_continues_the_run_even_without_the_marker(
    tmp_path: Path, server: WandbServer
) -> None:
    assert mirrored(tmp_path, ROWS[:2], "online") == []
    (tmp_path / "wandb" / "mirrored.json").unlink()
    assert mirrored(tmp_path, ROWS, "online") == []
    run = server.store.runs["s-online"]
    assert run.history(METRIC) == [(1024, 1024), (2048, 2048), (4096, 4096)]
    assert run.summary["points"] == 3


def test_two_offline_parts_are_uploaded_as_one_run_once(
    tmp_path: Path, server: WandbServer
) -> None:
    assert mirrored(tmp_path, ROWS[:2]) == []
    assert mirrored(tmp_path, ROWS) == []
    assert sync(tmp_path) == (0, f"uploaded 2 runs from {tmp_path}")
    run = server.store.runs["s-online"]
    assert run.history(METRIC) == [(1024, 1024), (2048, 2048), (4096, 4096)]
    assert (run.fields["groupName"], run.fields["jobType"]) == ("a sweep", "online")
    assert (run.summary["points"], run.exit_code) == (3, 0)
    rows = (tmp_path / "s-online" / "rows.jsonl").read_bytes()
    assert rows in server.store.uploads.values()
    before = len(server.requests)
    assert sync(tmp_path) == (0, f"nothing to upload below {tmp_path}")
    assert len(server.requests) == before


def test_a_part_measured_after_the_upload_is_added_by_the_next(
    tmp_path: Path, server: WandbServer
) -> None:
    sweep = tmp_path / "a" / "sweep"
    assert mirrored(sweep, ROWS[:1]) == []
    assert sync(tmp_path) == (0, f"uploaded 1 run from {tmp_path}")
    sweep = sweep.rename(tmp_path / "moved")
    assert mirrored(sweep, ROWS) == []
    assert sync(tmp_path) == (0, f"uploaded 1 run from {tmp_path}")
    run = server.store.runs["s-online"]
    assert run.history(METRIC) == [(1024, 1024), (2048, 2048), (4096, 4096)]


def test_going_online_takes_what_waited_offline_along(tmp_path: Path, server: WandbServer) -> None:
    assert mirrored(tmp_path, ROWS[:2]) == []
    assert mirrored(tmp_path, ROWS, "online") == []
    assert sync(tmp_path) == (0, f"nothing to upload below {tmp_path}")
    run = server.store.runs["s-online"]
    assert run.history(METRIC) == [(1024, 1024), (2048, 2048), (4096, 4096)]


def test_the_server_learns_nothing_about_host_user_path_or_arguments(
    tmp_path: Path, server: WandbServer
) -> None:
    assert mirrored(tmp_path / "a", ROWS) == []
    assert sync(tmp_path)[0] == 0
    assert mirror_all(tmp_path / "b", {"s-other": ROWS}, "online") == []
    assert set(server.store.runs) == {"s-online", "s-other"}
    told = server.everything()
    secrets = [*secrets_of_this_machine(tmp_path), "wandb.__main__"]
    assert [secret for secret in secrets if secret in told] == []
    assert all("host" not in run.fields for run in server.store.runs.values())


def test_a_missing_or_refused_key_is_said_in_one_line_and_keeps_the_runs(
    tmp_path: Path, server: WandbServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert mirrored(tmp_path, ROWS) == []
    monkeypatch.setenv("WANDB_API_KEY", REFUSED_KEY)
    status, line = sync(tmp_path)
    assert (status, "invalid API key" in line) == (1, True)
    monkeypatch.delenv("WANDB_API_KEY")
    status, line = sync(tmp_path)
    assert (status, "set WANDB_API_KEY" in line) == (1, True)
    assert server.store.runs == {}
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    assert sync(tmp_path)[0] == 0
    assert len(server.store.runs) == 1
