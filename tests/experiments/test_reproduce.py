"""The recorded points, measured again under their own keys; what cannot be is one line."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from experiments.data.rows import Row, read_rows, recorded_jobs, rows_files
from experiments.reproduce import deviation, main
from tests.conftest import rows_below


@pytest.fixture
def folder(sweep_of_four: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sweep_of_four, tmp_path / "recorded"))


def points(folder: Path) -> list[tuple[Any, ...]]:
    return sorted((r.kernel, r.rows, r.cols, r.dtype, r.round, r.key) for r in rows_below(folder))


def rewrite(folder: Path, change: Callable[[Row], Row | None]) -> None:
    """Puts changed rows in the place of those below a folder; None removes one."""
    for path in rows_files(folder):
        kept = [new for row in read_rows(path) if (new := change(row)) is not None]
        path.write_text("".join(row.model_dump_json() + "\n" for row in kept))


def test_exactly_the_recorded_points_are_measured_again_under_their_keys(
    folder: Path, pool: None, tmp_path: Path, capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    rewrite(folder, lambda r: None if (r.cols, r.dtype) == (16, "float16") else r)
    again = tmp_path / "again"
    command = ["--rows", str(folder), "--out", str(again)]
    assert main([*command, "--dry-run"]) == 0
    assert "     12 points to measure again" in capfd.readouterr().out
    assert rows_files(again) == []
    compared: list[list[str]] = []

    def compare(words: list[str], **_: Any) -> SimpleNamespace:
        compared.append(words)
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(subprocess, "run", compare)
    assert main(command) == 0
    assert points(again) == points(folder)
    assert "12 points were measured again as recorded" in capfd.readouterr().out
    assert compared[0][1:6] == ["-m", "analysis", "compare", str(folder), str(again)]
    rewrite(again, lambda r: None if r.round == 1 else r)  # interrupted, it goes on
    assert main(command) == 0
    assert points(again) == points(folder)
    assert {row.attempt for row in rows_below(again)} == {1}


def test_points_that_come_back_otherwise_are_counted_by_what_differs(folder: Path) -> None:
    row = rows_below(folder)[0]
    there = row.environment
    assert (deviation(row, row), deviation(row, None)) == ("", "it was not measured")
    for fields, said in (
        ({"environment": there | {"torch": "9"}}, f"torch {there['torch']} → 9"),
        ({"environment": there | {"source": "b"}}, f"source {there['source']} → b"),
        ({"gpu": "X"}, f"gpu {row.gpu} → X"),
        ({}, "do not record"),
    ):
        assert said in deviation(row, row.model_copy(update={"key": "other"} | fields))


def replace(folder: Path, **fields: Any) -> None:
    rewrite(folder, lambda row: row.model_copy(update=fields))


def wrong(folder: Path, **changes: Any) -> None:
    path = rows_files(folder)[0].parent / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


ENDLESS = {"protocol": {"warmup": 10**9}}
WRONG: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no sweep": (lambda f: (f / "sweep.json").unlink(), "no rows with their sweep.json"),
    "torn row": (lambda f: rows_files(f)[0].write_text("{}\n"), "rows.jsonl:1: field 'key': "),
    "warmup": (
        lambda f: replace(f, environment=ENDLESS),
        "'timing.warmup': Input should be less than or ",
    ),
    "unknown": (lambda f: wrong(f, colour="red"), "is no job's configuration"),
    "class": (lambda f: wrong(f, kernel={"_target_": "tests.x.X"}), "no class below kernels"),
    "the same": (lambda f: None, "is a recorded sweep itself"),
    "another card": (lambda f: replace(f, gpu="NVIDIA H200"), "wants NVIDIA H200, but this is"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_repeated_is_refused_in_one_line_before_anything_runs(
    case: str, folder: Path, pool: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change, complaint = WRONG[case]
    change(folder)
    out = folder if case == "the same" else tmp_path / "again"
    assert main(["--rows", str(folder), "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert re.fullmatch(rf"error: .*{re.escape(complaint)}.*\n", error), error
    assert rows_files(tmp_path / "again") == []


def test_a_recorded_tracker_expression_or_tunable_that_is_gone_is_not_used(
    folder: Path, pool: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    strange = {"backend": "wandb", "mode": "online", "project": "theirs", "entity": "stranger"}
    gpu = {"name": "x", "match": "(A+)+$", "device": "cpu", "card": None, "facts": {}}
    gone = {"_target_": "kernels.softmax.gone.Online", "num_stages": 1}
    wrong(folder, tracker=strange, gpu=gpu, kernel=gone)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=0))
    assert main(["--rows", str(folder), "--out", str(tmp_path / "again")]) == 0
    own = re.escape(rows_below(folder)[0].gpu)
    for job in recorded_jobs(tmp_path / "again"):
        assert job.config
        assert job.config["kernel"]["_target_"] == job.rows[-1].environment["target"]
        assert "num_stages" not in job.config["kernel"]
        assert job.config["gpu"]["match"] == f"^{own}$"
        assert job.config["tracker"]["backend"] == "none"
        assert job.config["tracker"]["entity"] is None
