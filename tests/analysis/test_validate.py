"""A folder is taken if it is whole, possible and says nothing of whose machine it was."""

from __future__ import annotations

import getpass
import json
import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from omegaconf import OmegaConf

from analysis.load import read_inputs
from analysis.validate import forms
from experiments.data.packed import recording
from experiments.data.rows import rows_files
from experiments.worker.describe import describe
from kernels.device import Device
from tests.analysis.contributed import (
    CONFIG,
    COPY,
    REFERENCE,
    TORCH,
    contributed,
    edit,
    edit_config,
    lines_of,
    rescaled,
    validated,
    write_json,
)
from tests.analysis.hostile import HOSTILE, Harm
from tests.conf import options
from tests.conftest import QUICK, ROOT, Composed, command_line, shape
from tests.faults.corruption import DAMAGE, Damage

LARGE, SMALL = (8192, 65536), (8192, 512)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return contributed(tmp_path)


def test_a_recorded_folder_is_valid_copied_whole_and_read(tmp_path: Path) -> None:
    recorded = recording(REFERENCE / "h200_exploration")
    answer = validated(recorded, "--out", str(tmp_path / "taken"))
    assert (answer.status, answer.problems) == (0, [])
    assert answer.verdict.startswith("valid: ")
    assert len(rows_files(tmp_path / "taken")) == len(rows_files(recorded))
    assert validated(tmp_path / "taken").verdict == answer.verdict
    assert len(read_inputs(tmp_path / "taken", tmp_path / "out", "tables").frame) > 40


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_folder_is_refused_and_nothing_of_it_is_copied(
    name: str, folder: Path, tmp_path: Path
) -> None:
    HOSTILE[name](folder)
    answer = validated(folder)
    assert answer.status == 1, answer.text
    assert all(line.isprintable() and len(line) < 700 for line in answer.text.splitlines())
    taken = tmp_path / "taken"
    if name in ("report.html", "an archive of links", "tracker.entity"):  # what stays behind
        assert validated(folder, "--out", str(taken)).status == 0
        assert validated(taken).status == 0
    elif " is " in name or name.startswith("folder"):
        assert validated(folder, "--out", str(taken)).status == 1
        assert not taken.exists()


WRONG: dict[str, dict[str, Any]] = {
    "field 'status'": {"status": "fine"},
    "field 'hostname': Extra inputs are not permitted": {"hostname": "here"},
    "a row of 'naive' in the folder of 'torch'": {"kernel": "naive"},
    "a row of sweep 'other-000000' in the folder of": {"sweep": "other-000000"},
    "environment.hostname: 'a field that may not": {"environment": {"hostname": "deepthought"}},
    "reason: 'at /scratch/ada/x'": {"reason": "at /scratch/ada/x"},
}
IMPOSSIBLE: dict[str, dict[str, Any]] = {
    "time_us is 1, its samples make ": {"time_us": 1.0},
    "time_low_us is 0.5, its samples make ": {"time_low_us": 0.5},
    "status ok, but no samples or no time": {"samples_us": None},
    "status unsupported, but it has a time": {"status": "unsupported"},
    "compulsory_bytes is 1048576, in other rows of its shape ": {"compulsory_bytes": 1 << 20},
    "model_bytes is 7, its elements make ": {"model_bytes": 7},
    "its samples add up to ": {"sampling_s": 1e-6},
    "sampling and compiling took ": {"wall_s": 1e-6},
}


@pytest.mark.parametrize("changes", [WRONG, IMPOSSIBLE])
def test_a_field_that_is_wrong_is_named_by_file_and_line(
    changes: dict[str, dict[str, Any]], folder: Path
) -> None:
    for line, change in enumerate(changes.values(), start=1):
        edit(folder / TORCH, line, **change)
    answer = validated(folder)
    assert answer.status == 1
    for line, said in enumerate(changes, start=1):
        assert any(f"{TORCH}:{line}: " in one and said in one for one in answer.text.splitlines())


