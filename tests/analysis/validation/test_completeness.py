"""What was planned and has no row is told by kernel, grid and dtype."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.analysis.validation.contributed import COPY, TORCH, contributed, edit, validated


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return contributed(tmp_path)


def drop(path: Path, line: int) -> str:
    """Removes a line, from 1; gives its shape."""
    lines = path.read_text().splitlines(keepends=True)
    row = json.loads(lines.pop(line - 1))
    path.write_text("".join(lines))
    return f"{row['rows']}×{row['cols']}"


def test_a_point_without_a_row_is_told_by_kernel_grid_and_dtype(folder: Path) -> None:
    shape = drop(folder / TORCH, 3)
    told = validated(folder)
    assert told.status == 1
    assert told.problems() == ["completeness: missing points"]
    assert f"vocab/native-auto: torch; float16; 1 of 9 missing: {shape}\n" in told.text


def test_kernels_that_lack_the_same_are_told_together(folder: Path) -> None:
    for kernel in ("torch", "fused_row"):
        (folder / f"batch/native-auto/{kernel}/rows.jsonl").write_text("")
    told = validated(folder)
    assert "  batch/native-auto: fused_row, torch; float16; 4 of 4 missing: " in told.text


def test_a_round_that_was_not_made_is_told(folder: Path) -> None:
    path = folder / "vocab/native-auto/torch/config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"rounds": 2}))
    told = validated(folder)
    assert "vocab/native-auto: torch; float16; 9 of 18 missing: " in told.text
    assert ", in round 1\n" in told.text


def test_a_point_whose_last_row_failed_is_told(folder: Path) -> None:
    row = edit(folder / TORCH, 1, status="crashed", reason="it died", time_us=None)
    told = validated(folder)
    assert told.problems() == ["completeness: failed points"]
    shape = f"{row['rows']}×{row['cols']}"
    assert f"vocab/native-auto/torch: float16: crashed at {shape}" in told.text


def test_a_failure_that_was_mended_later_is_none(folder: Path) -> None:
    path = folder / TORCH
    good = path.read_text().splitlines()[0]
    edit(path, 1, status="crashed", reason="it died", time_us=None)
    again = json.dumps(json.loads(good) | {"attempt": 2})
    path.write_text(path.read_text() + again + "\n")
    assert validated(folder).status == 0


def _no_job(folder: Path) -> None:
    shutil.rmtree(folder / "vocab/native-auto/torch")


def _no_variant_measured(folder: Path) -> None:
    for path in folder.glob("*/*/torch"):
        shutil.rmtree(path)


def _no_roof(folder: Path) -> None:
    for path in folder.glob("*/*/copy*"):
        shutil.rmtree(path)


def _undeclared(folder: Path) -> None:
    path = folder / "variants.json"
    told = json.loads(path.read_text())
    path.write_text(json.dumps({name: v for name, v in told.items() if name != "torch"}))


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (_no_job, "vocab/native-auto: no folder of torch, which other grids have"),
        (_no_variant_measured, "variants.json: declares what no folder holds rows of: torch"),
        (_no_roof, "vocab/native-auto: no copy among its kernels, so its rows have no roof"),
        (_undeclared, "variants.json: does not declare torch"),
        (lambda f: (f / "variants.json").unlink(), "variants.json: missing or broken"),
        (lambda f: (f / "sweep.json").unlink(), "sweep.json: missing, or no sweep's name in it"),
        (
            lambda f: (f / "vocab/native-auto/torch/config.json").unlink(),
            "config.json: missing or broken, so what was planned is not known, of 1 of 18 jobs: "
            "vocab/native-auto/torch",
        ),
    ],
)
def test_what_a_folder_lacks_is_named(
    fault: Callable[[Path], None], said: str, folder: Path
) -> None:
    fault(folder)
    told = validated(folder)
    assert told.status == 1
    assert said in told.text


def test_a_time_with_no_copy_beside_it_is_named(folder: Path) -> None:
    for name in ("copy", "copy_triton"):
        row = edit(folder / COPY.replace("copy", name), 1, status="timeout", time_us=None)
    told = validated(folder)
    assert told.problems() == ["completeness: failed points", "completeness: missing roof"]
    assert f"torch {row['rows']}×{row['cols']} float16: timed with no copy beside it" in told.text


def test_one_grid_of_a_sweep_is_no_contribution(folder: Path) -> None:
    told = validated(folder / "vocab")
    assert told.status == 1
    assert "it lies in no job's folder" in told.text


def test_what_a_preset_has_besides_is_a_warning(folder: Path) -> None:
    shutil.rmtree(folder / "small_batch")
    told = validated(folder)
    assert "the preset exploration has grid=small_batch too" in told.text
    assert told.status == 0
