"""The mirror: real W&B files offline, a stand-in for the server online, and what goes wrong."""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path
from typing import Any

import pytest

from experiments import wandb
from experiments.data.jobs import TrackerConfig
from experiments.data.rows import Row, rows_files
from experiments.wandb import mirror
from tests.conftest import QUICK, Command, shape
from tests.house.shell import make
from tests.wandb_jobs import (
    failure,
    job,
    mirror_all,
    mirrored,
    secrets_of_this_machine,
    timed,
)
from tests.wandb_server import KEY, REFUSED_KEY, WandbServer

ROWS = [timed(1024), timed(2048), timed(4096)]
MIXED = [*ROWS[:2], failure(4096, key="u", status="unsupported")]
RUN = "online tutorial float32 M=4096"


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
        more = [job(tmp_path, [*MIXED, timed(8192)])]
        assert mirror("a sweep", more, TrackerConfig(backend="none"), tmp_path) == []
    assert server.requests == []
    stored = b"".join(file.read_bytes() for file in tmp_path.glob("wandb/**/*") if file.is_file())
    rows = tmp_path / "tutorial" / "native-auto" / "online" / "rows.jsonl"
    assert rows_files(tmp_path) == [rows]  # the artifact's copy is not one
    assert [*tmp_path.rglob("rows.jsonl")] == [rows]
    assert sync(tmp_path, capsys) == (0, f"uploaded 2 runs from {tmp_path}")
    secrets = [*secrets_of_this_machine(tmp_path), "wandb.__main__"]
    assert [secret for secret in secrets if secret.encode() in stored] == []
    assert [secret for secret in secrets if secret in server.everything()] == []
    run = server.store.named(RUN)
    assert "host" not in run.fields
    assert (run.fields["groupName"], run.fields["jobType"]) == ("a sweep", "online")
    assert run.fields["tags"] == ["softmax", "tutorial", "float32", "a card"]
    assert run.fields["notes"].splitlines() == [
        "a paper; modelled traffic 3MN.", "4096×4096 unsupported: signal 11"
    ]  # fmt: skip
    assert {key: value for key, value in run.config.items() if key != "_wandb"} == {
        "kernel": {"name": "online", "backend": "triton", "block_size": 1024},
        "operation": "softmax", "grid": "tutorial", "dtype": "float32",
        "M": 4096, "N": {"min": 1024, "max": 4096}, "gpu": "a card",
        "timer": "events", "cache": "cold", "torch": "2", "triton": "3", "cuda": None,
        "driver": None, "python": None, "commit": "c0ffee", "dirty": None,
    }  # fmt: skip
    assert run.history("time_us") == [(1024, 1024.0), (2048, 2048.0)]
    assert run.history("effective_gbps")[0][1] == pytest.approx(4096 * 8 / 1e3)
    assert (run.summary["points"], run.summary["ok"], run.summary["unsupported"]) == (3, 2, 1)
    assert run.summary["best_effective_gbps"] == pytest.approx(4096 * 8 / 1e3)
    assert "time_us" not in run.summary
    assert (run.artifacts, run.exit_code) == ([], 0)
    whole = server.store.named("rows a sweep")
    assert (whole.artifacts, whole.lines, whole.summary["points"]) == (["rows-a-sweep"], [], 3)
    manifest = next(data for path, data in server.store.uploads.items() if "manifest" in path)
    place = "tutorial/native-auto/online"
    assert {*json.loads(manifest)["contents"]} == {
        f"{place}/rows.jsonl", f"{place}/config.json", "variants.json"
    }  # fmt: skip


@pytest.mark.usefixtures("account")
def test_each_run_is_a_curve_over_n_or_over_m_where_n_is_fixed(
    tmp_path: Path, server: WandbServer, capsys: pytest.CaptureFixture[str]
) -> None:
    def at(*shapes: tuple[int, int], **changes: Any) -> list[Row]:
        return [
            timed(n, key=f"{m}×{n} {changes}", rows=m, relative_error=1e-8, **changes)
            for m, n in shapes
        ]

    both = [*at((1, 64), (8, 64)), *at((1, 64), (8, 64), dtype="float16")]
    jobs = {
        "batch": both[::-1],
        "grid": [*at((8, 64), (8, 32), (2, 32), (2, 64)), *at((2, 64), round=1)],
        "irregular": at((3, 7), (9, 5)),
    }  # fmt: skip
    assert mirror_all(tmp_path / "shards" / "5eed", jobs) == []  # on Slurm, a shard's folder
    assert sync(tmp_path, capsys)[0] == 0
    assert server.store.named("rows a sweep 5eed").artifacts == ["rows-a-sweep-5eed"]
    runs_of = {
        run.fields["displayName"].replace(" tutorial", ""): run
        for run in server.store.runs.values()
        if run.lines
    }
    places = {name: [(line["M"], line["N"]) for line in run.lines] for name, run in runs_of.items()}
    assert places == {
        "batch float32 N=64": [(1, 64), (8, 64)],
        "batch float16 N=64": [(1, 64), (8, 64)],
        "grid float32 M=2": [(2, 32), (2, 64), (2, 64)],
        "grid float32 M=8": [(8, 32), (8, 64)],
        "irregular float32": [(9, 5), (3, 7)],
    }
    for name, run in runs_of.items():
        metrics = run.config["_wandb"]["m"]  # 1: a name; 5: the number of its axis, from 1
        axes = {metric["1"]: metrics[metric["5"] - 1]["1"] for metric in metrics if "5" in metric}
        assert {*axes.values()} == {"M" if "N=" in name else "N"}
        assert not {"M", "N", "round"} & {*axes}