def test_a_line_that_is_no_row_is_named(folder: Path) -> None:
    lines = {"{}": "schema_version None", "[]": "a row is a JSON object", "": "not JSON",
             "\udcff": "not UTF-8 text", '{"schema_version": 9}': "schema_version 9; this",
             "{": "cut short"}  # fmt: skip
    path = folder / TORCH
    count = len(lines_of(path))
    path.write_bytes(path.read_bytes() + "\n".join(lines).encode(errors="surrogateescape"))
    answer = validated(folder)
    assert answer.problems == ["schema: no row"]
    for number, said in enumerate(lines.values(), start=count + 1):
        assert f"{TORCH}:{number}: {said}" in answer.text


def test_rows_that_repeat_each_other_are_named_with_the_first(folder: Path) -> None:
    path, rows = folder / TORCH, lines_of(folder / TORCH)
    path.write_text(path.read_text() + json.dumps(rows[2]) + "\n")
    edit(path, 2, key=rows[0]["key"], attempt=2)
    text = validated(folder).text
    assert f"{TORCH}:{len(rows) + 1}: the same key, card, round and attempt as {TORCH}:3" in text
    assert f"{TORCH}:2: its key is that of another point, {TORCH}:1" in text


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1, "a": 2}'])
def test_a_broken_file_beside_rows_is_named(text: str, folder: Path) -> None:
    broken = ["variants.json", CONFIG, "sweep.json", "counts.jsonl", "sessions.jsonl"]
    for name in broken:
        (folder / name).write_text(text)
    answer = validated(folder)
    assert all(f"  {name}: " in answer.text or f"  {name}:1: " in answer.text for name in broken)


def test_a_configuration_that_plans_nothing_is_named(folder: Path) -> None:
    edit_config(folder, "grid", rows=[])
    assert f"{CONFIG}: no job's configuration: grid.rows is empty" in validated(folder).text


def _without(*names: str) -> Harm:
    def harm(folder: Path) -> None:
        for path in (path for name in names for path in list(folder.glob(name))):
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return harm


def _undeclared(folder: Path) -> None:
    variants = json.loads((folder / "variants.json").read_text())
    write_json(folder / "variants.json", {n: v for n, v in variants.items() if n != "torch"})


ROUND = "vocab/native-auto/torch: float16: 9 of 18 missing: 8192×512, 8192×1024, "


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (_without("vocab/native-auto/torch"), "vocab/native-auto: no folder of torch, which other"),
        (_without("*/*/torch"), "batch/native-auto: no folder of torch, which other grids have or"),
        (_without("*/*/copy*"), "vocab/native-auto: no copy among its kernels"),
        (_undeclared, "variants.json: does not declare torch"),
        (_without("variants.json"), "variants.json: missing or broken"),
        (_without("sweep.json"), "sweep.json: missing, or no sweep's name in it"),
        (lambda f: shutil.move(f / "vocab/native-auto/torch", f), "it lies in no job's folder"),
        (_without(CONFIG), f"{CONFIG}: missing or broken"),
        (_without(TORCH), "vocab/native-auto/torch: float16: 9 of 9 missing: "),
        (lambda f: edit_config(f, "", rounds=2), ROUND),
        (lambda f: edit_config(f, "", rounds=2), ", in round 1\n"),
        (
            lambda f: edit(f / TORCH, 1, gpu="NVIDIA L4"),
            "the sweep: rows of NVIDIA H200, NVIDIA L4",
        ),
        (lambda f: (f / "vocab/rows.csv").write_text("x"), "vocab/rows.csv: no part of a sweep"),
        (lambda f: (f / "rows.tar.gz").write_text("x"), "rows.tar.gz: packed, so nothing in it"),
        (lambda f: (f / "table.md").write_text("ada@box\n"), "table.md:1: no line of a sweep's"),
        (
            lambda f: shutil.copytree(REFERENCE / "h200" / "tables", f / "tables"),
            "  tables: made of the rows, and not checked",
        ),
    ],
)
def test_what_a_folder_lacks_or_has_too_many_is_named(
    harm: Callable[[Path], object], said: str, folder: Path
) -> None:
    harm(folder)
    answer = validated(folder)
    assert answer.status == 1
    assert said in answer.text


