"""The mirror: real W&B files offline, a stand-in for the server online, and what goes wrong."""

import getpass
import json
import platform
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from experiments import wandb
from experiments.data.jobs import TrackerConfig
from experiments.data.rows import Row
from experiments.parent.jobs import Job
from tests.analysis.plausible import row
from tests.conftest import QUICK, Command, shape
from tests.doubles.wandb import REFUSED_KEY, Server

KEY = "k" * 40


def timed(cols: int, **changes: Any) -> Row:
    """A row of 4096 × ``cols`` float32 that took ``cols`` microseconds."""
    own = {"params": {"block_size": 1024}, "model_formula": "3MN", "time_us": float(cols)}
    return row("online", cols, key=f"{cols} {changes}", **own | changes)


ROWS = [timed(1024), timed(2048), timed(4096, time_us=None, status="unsupported")]
RUN = "online tutorial float32 M=4096"


def job(rows: list[Row], name: str = "online") -> tuple[Job, list[Row]]:
    """A job with the rows that a sweep has of it at its end."""
    shapes = tuple(dict.fromkeys((row.rows, row.cols) for row in rows))
    dtypes = tuple({row.dtype for row in rows})
    return Job(f"tutorial/native-auto/{name}", "online", {}, shapes, dtypes), rows


def mirrored(out: Path, rows: list[Row], **tracker: Any) -> list[str]:
    out.mkdir(parents=True, exist_ok=True)
    return wandb.mirror("a sweep", [job(rows)], TrackerConfig(**tracker), out)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """The server of a user without settings."""
    with Server() as server:
        for name, value in (("HOME", str(tmp_path / "home")), ("NO_PROXY", "127.0.0.1"),
                            ("WANDB_API_KEY", KEY), ("WANDB_BASE_URL", server.url)):  # fmt: skip
            monkeypatch.setenv(name, value)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.deaf = False
        server.shutdown()


