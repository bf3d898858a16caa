"""The mirror offline: real W&B files, read back."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.data.rows import rows_files
from experiments.mirror import child, mirror
from experiments.sweep.config import Tracker
from tests.wandb_files import read_offline
from tests.wandb_jobs import (
    METRIC,
    failure,
    job,
    mirror_all,
    mirrored,
    no_process_left,
    secrets_of_this_machine,
    timed,
)


@pytest.fixture(autouse=True)
def no_account(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No key, no home, and a variable that would rename every run."""
    monkeypatch.setenv("HOME", "/nonexistent")
    monkeypatch.setenv("WANDB_RUN_ID", "not-this-one")
    for name in ("WANDB_API_KEY", "WANDB_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with no_process_left():
        yield


def test_importing_the_mirror_does_not_import_wandb() -> None:
    check = "import sys, experiments.mirror, experiments.sync; assert 'wandb' not in sys.modules"
    subprocess.run([sys.executable, "-c", check], check=True)


def test_a_job_becomes_a_run_with_its_group_axis_headline_and_rows(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = [
        timed(1024),
        timed(2048),
        timed(1024, key="h", dtype="float16"),
        timed(1024, key="m", rows=8),
        timed(4096, key="u", status="unsupported", time_us=None),
    ]
    assert mirrored(tmp_path, rows) == []
    assert capfd.readouterr() == ("", "")
    [run] = read_offline(tmp_path)
    assert (run.id, run.group, run.job_type) == ("s-online", "a sweep", "online")
    assert run.name == "online/tutorial/float32"
    assert run.config["kernel"] == {"_target_": "kernels.softmax.Online"}
    assert run.config["a_b"] == 1
    assert [(line["cols"], line[METRIC]) for line in run.lines if METRIC in line] == [
        (1024, 1024.0),
        (2048, 2048.0),
    ]
    assert run.lines[0]["float32_M4096/effective_gbps"] == pytest.approx(4096 * 8 / 1e3)
    assert {"float32_M4096/*", "float16_M4096/*", "float32_M8/*"} <= set(run.axes)
    assert run.axes["float32_M4096/*"] == "cols"
    assert (run.summary["points"], run.summary["ok"], run.summary["unsupported"]) == (5, 4, 1)
    assert run.summary["best_effective_gbps"] == pytest.approx(4096 * 8 / 1e3)
    assert METRIC not in run.summary
    assert run.artifacts == [("rows-s-online", "rows")]
    assert run.exit_code == 0


def test_a_failed_job_is_shown_as_failed_with_its_measured_points(tmp_path: Path) -> None:
    assert mirrored(tmp_path, [timed(1024), failure(2048)]) == []
    [run] = read_offline(tmp_path)
    assert run.exit_code == 1
    assert (run.summary["failed"], len(run.lines)) == (1, 1)


def test_nothing_new_starts_no_wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert mirrored(tmp_path, [timed(1024)]) == []
    monkeypatch.setattr(child, "WRITER", tmp_path / "there is no such file")
    assert mirrored(tmp_path, [timed(1024)]) == []
    assert mirrored(tmp_path, [timed(1024), timed(2048)]) != []


def test_a_resumed_sweep_logs_only_what_is_new_at_the_steps_that_follow(tmp_path: Path) -> None:
    assert mirrored(tmp_path, [timed(1024), failure(2048), timed(4096)]) == []
    again = [timed(512), timed(1024), timed(2048, attempt=2), timed(4096)]
    assert mirrored(tmp_path, again) == []
    first, second = read_offline(tmp_path)
    assert first.id == second.id
    assert (first.exit_code, second.exit_code) == (1, 0)
    assert [(line["_step"], line["cols"]) for line in first.lines] == [(0, 1024), (1, 4096)]
    assert [(line["_step"], line["cols"]) for line in second.lines] == [(2, 512), (3, 2048)]
    assert second.summary["points"] == 4


def test_what_a_killed_writer_left_is_replaced_by_the_whole_run(tmp_path: Path) -> None:
    assert mirrored(tmp_path, [timed(1024)]) == []
    (tmp_path / "wandb" / "mirrored.json").unlink()
    assert mirrored(tmp_path, [timed(1024), timed(2048)]) == []
    [run] = read_offline(tmp_path)
    assert [line["cols"] for line in run.lines] == [1024, 2048]


def test_offline_files_tell_nothing_about_host_user_path_or_arguments(tmp_path: Path) -> None:
    assert mirrored(tmp_path, [timed(1024)]) == []
    told = b"".join(file.read_bytes() for file in tmp_path.glob("wandb/**/*") if file.is_file())
    assert [secret for secret in secrets_of_this_machine(tmp_path) if secret.encode() in told] == []
    assert read_offline(tmp_path)[0].host == ""


def test_seventy_jobs_are_mirrored_within_fifteen_seconds(tmp_path: Path) -> None:
    start = time.monotonic()
    rows = {f"s-job{i}": [timed(256 * n, key=f"{i}-{n}") for n in range(1, 21)] for i in range(70)}
    assert mirror_all(tmp_path, rows) == []
    assert len(read_offline(tmp_path)) == 70
    assert time.monotonic() - start < 15


def test_no_tracker_leaves_no_trace(tmp_path: Path) -> None:
    rows = [timed(1024)]
    assert mirror([job(tmp_path, rows)], {}, Tracker(backend="none"), tmp_path) == []
    assert not (tmp_path / "wandb").exists()


def test_the_mirror_adds_no_rows_file_to_the_sweep(tmp_path: Path) -> None:
    assert mirrored(tmp_path, [timed(1024)]) == []
    assert rows_files(tmp_path) == [tmp_path / "s-online" / "rows.jsonl"]