def test_a_point_whose_last_row_failed_is_named_and_one_mended_later_is_not(folder: Path) -> None:
    path = folder / TORCH
    good = lines_of(path)[0]
    row = edit(path, 1, status="crashed", reason="the worker died while sampling", time_us=None)
    answer = validated(folder)
    assert (answer.status, answer.problems) == (0, [])  # a failure is a result, and is kept
    shape = f"{row['rows']}×{row['cols']}"
    assert f"vocab/native-auto/torch: float16: crashed at {shape}" in answer.text
    path.write_text(path.read_text() + json.dumps(good | {"attempt": 2}) + "\n")
    assert "crashed" not in validated(folder).text


def test_a_time_with_no_copy_beside_it_is_named(folder: Path) -> None:
    for name in ("copy", "copy_triton"):
        row = edit(folder / COPY.replace("copy", name), 1, status="timeout", time_us=None)
    answer = validated(folder)
    assert answer.problems == ["completeness: missing roof"]
    assert (
        f"torch {row['rows']}×{row['cols']} float16: timed without its roof, copy, beside"
        in answer.text
    )


def _faster(folder: Path, name: str, shape: tuple[int, int], factor: float) -> str:
    rows = lines_of(folder / name)
    line = 1 + [(row["rows"], row["cols"]) for row in rows].index(shape)
    edit(folder / name, line, **rescaled(rows[line - 1], 1 / factor))
    return f"{name}:{line}: "


def test_a_time_far_above_the_roof_is_named_and_one_a_little_above_is_a_warning(
    folder: Path,
) -> None:
    def time_of(name: str) -> float:
        rows = lines_of(folder / name)
        return next(r["time_us"] for r in rows if (r["rows"], r["cols"]) == LARGE)

    best = min(time_of(COPY), time_of(COPY.replace("copy", "copy_triton")))
    where = _faster(folder, TORCH, LARGE, 1.05 * time_of(TORCH) / best)
    answer = validated(folder)
    assert answer.status == 0
    assert f"{where}torch 8192×65536 float16: 105% of the bandwidth of its roof" in answer.text
    where = _faster(folder, TORCH, LARGE, 3)
    answer = validated(folder)
    assert "plausibility: far above the roof" in answer.problems
    assert where in answer.text


def test_a_roof_above_the_datasheet_is_named(folder: Path) -> None:
    where = _faster(folder, COPY, LARGE, 1.3)
    small = _faster(folder, COPY, SMALL, 6)  # cold, it cannot be read faster than memory gives it
    answer = validated(folder)
    assert "plausibility: above the datasheet" in answer.problems
    assert f"{where}copy 8192×65536 float16: 5," in answer.text
    assert "NVIDIA H200 has 4,800" in answer.text
    assert f"{small}copy 8192×512 float16" in answer.text
    assert "GB/s of reads" in answer.text


def test_what_a_reader_must_know_is_a_warning(folder: Path) -> None:
    known = lines_of(folder / TORCH)[0]["environment"]
    edit(folder / TORCH, 1, environment=known | {"dirty": True, "driver": "1.0"})
    answer = validated(folder)
    assert answer.status == 0
    rows = sum(len(path.read_text().splitlines()) for path in rows_files(folder))
    for said in (
        f"the sweep: 1 of {rows} rows name no commit whose code they measured",
        "the sweep: rows of 2 versions of driver: 1.0, 580.159.04",
        "the sweep: rows were flagged as measured: modes 8, throttled 2, trend 1",
    ):
        assert said in answer.text


def test_what_is_a_machines_own_is_a_warning_and_not_copied(folder: Path, tmp_path: Path) -> None:
    own = [".hydra/multirun.yaml", "wandb/run/debug.log", "slurm/1.out"]
    for name in own:
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text("cwd: /home/somebody/softmax\n")
    answer = validated(folder)
    assert answer.status == 0
    assert "  wandb: git ignores it below outputs/reference" in answer.text
    assert validated(folder, "--out", str(tmp_path / "taken")).status == 0
    assert not any((tmp_path / "taken" / name).exists() for name in own)


def test_a_strangers_account_stays_behind(folder: Path, tmp_path: Path) -> None:
    edit_config(folder, "tracker", entity="someone", project="secret")
    assert "tracker.entity and tracker.project name one" in validated(folder).text
    assert validated(folder, "--out", str(tmp_path / "taken")).status == 0
    kept = json.loads((tmp_path / "taken" / CONFIG).read_text())["tracker"]
    assert (kept["entity"], kept["project"]) == (None, "softmax-roofline")