def synced(out: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The one line of ``make sync``."""
    capsys.readouterr()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["wandb", "--out", str(out)])
        wandb.main()
    shown = "".join(capsys.readouterr())
    assert shown.count("\n") == 1, shown
    return shown.rstrip()


def test_a_sweep_mirrored_offline_becomes_runs_that_tell_nothing_about_this_machine(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    with monkeypatch.context() as patch:  # someone without key or home, whose variable renames runs
        patch.setenv("HOME", "/nonexistent")
        patch.setenv("WANDB_RUN_ID", "not-this-one")
        patch.delenv("WANDB_API_KEY")
        assert mirrored(tmp_path / "out", ROWS) == []
        patch.setattr(wandb, "_run", None)  # nothing new starts no W&B
        assert mirrored(tmp_path / "out", ROWS) == []
        assert mirrored(tmp_path / "out", [*ROWS, timed(8192)], backend="none") == []
    out = (tmp_path / "out").rename(tmp_path / "moved")
    assert server.received == []
    assert "none: no such folder" in synced(tmp_path / "none", capsys)
    for key, why in ((REFUSED_KEY, "1 of 1 runs were not uploaded"), ("", "set WANDB_API_KEY")):
        monkeypatch.setenv("WANDB_API_KEY", key)
        assert why in synced(tmp_path, capsys)
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    assert server.runs == {}
    assert synced(tmp_path, capsys) == f"uploaded 1 run from {tmp_path}"
    stored = b"".join(file.read_bytes() for file in out.glob("wandb/**/*") if file.is_file())
    names = {platform.node(), getpass.getuser(), str(tmp_path), str(Path.cwd()), sys.executable,
             *sys.argv[1:], "wandb.__main__"}  # fmt: skip
    secrets = [name for name in names if len(name) > 4]  # short ones may occur by chance
    assert [secret for secret in secrets if secret.encode() in stored] == []
    assert [secret for secret in secrets if secret in "\n".join(server.received)] == []
    [run] = server.named(RUN)
    assert "host" not in run
    assert (run["project"], run["groupName"], run["jobType"]) == (
        "softmax-roofline", "a sweep", "online",
    )  # fmt: skip
    config = {key: one["value"] for key, one in json.loads(run["config"]).items()}
    assert {key: value for key, value in config.items() if key != "_wandb"} == {
        "kernel": {"name": "online", "backend": "triton", "block_size": 1024}, "grid": "tutorial",
        "M": 4096, **{name: getattr(ROWS[0], name) for name in wandb.VALUES},
    }  # fmt: skip
    lines = [(line["N"], line["time_us"]) for _, line in sorted(run["lines"].items())]
    assert lines == [(1024, 1024.0), (2048, 2048.0)]
    best = 4096 * 8 / 1e3
    assert run["lines"][0]["effective_gbps"] == pytest.approx(best)
    assert run["summary"]["effective_gbps"] == {"max": pytest.approx(best)}
    assert {name: run["summary"].get(name) for name in ("points", "ok", "unsupported")} == {
        "points": 3, "ok": 2, "unsupported": 1,
    }  # fmt: skip
    assert ("time_us" in run["summary"], run["exit_code"]) == (False, 0)
    metrics = config["_wandb"]["m"]  # 1: a name; 5: the number of its axis, from 1
    axes = {one["1"]: metrics[one["5"] - 1]["1"] for one in metrics if "5" in one}
    assert axes == dict.fromkeys({*run["lines"][0]} & {*wandb.LOGGED}, "N")
    before = len(server.received)
    assert synced(tmp_path, capsys) == f"nothing to upload below {tmp_path}"
    assert len(server.received) == before


def test_each_run_is_a_curve_over_n_or_over_m_where_n_is_fixed() -> None:
    def at(*shapes: tuple[int, int], **changes: Any) -> list[Row]:
        return [timed(n, rows=m, **changes) for m, n in shapes]

    jobs = [
        job([*at((8, 64), (1, 64)), *at((1, 64), (8, 64), dtype="float16")], "batch"),
        job([*at((8, 64), (8, 32), (2, 32), (2, 64)), *at((2, 64), round=1)], "grid"),
        job(at((3, 7), (9, 5)), "irregular"),
    ]
    assert {
        run["name"].replace(" tutorial", ""): [run["axis"]]
        + [(line["M"], line["N"]) for line in run["lines"]]
        for run in wandb.runs_of("a sweep", jobs)
    } == {
        "batch float32 N=64": ["M", (1, 64), (8, 64)],
        "batch float16 N=64": ["M", (1, 64), (8, 64)],
        "grid float32 M=2": ["N", (2, 32), (2, 64), (2, 64)],
        "grid float32 M=8": ["N", (8, 32), (8, 64)],
        "irregular float32": ["N", (9, 5), (3, 7)],
    }


def test_a_sweep_without_a_gpu_shows_errors_and_modelled_bytes(
    sweep: Command, server: Server, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["-m", "kernel=online", *shape(4, [8, 16]), "dtype=float32", "tracker=wandb", *QUICK]
    done = sweep(*words)
    assert (done.status, "warning" in done.stderr) == (0, False), done.stderr
    assert synced(done.out, capfd) == f"uploaded 2 runs from {done.out}"
    [run] = [run for run in server.runs.values() if run["jobType"] == "online"]
    lines = [line for _, line in sorted(run["lines"].items())]
    assert [(line["N"], line["model_bytes"]) for line in lines] == [(8, 384), (16, 768)]
    assert all("time_us" not in line and 0 < line["relative_error"] < 1e-6 for line in lines)


def test_a_lost_server_costs_a_warning_and_a_longer_curve_replaces_what_waits(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.deaf = True
    with monkeypatch.context() as patch:
        patch.setattr(wandb, "LIMIT_S", 2)
        [warning] = mirrored(tmp_path, ROWS, mode="online")
    assert warning.startswith("W&B online: no answer within 2 s; the rows are complete on disk")
    server.deaf = False
    crashed = timed(4096, time_us=None, status="crashed")
    assert mirrored(tmp_path, [*ROWS[:2], crashed], mode="online") == []
    [run] = server.named(RUN)
    assert (len(run["lines"]), run["summary"]["crashed"], run["exit_code"]) == (2, 1, 1)
    longer = [*ROWS[:2], timed(4096)]
    for _ in range(2):
        assert mirrored(tmp_path, longer, mode="online") == []
        assert [len(run["lines"]) for run in server.named(RUN)] == [2, 3]  # the uploaded one stays
