"""Times that no card gives, and rows that no one machine gives, are named."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.analysis.validation.contributed import (
    COPY,
    TORCH,
    contributed,
    edit,
    lines_of,
    rescaled,
    validated,
)

LARGE = (8192, 65536)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return contributed(tmp_path)


def line_of(path: Path, shape: tuple[int, int]) -> int:
    """The line of a shape's row, from 1."""
    return 1 + [(row["rows"], row["cols"]) for row in lines_of(path)].index(shape)


def faster(folder: Path, name: str, shape: tuple[int, int], factor: float) -> int:
    line = line_of(folder / name, shape)
    edit(folder / name, line, **rescaled(lines_of(folder / name)[line - 1], 1 / factor))
    return line


def test_a_time_far_above_the_roof_is_named(folder: Path) -> None:
    line = faster(folder, TORCH, (8192, 512), 3)
    told = validated(folder)
    assert told.problems() == ["plausibility: far above the roof"]
    assert re.search(rf"{TORCH}:{line}: torch 8192×512 float16: \d+% of the copy's", told.text)


def test_a_time_a_little_above_the_roof_is_a_warning(folder: Path) -> None:
    row = lines_of(folder / TORCH)[line_of(folder / TORCH, LARGE) - 1]
    best = min(
        lines_of(folder / f"vocab/native-auto/{copy}/rows.jsonl")[line - 1]["time_us"]
        for copy in ("copy", "copy_triton")
        for line in [line_of(folder / f"vocab/native-auto/{copy}/rows.jsonl", LARGE)]
    )
    line = faster(folder, TORCH, LARGE, 1.05 * row["time_us"] / best)
    told = validated(folder)
    assert told.status == 0
    assert f"{TORCH}:{line}: torch 8192×65536 float16: 105% of the copy's bandwidth" in told.text


def test_a_roof_above_the_datasheet_is_named(folder: Path) -> None:
    line = faster(folder, COPY, LARGE, 1.3)
    told = validated(folder)
    assert "plausibility: above the datasheet" in told.problems()
    assert f"{COPY}:{line}: copy 8192×65536 float16: 5," in told.text
    assert "NVIDIA H200 has 4,800" in told.text


def test_a_small_shape_cannot_be_read_faster_than_memory_gives_it(folder: Path) -> None:
    line = faster(folder, COPY, (8192, 512), 6)
    assert re.search(rf"{COPY}:{line}: copy .* GB/s of reads; NVIDIA H200", validated(folder).text)


@pytest.mark.parametrize(
    ("changes", "kind", "said"),
    [
        ({"time_us": 1.0}, "not its samples'", "time_us is 1, its samples make "),
        ({"time_low_us": 0.5}, "not its samples'", "time_low_us is 0.5, its samples make "),
        ({"samples_us": None}, "no time", "status ok, and no samples or no time"),
        ({"status": "unsupported"}, "no time", "status unsupported, and yet a time"),
        ({"compulsory_bytes": 1 << 20}, "wrong bytes", "compulsory_bytes is 1048576, 2MN"),
        ({"model_bytes": 7}, "wrong bytes", "model_bytes is 7, its elements make "),
        ({"sm_clock_mhz": 4000.0}, "impossible clock", "a clock of 4,000 MHz, where this card"),
        ({"gpu": "NVIDIA A100-SXM4-80GB"}, "mixed cards", "rows of NVIDIA A100-SXM4-80GB, NVIDIA"),
        ({"sampling_s": 1e-6}, "longer than it took", "its samples add up to "),
        ({"wall_s": 1e-6}, "longer than it took", "sampling and compiling took "),
    ],
)
def test_a_row_that_contradicts_itself_is_named(
    changes: dict[str, Any], kind: str, said: str, folder: Path
) -> None:
    edit(folder / TORCH, 4, **changes)
    told = validated(folder)
    assert told.status == 1
    assert f"plausibility: {kind}" in told.problems()
    assert said in told.text


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"dirty": True}, "1 of 96 rows name no commit whose code they measured"),
        ({"driver": "1.0"}, "rows of 2 versions of driver: 1.0, 580.159.04"),
        ({"torch": "2.0"}, "rows of 2 versions of torch: 2.0, 2.11.0+cu130"),
    ],
)
def test_what_a_reader_must_know_is_a_warning(
    environment: dict[str, Any], said: str, folder: Path
) -> None:
    known = lines_of(folder / TORCH)[0]["environment"]
    edit(folder / TORCH, 1, environment=known | environment)
    told = validated(folder)
    assert told.status == 0
    assert said in told.text


def test_much_wider_rows_in_much_less_time_are_a_warning(folder: Path) -> None:
    row = lines_of(folder / TORCH)[line_of(folder / TORCH, (8192, 512)) - 1]
    line = line_of(folder / TORCH, (8192, 512))
    slow = rescaled(row, 1000) | {"sampling_s": None, "wall_s": None}
    edit(folder / TORCH, line, **slow)
    told = validated(folder)
    assert told.status == 0
    assert "plausibility: wider and faster (warning)" in told.text


def test_a_point_measured_by_two_versions_of_the_code_is_a_warning(folder: Path) -> None:
    path = folder / TORCH
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines, lines[0]]) + "\n")
    edit(path, len(lines) + 1, key="0" * 20)
    told = validated(folder)
    assert told.status == 0
    assert "vocab/native-auto/torch: 1 measured by two versions" in told.text