PRIVATE = (
    "/home/ada/softmax/.venv", "C:\\Users\\ada\\softmax", "~/softmax", "/gpfs/project7/softmax",
    "RuntimeError in /opt/conda/lib/libtorch.so", "login03", "gpu-node17", "dgx-a100-07",
    "login.hpc.example.edu", "box7.cluster.local", "ada@box", "10.12.0.7", "00:1b:44:11:3a:b7",
    "fe80::1ff:fe23", "2001:db8::8a2e:370:7334", "GPU-9f0c1f6e-5b0e-4d0e-8b7a-2f1d3c4b5a69",
    "serial: 1654422001234", "00000000:1B:00.0", "api_key=0123456789abcdef", "user: adalovelace",
    "0123456789abcdef0123456789abcdef01234567", "hf_abcdefghijklmnopqrstuv", "AKIAIOSFODNN7EXAMPLE",
    "https://ada:secret@wandb.ai/x", "Bearer abcdef0123456789", "deepthought", "sk-proj-abcdef",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N", "Ada Lovelace",
    "ghp_0123456789abcdef0123456789abcdef0123", "-----BEGIN PRIVATE KEY-----", "nid001234",
    "\\\\fileserver\\share", "file:///etc/passwd", "s3://bucket/key", "xoxb-1234", "r03n12",
    "192.168.1.10", "001b44113ab7", "compute-0-12", "0000:65:00.0", "10.0.0.1:8080",
)  # fmt: skip


def test_no_text_of_a_row_says_whose_machine_it_was() -> None:
    for text in PRIVATE:
        row = {"reason": text, "suspect": [text], "throttled": [text], "gpu": text, "kernel": text,
               "key": f"x{text}", "params": {"mode": text}, "stop_reason": text}  # fmt: skip
        places = {place for place, _ in forms.odd_texts(row, forms.ROW)}
        assert places == {*row} - {"params"} | {"params.mode"}
        environment = {"packages": {"torch": text}, "variables": {"TOKEN": text}, "torch": text,
                       "processor": text, "driver": text, "target": text}  # fmt: skip
        places = {place for place, _ in forms.odd_texts(environment, forms.ENVIRONMENT)}
        assert len(places) == len(environment)


def test_texts_of_this_project_are_taken() -> None:
    row = {
        "reason": "a row of 262144 takes 524288 bytes of shared memory, and this device gives a "
        "block 232448", "suspect": ["clock: from 1980 to 1845 MHz within the point",
        "trend: the samples move by -0.157 µs from first to last"], "gpu": "NVIDIA A100-SXM4-80GB",
        "model_formula": "2MN if N ≤ 4194304 else 3MN", "key": "0123456789abcdef0123",
        "throttled": ["software power cap"], "sweep": "together-c70ed3", "kernel": "fused_row",
        "environment": {"torch": "2.11.0+cu130", "driver": "580.159.04", "commit": "0" * 40,
                        "processor": "AMD EPYC 9654 96-Core Processor", "triton": "3.8.0.dev20260",
                        "packages": {"liger-kernel": "0.8.5"}, "system": "Linux x86_64",
                        "target": "kernels.softmax.cluster.Cluster", "dirty": False},
    }  # fmt: skip
    assert list(forms.odd_texts(row, forms.ROW)) == []
    for text in (
        "MN + M⌈N/4096⌉",
        "2MN + 16M⌈N/2048⌉ bytes",
        "2MN if N ≤ 64 else 3MN + 8M⌈N/64⌉ + 8M bytes",
    ):
        assert list(forms.odd_texts({"model_formula": text}, forms.ROW)) == []