@pytest.mark.usefixtures("account")
def test_a_sweep_without_a_gpu_shows_errors_and_modelled_bytes(
    sweep_here: Command, server: WandbServer, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["kernel=online", *shape(4, [8, 16]), "dtype=float32", "tracker=wandb", *QUICK]
    done = sweep_here(*words)
    assert (done.status, "warning" in done.stderr) == (0, False), done.stderr
    assert sync(done.out, capfd) == (0, f"uploaded 3 runs from {done.out}")
    [run] = [run for run in server.store.runs.values() if run.fields["jobType"] == "online"]
    assert run.history("model_bytes") == [(8, 4 * 8 * 4 * 3), (16, 4 * 16 * 4 * 3)]
    assert 0 < run.history("relative_error")[0][1] < 1e-6
    assert run.history("time_us") == []
    assert (run.config["kernel"]["name"], run.config["kernel"]["block_size"]) == ("online", 1024)
    assert "interpreted" in run.fields["tags"]
    assert 0 < run.summary["worst_relative_error"] < 1e-6


@pytest.mark.usefixtures("account")
def test_a_disk_that_is_full_for_wandb_costs_a_warning(tmp_path: Path) -> None:
    jobs = [job(tmp_path, ROWS)]
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))  # W&B's process inherits it
    try:
        [warning] = mirror("a sweep", jobs, TrackerConfig(), tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "the rows are complete on disk" in warning
    assert "\n" not in warning
    assert mirrored(tmp_path, ROWS) == []  # with room again, all is written, and once
    assert len(list(tmp_path.glob(wandb.OFFLINE))) == 2


@pytest.mark.parametrize(
    ("writer", "complaint"),
    [
        ("import time; time.sleep(60)", "gave no answer for 0.5 s"),
        ("import os; os.kill(os.getpid(), 11)", "its process failed: SIGSEGV"),
        # it stays until it is killed: to one that is gone nothing can be sent
        (
            "import os, sys, time; os.write(int(sys.argv[-1]), b'x\\n'); time.sleep(60)",
            "'x', which is no",
        ),
    ],
)
def test_a_wandb_that_hangs_or_dies_costs_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: str, complaint: str
) -> None:
    monkeypatch.setattr(wandb, "WRITER", ("-S", "-c", writer))
    monkeypatch.setattr(wandb, "SILENCE_S", 0.5 if "answer" in complaint else 20.0)
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
    assert mirror_all(tmp_path, {"one": ROWS[:1]}) == []  # offline; the server will have it
    server.deaf_after("CreateRunFiles")
    with monkeypatch.context() as patch:
        patch.setattr(wandb, "SERVER_S", 2)
        [warning] = mirror_all(tmp_path, {"one": ROWS, "two": ROWS}, "online")
    assert warning.startswith("W&B online: ")
    server.released.set()
    (tmp_path / "wandb" / "mirrored.json").unlink()  # the server knows where it stands
    more = [*ROWS, timed(8192), failure(16384)]
    assert mirror_all(tmp_path, {"one": more, "two": more}, "online") == []
    assert sync(tmp_path, capsys) == (0, f"nothing to upload below {tmp_path}")
    assert len(server.store.runs) == 3
    for name in ("one", "two"):
        run = server.store.named(f"{name} tutorial float32 M=4096")
        assert run.history("time_us") == [(n, n) for n in (1024, 2048, 4096, 8192)]
        assert (run.exit_code, run.summary["points"], run.summary["failed"]) == (1, 5, 1)
        assert run.fields["project"] == "softmax-roofline"
        rows = tmp_path / "tutorial" / "native-auto" / name / "rows.jsonl"
        assert rows.read_bytes() in server.store.uploads.values()
    assert set(server.store.named("rows a sweep").artifacts) == {"rows-a-sweep"}


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
    assert sync(tmp_path, capsys) == (0, f"uploaded 2 runs from {tmp_path}")
    run = server.store.named(RUN)
    assert [cols for cols, _ in run.history("time_us")] == [1024, 4096]
    assert (run.exit_code, run.summary["failed"]) == (1, 1)
    again = [timed(512), timed(1024), timed(2048, attempt=2), timed(4096), timed(8192)]
    assert mirrored(sweep, again) == []
    assert sync(tmp_path, capsys) == (0, f"uploaded 2 runs from {tmp_path}")
    assert [cols for cols, _ in run.history("time_us")] == [1024, 4096, 512, 2048, 8192]
    assert (run.summary["points"], run.exit_code) == (5, 0)
    [file] = rows_files(sweep)
    assert file.read_bytes() in server.store.uploads.values()
    assert server.store.named("rows a sweep").artifacts == ["rows-a-sweep"] * 2  # a version each
    before = len(server.requests)
    assert sync(tmp_path, capsys) == (0, f"nothing to upload below {tmp_path}")
    assert len(server.requests) == before


def test_make_sync_without_a_folder_is_one_line(tmp_path: Path) -> None:
    done = make("sync", f"OUT={tmp_path / 'none'}", f"PY={sys.executable}", "READY=")
    assert done.returncode != 0
    assert done.stderr.startswith(f"error: --out {tmp_path / 'none'}: no such folder\n")
