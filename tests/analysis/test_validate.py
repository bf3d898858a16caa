"""A folder is taken if it is whole, possible and says nothing of whose machine it was."""

import io
import json
import re
import shutil
import socket
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from analysis import validate
from analysis.__main__ import main
from analysis.load import load
from experiments.data.rows import recorded_jobs
from tests.analysis.conftest import Refused
from tests.analysis.plausible import write
from tests.conftest import QUICK, REFERENCE, Command, shape

SETS = [path.parent.parent.name for path in REFERENCE.glob("*/*/rows.jsonl.gz")]
RECORDED = REFERENCE / "h200" / "exploration"
KERNELS = ("torch", "fused_row", "copy", "copy_triton")
JOB = "vocab/native-auto/torch"
TORCH, CONFIG = f"{JOB}/rows.jsonl", f"{JOB}/config.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four kernels on one grid, cut from a recording: the files of their sweep, as it left them."""
    folder = tmp_path / "contributed"
    for job in recorded_jobs(RECORDED):
        if job.name.startswith("vocab/") and job.name.rpartition("/")[2] in KERNELS:
            write(folder / job.name, job.rows)
            (folder / job.name / "config.json").write_text(json.dumps(job.config))
    for name in ("sweep.json", "variants.json"):
        shutil.copy(RECORDED / name, folder)
    return folder


