"""The mirror: real W&B files offline, a stand-in for the server online, and what goes wrong."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import pytest

from experiments import wandb
from experiments.data.jobs import TrackerConfig
from experiments.data.metrics import derive
from experiments.data.rows import rows_files
from experiments.wandb import mirror
from tests.house.shell import make
from tests.wandb_jobs import (
    METRIC,
    failure,
    job,
    mirror_all,
    mirrored,
    secrets_of_this_machine,
    timed,
)
from tests.wandb_server import KEY, REFUSED_KEY, WandbServer

ROWS = [timed(1024), timed(2048), timed(4096)]
MIXED = [
    timed(1024),
    timed(2048),
    timed(1024, key="h", dtype="float16"),
    timed(1024, key="m", rows=8),
    failure(4096, key="u", status="unsupported"),
]


def sync(out: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """``make sync``: its status, and its one line."""
    capsys.readouterr()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["wandb", "--out", str(out)])
        try:
            wandb.main()
            status = 0
        except SystemExit as ended:
            status = int(ended.code or 0)
    done = capsys.readouterr()
    [line] = (done.out + done.err).splitlines()
    return status, line


@pytest.mark.usefixtures("account")
def test_a_job_mirrored_offline_becomes_a_run_that_tells_nothing_about_this_machine(
    tmp_path: Path,
    server: WandbServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "variants.json").write_text("{}")
    with monkeypatch.context() as patch:  # someone without key or home, whose variable renames runs
        patch.setenv("HOME", "/nonexistent")
        patch.setenv("WANDB_RUN_ID", "not-this-one")
        patch.delenv("WANDB_API_KEY")
        assert mirrored(tmp_path, MIXED) == []
        # nothing new starts no W&B
        patch.setattr(wandb, "WRITER", ("-c", "raise SystemExit(3)"))
        assert mirrored(tmp_path, MIXED) == []
        more = [*MIXED, timed(8192)]
        assert mirror([job(tmp_path, more)], {}, TrackerConfig(backend="none"), tmp_path) == []
    assert server.requests == []
    stored = b"".join(file.read_bytes() for file in tmp_path.glob("wandb/**/*") if file.is_file())
    files = {path.stem for path in tmp_path.glob("wandb/offline-run-*/*.artifact")}
    assert files == {"rows", "config", "variants"}
    assert rows_files(tmp_path) == [tmp_path / "s-online" / "rows.jsonl"]  # the copy is not one
    assert sync(tmp_path, capsys) == (0, f"uploaded 1 run from {tmp_path}")
    secrets = [*secrets_of_this_machine(tmp_path), "wandb.__main__"]
    assert [secret for secret in secrets if secret.encode() in stored] == []
    assert [secret for secret in secrets if secret in server.everything()] == []
    run = server.store.runs["s-online"]
    assert "host" not in run.fields
    assert (run.fields["groupName"], run.fields["jobType"]) == ("a sweep", "online")
    assert run.fields["displayName"] == "online/tutorial/float32"
    assert run.config["kernel"] == {"_target_": "kernels.softmax.Online"}
    assert run.config["a_b"] == 1
    assert "float16_M4096/*" in str(run.config["_wandb"])  # a series of its own, over N
    assert run.history(METRIC) == [(1024, 1024.0), (2048, 2048.0)]
    assert run.history("float32_M4096/effective_gbps")[0][1] == pytest.approx(4096 * 8 / 1e3)
    assert (run.summary["points"], run.summary["ok"], run.summary["unsupported"]) == (5, 4, 1)
    assert run.summary["best_effective_gbps"] == pytest.approx(4096 * 8 / 1e3)
    assert METRIC not in run.summary
    assert (run.artifacts, run.exit_code) == (["rows-s-online"], 0)


@pytest.mark.usefixtures("account")
def test_a_disk_that_is_full_for_wandb_costs_a_warning(tmp_path: Path) -> None:
    jobs, rows = [job(tmp_path, ROWS)], {"s-online": derive(ROWS)}
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))  # W&B's process inherits it
    try:
        [warning] = mirror(jobs, rows, TrackerConfig(mode="offline"), tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "the rows are complete on disk" in warning
    assert "\n" not in warning
    assert mirrored(tmp_path, ROWS) == []  # with room again, all is written, and once
    assert len(list(tmp_path.glob(wandb.OFFLINE))) == 1


@pytest.mark.parametrize(
    ("writer", "complaint"),
    [
        ("import time; time.sleep(60)", "gave no answer for 0.5 s"),
        ("import os; os.kill(os.getpid(), 11)", "its process failed: SIGSEGV"),
        ("import os, sys; os.write(int(sys.argv[-1].split(',')[1]), b'x\\n')", "'x', which is no"),
    ],
)
def test_a_wandb_that_hangs_or_dies_costs_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: str, complaint: str
) -> None:
    monkeypatch.setattr(wandb, "WRITER", ("-S", "-c", writer))
    monkeypatch.setattr(wandb, "SILENCE_S", 0.5 if "sleep" in writer else 20.0)
    [warning] = mirrored(tmp_path, [timed(1024)])
    assert complaint in warning
    assert "the rows are complete on disk" in warning


@pytest.mark.usefixtures("account")
def test_a_server_lost_on_the_way_gets_every_line_once_when_it_is_back(
    tmp_path: Path,
    server: WandbServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert mirror_all(tmp_path, {"s-one": ROWS[:1]}) == []  # offline; the server will have it
    server.deaf_after("CommitArtifact")
    with monkeypatch.context() as patch:
        patch.setattr(wandb, "SERVER_S", 2)
        [warning] = mirror_all(tmp_path, {"s-one": ROWS, "s-two": ROWS}, "online")
    assert warning.startswith("W&B online: ")
    server.released.set()
    (tmp_path / "wandb" / "mirrored.json").unlink()  # the server knows where it stands
    more = [*ROWS, timed(8192), failure(16384)]
    assert mirror_all(tmp_path, {"s-one": more, "s-two": more}, "online") == []
    assert sync(tmp_path, capsys) == (0, f"nothing to upload below {tmp_path}")
    assert set(server.store.runs) == {"s-one", "s-two"}
    for id, run in server.store.runs.items():
        assert run.history(METRIC) == [(n, n) for n in (1024, 2048, 4096, 8192)]
        assert (run.exit_code, run.summary["points"], run.summary["failed"]) == (1, 5, 1)
        assert run.fields["project"] == "softmax-roofline"
        assert set(run.artifacts) == {f"rows-{id}"}
        assert (tmp_path / id / "rows.jsonl").read_bytes() in server.store.uploads.values()


@pytest.mark.usefixtures("account")
def test_what_waits_offline_is_rewritten_until_it_is_uploaded_and_then_continued(
    tmp_path: Path,
    server: WandbServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    sweep = tmp_path / "a" / "sweep"
    assert mirrored(sweep, [timed(1024), failure(2048)]) == []
    assert mirrored(sweep, [timed(1024), failure(2048), timed(4096)]) == []
    sweep = sweep.rename(tmp_path / "moved")
    for key, reason in ((REFUSED_KEY, "invalid API key"), ("", "set WANDB_API_KEY")):
        monkeypatch.setenv("WANDB_API_KEY", key)
        status, line = sync(tmp_path, capsys)
        assert (status, reason in line) == (1, True), line
    assert server.store.runs == {}
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    assert sync(tmp_path, capsys) == (0, f"uploaded 1 run from {tmp_path}")
    run = server.store.runs["s-online"]
    assert [cols for cols, _ in run.history(METRIC)] == [1024, 4096]
    assert (run.exit_code, run.summary["failed"]) == (1, 1)
    again = [timed(512), timed(1024), timed(2048, attempt=2), timed(4096)]
    for rows in (again, [*again, timed(8192)]):
        assert mirrored(sweep, rows) == []
    assert sync(tmp_path, capsys) == (0, f"uploaded 1 run from {tmp_path}")
    assert [cols for cols, _ in run.history(METRIC)] == [1024, 4096, 512, 2048, 8192]
    assert (run.summary["points"], run.exit_code) == (5, 0)
    assert (sweep / "s-online" / "rows.jsonl").read_bytes() in server.store.uploads.values()
    before = len(server.requests)
    assert sync(tmp_path, capsys) == (0, f"nothing to upload below {tmp_path}")
    assert len(server.requests) == before


def test_make_sync_without_a_folder_is_one_line(tmp_path: Path) -> None:
    done = make("sync", f"OUT={tmp_path / 'none'}", f"PY={sys.executable}", "READY=")
    assert done.returncode != 0
    assert done.stderr.startswith(f"error: --out {tmp_path / 'none'}: no such folder\n")
