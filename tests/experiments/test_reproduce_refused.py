"""What cannot be measured again is said in one line, before anything runs."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.data.rows import read_rows, rows_files
from experiments.reproduce import main, recorded
from tests.experiments.test_reproduce import points


def wrong(folder: Path, **changes: Any) -> None:
    path = rows_files(folder)[0].parent / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


WRONG: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no rows": (lambda f: [p.unlink() for p in rows_files(f)], "no rows.jsonl in it"),
    "empty": (lambda f: [p.write_text("") for p in rows_files(f)], "its rows files are empty"),
    "no sweep": (lambda f: (f / "sweep.json").unlink(), "no sweep.json above it"),
    "no config": (lambda f: [p.unlink() for p in f.rglob("config.json")], "config.json: missing"),
    "torn": (lambda f: [p.write_text("{") for p in f.rglob("config.json")], "no job's configur"),
    "a list": (lambda f: [p.write_text("[]") for p in f.rglob("config.json")], "no job's config"),
    "deep": (lambda f: [p.write_text("[" * 10**5) for p in f.rglob("config.json")], "no job's"),
    "bytes": (lambda f: [p.write_bytes(b"\xff") for p in f.rglob("config.json")], "no job's conf"),
    "unknown": (lambda f: wrong(f, colour="red"), "config.json: no job's configuration"),
    "a text": (lambda f: wrong(f, rounds="many"), "config.json: no job's configuration"),
    "class": (lambda f: wrong(f, kernel={"_target_": "tests.x.X"}), "only a class below kernels"),
    "module": (lambda f: wrong(f, kernel={"_target_": "kernels"}), "only a class below kernels"),
    "up": (lambda f: wrong(f, kernel={"_target_": "kernels..x.X"}), "only a class below kernels"),
    "no gpu": (lambda f: wrong(f, gpu=None), "no job's configuration"),
    "timer": (lambda f: wrong(f, timing={"timer": "sundial"}), "config.json"),
    "torn row": (lambda f: rows_files(f)[0].write_text("{}\n"), "rows.jsonl:1: schema_version"),
    "moved": (lambda f: shutil.move(rows_files(f)[0], f / "rows.jsonl"), "in no job's folder"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_repeated_is_refused_in_one_line_before_anything_runs(
    case: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change, complaint = WRONG[case]
    change(folder)
    assert main(["--rows", str(folder), "--out", str(tmp_path / "again")]) == 2
    error = capsys.readouterr().err
    assert re.fullmatch(rf"error: .*{re.escape(complaint)}.*\n", error), error
    assert not (tmp_path / "again").exists()


def test_neither_the_tracker_nor_an_expression_of_a_recorded_folder_is_used(folder: Path) -> None:
    strange = {"backend": "wandb", "mode": "online", "project": "theirs", "entity": "stranger"}
    gpu = {"name": "x", "match": "(A+)+$", "device": "cpu", "card": None, "facts": {}}
    wrong(folder, tracker=strange, gpu=gpu)
    [sweep] = recorded(folder)
    assert {job.config["gpu"]["match"] for job in sweep.jobs} == {None}
    assert [job.config["tracker"] for job in sweep.jobs] == [
        {"backend": "none", "mode": "offline", "project": "softmax-roofline", "entity": None}
    ] * len(sweep.jobs)
    for path in folder.glob("*/*-cpu"):
        path.rename(path.with_name(path.name.replace("-cpu", "-h200")))
    [sweep] = recorded(folder)
    assert {job.config["gpu"]["match"] for job in sweep.jobs} == {"^NVIDIA H200$"}


def test_rows_of_another_gpu_are_not_measured_here_unasked(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in rows_files(folder):
        changed = [row.model_copy(update={"gpu": "NVIDIA H200"}) for row in read_rows(path)]
        path.write_text("".join(row.model_dump_json() + "\n" for row in changed))
    assert main(["--rows", str(folder), "--out", str(tmp_path / "again")]) == 2
    assert "the rows are of NVIDIA H200, and this is" in capsys.readouterr().err
    assert rows_files(tmp_path / "again") == []


def test_the_recorded_folder_itself_is_not_written_into(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = points(folder)
    assert main(["--rows", str(folder), "--out", str(folder)]) == 2
    assert "is a recorded sweep itself" in capsys.readouterr().err
    assert points(folder) == before