def edit(path: Path, line: int, **changes: Any) -> None:
    """Changes fields of one line, from 1."""
    rows = [json.loads(row) for row in path.read_text().splitlines()]
    rows[line - 1] |= changes
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def validated(folder: Path, *arguments: str) -> tuple[int, str]:
    """The status of ``python -m analysis validate`` for a folder, and what it prints."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        status = main(["validate", "--rows", str(folder), *arguments])
    return status, printed.getvalue()


@pytest.mark.parametrize("name", sorted(set(SETS)))
def test_every_committed_recording_is_valid(name: str, tmp_path: Path) -> None:
    status, text = validated(REFERENCE / name, "--out", str(tmp_path / "taken"))
    assert status == 0, text
    assert text.count(" is a recording already") == SETS.count(name)


def test_a_sweep_is_packed_as_a_recording_and_nothing_else_is_copied(
    folder: Path, tmp_path: Path
) -> None:
    for name in (".hydra/multirun.yaml", "wandb/run/debug.log", "figures/a.svg", "worker.log"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("cwd: /home/somebody/softmax\n")
    (folder / "wandb" / "latest-run").symlink_to("run")
    taken = tmp_path / "reference" / "rtx_4090" / "paper"
    edit(folder / TORCH, 1, sequence=3)
    status, text = validated(folder, "--out", str(taken))
    assert status == 0
    assert re.search(r"note: \S+: rows missing, .*: 3\n\nvalid: 41 rows of NVIDIA H200\n", text)
    assert {path.name for path in taken.iterdir()} == {
        *("rows.jsonl.gz", "jobs.jsonl.gz", "sweep.json", "variants.json")
    }
    assert load(taken)["time_us"].equals(load(folder)["time_us"])
    assert [*recorded_jobs(taken)] == [*recorded_jobs(folder)]
    assert load(taken.parents[1])["set"].unique().tolist() == ["rtx_4090"]


def test_the_shards_that_slurm_ran_are_packed_as_one_sweep(folder: Path, tmp_path: Path) -> None:
    shard = folder / "shards" / "1a2b"
    shard.mkdir(parents=True)
    (folder / "vocab").rename(shard / "vocab")
    (folder / "variants.json").rename(shard / "variants.json")
    shutil.copy(folder / "sweep.json", shard)
    shutil.copy(REFERENCE / "h200" / "counters.jsonl", shard)
    status, text = validated(folder, "--out", str(tmp_path / "taken"))
    assert (status, text.count("rows.jsonl.gz")) == (0, 1), text
    status, text = validated(tmp_path / "taken")
    assert (status, "valid: 41 rows" in text) == (0, True), text


def test_a_recording_of_a_cpu_in_a_folder_named_as_a_card_is_valid(
    sweep: Command, tmp_path: Path
) -> None:
    asked = ["kernel=torch", *shape(64, 4096), "dtype=float32", *QUICK]
    swept = sweep(*asked, out=tmp_path / "rtx_4090")
    assert swept.status == 0, swept.stderr
    status, text = validated(tmp_path / "rtx_4090", "--out", str(tmp_path / "taken"))
    assert (status, "missing" in text) == (0, False), text
    last = max(swept.rows, key=lambda row: row.sequence or 0)
    next((tmp_path / "rtx_4090").rglob(f"{last.kernel}/rows.jsonl")).unlink()
    assert "rows missing, by number or plan: 1\n" in validated(tmp_path / "rtx_4090")[1]


WRONG: dict[str, dict[str, Any]] = {
    "field 'status'": {"status": "fine"},
    "field 'hostname': Extra inputs are not permitted": {"hostname": "here"},
    "a row of sweep 'other'; keep it beside its sweep.json": {"sweep": "other"},
    "environment has 'hostname', which no sweep writes": {"environment": {"hostname": "deep"}},
    "a path: 'at /scratch/ada/x'; blank that text": {"reason": "at /scratch/ada/x"},
    "the key 'x y' is not a hash": {"key": "x y"},
    "time 1 µs or its interval is not that of its samples": {"time_us": 1.0},
    "status ok, but no samples or no time": {"samples_us": None},
    "status crashed, but it has a time": {"status": "crashed"},
}


def test_a_field_that_is_wrong_is_named_by_file_and_line_with_a_remedy(folder: Path) -> None:
    for line, change in enumerate(WRONG.values(), start=1):
        edit(folder / TORCH, line, **change)
    with (folder / TORCH).open("a") as file:
        file.write((folder / TORCH).read_text().splitlines(keepends=True)[-1] + '{"key": 1')
    status, text = validated(folder)
    assert status == 1
    lines = text.splitlines()
    repeated = {f"key, card, round and attempt of {TORCH}:9; remove one": {}}
    for number, said in enumerate(WRONG | repeated, start=1):
        assert any(f"{TORCH}:{number}: " in one and said in one for one in lines), said
    assert any(
        f"{TORCH}:11: not JSON" in one and "run the same sweep again" in one for one in lines
    )
    assert all(one.isprintable() and "; " in one for one in lines if one.startswith("problem"))


def test_a_time_beyond_the_datasheet_or_of_another_card_is_named(folder: Path) -> None:
    copy = folder / TORCH.replace("torch", "copy")
    rows = [json.loads(line) for line in copy.read_text().splitlines()]
    line = 1 + max(range(len(rows)), key=lambda i: rows[i]["compulsory_bytes"])
    names = ("time_us", "time_low_us", "time_high_us")
    third = {name: rows[line - 1][name] / 3 for name in names}
    third["samples_us"] = [us / 3 for us in rows[line - 1]["samples_us"]]
    edit(copy, line, **third)
    assert "GB/s, and NVIDIA H200 has 4,800; measure that point again" in validated(folder)[1]
    edit(folder / TORCH, 1, gpu="NVIDIA L4")
    assert "rows of NVIDIA H200, NVIDIA L4; make a folder for each card" in validated(folder)[1]


PRIVATE = (
    *("/home/ada/softmax/.venv", "C:\\Users\\ada\\softmax", "~/softmax", "\\\\fileserver\\share"),
    *("login.hpc.example.edu", "ada@box", "https://ada:secret@wandb.ai/x", "user: adalovelace"),
    *("10.0.0.1:8080", "00:1b:44:11:3a:b7", "2001:db8::8a2e:370:7334", "serial: 1654422001234"),
    *("GPU-9f0c1f6e-5b0e-4d0e-8b7a-2f1d3c4b5a69", "api_key=0123456789ab", "AKIAIOSFODNN7EXAMPLE"),
    *("Bearer abcdef0123456789", "s3://b/key", "-----BEGIN PRIVATE KEY-----"),
)


def test_no_text_says_whose_machine_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "deepthought.example")
    monkeypatch.setenv("USER", "lovelace")
    validate.private.cache_clear()
    for text in (*PRIVATE, "at deepthought", "asked by lovelace"):
        value = {"reason": f"RuntimeError: {text}", "environment": {"packages": {text: ["1.0"]}}}
        assert all(any(validate.private_texts(json.dumps({k: v}))) for k, v in value.items()), text
    validate.private.cache_clear()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kernel": {"_target_": "os.system"}}, "code that is not of this project"),
        ({"callbacks": {"_target_": "os.system"}}, "field 'callbacks'"),
        ({"rounds": 10**9}, "field 'rounds'"),
        ({"gpu": {"name": "x", "match": "(A+)+$", "device": "auto", "card": None, "facts": {}}},
         "gpu.match is in no file of conf/gpu"),
    ],
)  # fmt: skip
def test_a_configuration_that_this_project_would_not_write_is_named(
    change: dict[str, Any], said: str, folder: Path
) -> None:
    config = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps(config | change))
    status, text = validated(folder)
    assert status == 1
    assert f"problem: {CONFIG}: " in text
    assert said in text


def test_bad_input_is_one_line_and_nothing_is_overwritten(
    folder: Path, tmp_path: Path, refused: Refused
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(folder)
    for made in ("absent", "empty", "link"):
        error = refused("validate", "--rows", str(tmp_path / made))
        assert error.startswith(f"error: {tmp_path / made}: no ")
    for out in (tmp_path, tmp_path / "link"):
        refused("validate", "--rows", str(folder), "--out", str(out))
