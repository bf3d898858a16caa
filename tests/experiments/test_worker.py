"""The worker's protocol: whatever a child prints, sends or dies of costs its own request alone."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from experiments.child import one_line
from experiments.sweep import client
from experiments.sweep.client import Worker, WorkerDied, WorkerError

TIMING = {
    "timer": "auto", "cache": "warm", "warmup": 1, "min_samples": 3, "max_samples": 3,
    "precision": 0.5, "sampling_limit_s": 30.0,
}  # fmt: skip


def measured(worker: Worker, double: str, **tunables: Any) -> dict[str, Any]:
    config = {"_target_": f"tests.doubles.{double}", **tunables}
    point = {
        "kernel": config, "rows": 2, "cols": 4, "dtype": "float32", "seed": 0, "timing": TIMING
    }  # fmt: skip
    limits = {"compiling": 60.0, "sampling": 60.0}
    return worker.request({"do": "measure", "point": point}, limits, "sampling")


def test_prints_of_any_kind_go_to_a_log_of_bounded_size(worker: Worker) -> None:
    worker.stop()
    worker.log.write_bytes(b"x" * client.LARGEST_LOG)  # full: it is emptied as a worker starts
    assert measured(worker, "loud.Loud")["status"] == "ok"
    end = time.monotonic() + 30  # what was printed is on its way
    while len(text := worker.log.read_bytes()) < client.LARGEST_LOG and time.monotonic() < end:
        time.sleep(0.02)
    assert b"a banner at import\nbytes \xff at import, without an end" in text
    assert b"from a thread\nhalf a pair: \\ud800\n\xfe" in text
    assert len(text) == client.LARGEST_LOG


def test_a_line_on_the_workers_own_pipe_costs_its_own_point_and_no_other(worker: Worker) -> None:
    with pytest.raises(WorkerDied, match="died while compiling: it sent 'this is not a message'"):
        measured(worker, "loud.Meddle")
    assert measured(worker, "kernels.Good")["status"] == "ok"


def test_a_worker_that_dies_while_it_starts_is_started_thrice_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        f"import os\nopen({str(tmp_path / 'births')!r}, 'a').write('+')\nos._exit(9)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    worker = Worker("cpu", 0, tmp_path / "worker.log")
    with pytest.raises(WorkerError, match="the worker did not start: exit status 9"):
        worker.start()
    assert (tmp_path / "births").read_text() == "+++"


@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_a_log_is_a_regular_file_or_no_worker_starts(tmp_path: Path, kind: str) -> None:
    log, elsewhere = tmp_path / "worker.log", tmp_path / "precious"
    elsewhere.write_text("untouched")
    {"pipe": os.mkfifo, "link": lambda p: p.symlink_to(elsewhere), "folder": Path.mkdir}[kind](log)
    with pytest.raises(WorkerError, match=r"worker\.log cannot be written: "):
        Worker("cpu", 0, log).start()
    assert elsewhere.read_text() == "untouched"


def test_an_error_in_one_line_names_no_path_user_or_host() -> None:
    text = one_line(RuntimeError("first\nsecond of /home/someone/secret/file.py " + "x" * 400))
    assert text.startswith("RuntimeError: first second of file.py xxx")
    assert len(text) == 300