@pytest.mark.parametrize(("name", "taken"), [
    ("limits_20261122", True), ("limits-20261122-c70ed3", True), ("cross_entropy", True),
    ("limits_12345678", False), ("limits_20261322", False),  # a serial number, no month
    *((card, True) for card in ("rtx_4090", "rtx4090", "a6000", "l40s", "h200_x4", "mycard",
                                "a100-80gb", "rtx_4090-0c1f6e", "rtx3080ti", "mi300x")),
    *((host, False) for host in ("login03", "gpu-node17", "nid001234", "r03n12", "ada@box")),
])  # fmt: skip
def test_a_sweeps_name_may_have_a_date_or_a_card(name: str, taken: bool) -> None:
    assert (list(forms.odd_texts({"sweep": name}, forms.ROW)) == []) is taken


@pytest.mark.parametrize("name", ["rtx_4090", "a100-80gb"])
def test_a_recording_of_a_cpu_in_a_folder_named_as_a_card_is_valid(
    name: str, tmp_path: Path
) -> None:
    asked = ["kernel=torch", *shape(64, 4096), "dtype=float32", *QUICK, "remeasure=false"]
    swept = subprocess.run(
        command_line(tmp_path / name, *asked), cwd=ROOT, capture_output=True, text=True
    )
    assert swept.returncode == 0, swept.stderr
    answer = validated(tmp_path / name)
    assert (answer.status, answer.problems) == (0, []), answer.text


def test_this_machines_own_names_are_known(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "kernel.example")
    monkeypatch.setattr(getpass, "getuser", lambda: "reduction")
    forms.own_names.cache_clear()
    edit(folder / TORCH, 3, reason="the kernel reduction")
    answer = validated(folder)
    forms.own_names.cache_clear()
    assert {"privacy: a host name", "privacy: a user name"} <= set(answer.problems)
    assert f"{TORCH}:3: a user name of this machine" in answer.text


def test_bad_input_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    for made in ("absent", "empty", "file", "link"):
        assert validated(tmp_path / made).status == 2
        error = capsys.readouterr().err
        assert error.startswith(f"error: {tmp_path / made}: no ")
        assert error.count("\n") == 1


def test_a_folder_that_is_there_is_not_written_into(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for out in (tmp_path, tmp_path / "link"):
        assert validated(folder, "--out", str(out)).status == 2
    assert not (tmp_path / "nowhere").exists()


def test_git_takes_a_contributed_folder_as_it_is() -> None:
    job, card = "wide/native-auto/online", "outputs/reference/some_card"
    left = [".hydra/multirun.yaml", "wandb/run/debug.log", "slurm/1.out", "worker.log", ".lock"]
    names = [*left, f"{job}/rows.jsonl", f"{job}/config.json", "variants.json"]
    asked = ["git", "check-ignore", *(f"{card}/{name}" for name in names)]
    ignored = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True).stdout.splitlines()
    assert ignored == [f"{card}/{name}" for name in left]


@settings(max_examples=15, deadline=None, database=None)
@given(damages=DAMAGE)
def test_a_damaged_folder_gets_a_verdict_and_what_is_valid_is_read(
    damages: list[Damage], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = contributed(tmp_path_factory.mktemp("damaged"))
    for name in (TORCH, CONFIG, "variants.json", "sweep.json"):
        data = (folder / name).read_bytes()
        if not name.endswith("rows.jsonl"):  # one object, as a line that damage can edit
            data = b" ".join(data.splitlines()) + b"\n"
        for damage in damages[:2]:
            data = damage(data)
        (folder / name).write_bytes(data)
    answer = validated(folder)
    assert answer.verdict.startswith("valid: " if answer.status == 0 else "not valid: ")
    assert all(line.isprintable() for line in answer.text.split("\n"))
    if answer.status == 0:
        read_inputs(folder, folder / "out", "tables")


def test_what_a_variant_declares_and_a_grid_says_of_itself_may_be_contributed(
    composed: Composed,
) -> None:
    odd = []
    for name in options("kernel"):
        kernel = OmegaConf.to_container(composed(f"kernel={name}").kernel, resolve=True)
        declared = describe({"kernel": kernel, "shapes": [], "dtypes": []}, Device("cpu", "cpu"))
        del declared["points"]
        odd += forms.odd_texts({name: declared}, forms.DECLARED)
    for name in options("grid"):
        grid = OmegaConf.to_container(composed(f"grid={name}").grid, resolve=True)
        odd += forms.odd_texts({"grid": grid}, forms.CONFIG)
    assert odd == []
