"""Each line that is no row, and each row that contradicts another, is named by file and line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.analysis.validation.contributed import TORCH, contributed, edit, lines_of, validated


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return contributed(tmp_path)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{}", "schema_version None"),
        ("[]", "a row is a JSON object"),
        ("", "not JSON"),
        ("\udcff", "can't decode"),
        ('{"schema_version": 9}', "schema_version 9; this version reads 1"),
    ],
)
def test_a_line_that_is_no_row_is_named(line: str, said: str, folder: Path) -> None:
    path = folder / TORCH
    count = len(lines_of(path))
    path.write_bytes(path.read_bytes() + line.encode(errors="surrogateescape") + b"\n")
    told = validated(folder)
    assert told.problems() == ["schema: no row"]
    assert f"{TORCH}:{count + 1}: " in told.text
    assert said in told.text


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"status": "fine"}, "field 'status'"),
        ({"hostname": "here"}, "field 'hostname': Extra inputs are not permitted"),
        ({"rows": -1}, "field 'rows'"),
    ],
)
def test_a_field_that_is_wrong_is_named(changes: dict[str, Any], said: str, folder: Path) -> None:
    edit(folder / TORCH, 2, **changes)
    told = validated(folder)
    assert told.status == 1
    assert f"{TORCH}:2: {said}" in told.text


def test_a_torn_line_is_told_as_one(folder: Path) -> None:
    path = folder / TORCH
    path.write_bytes(path.read_bytes()[:-40])
    told = validated(folder)
    assert f"{TORCH}:8: cut short" in told.text
    assert "torch; float16; 1 of 9 missing" in told.text


def test_a_repeated_row_is_named_with_the_first(folder: Path) -> None:
    path = folder / TORCH
    count = len(lines_of(path))
    path.write_text(path.read_text() + path.read_text().splitlines()[2] + "\n")
    told = validated(folder)
    assert told.problems() == ["schema: duplicate"]
    assert f"{TORCH}:{count + 1}: the same key, card, round and attempt as {TORCH}:3" in told.text


def test_a_row_with_another_points_key_is_named(folder: Path) -> None:
    other = lines_of(folder / TORCH)[0]["key"]
    edit(folder / TORCH, 2, key=other, attempt=2)
    told = validated(folder)
    assert f"{TORCH}:2: its key is that of another point, {TORCH}:1" in told.text


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"kernel": "naive"}, "a row of 'naive' in the folder of 'torch'"),
        ({"sweep": "other-000000"}, "a row of sweep 'other-000000' in the folder of"),
    ],
)
def test_a_row_in_the_wrong_place_is_named(
    changes: dict[str, Any], said: str, folder: Path
) -> None:
    edit(folder / TORCH, 1, **changes)
    told = validated(folder)
    assert "schema: misplaced" in told.problems()
    assert f"{TORCH}:1: {said}" in told.text


@pytest.mark.parametrize("name", ["variants.json", "vocab/native-auto/torch/config.json"])
def test_a_broken_file_beside_rows_is_named(name: str, folder: Path) -> None:
    (folder / name).write_text("{")
    told = validated(folder)
    assert f"{name}: not JSON" in told.text
    assert told.status == 1


def test_a_configuration_that_plans_nothing_is_named(folder: Path) -> None:
    path = folder / "vocab/native-auto/torch/config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"grid": {"rows": 4}}))
    assert "torch/config.json: no job's configuration: ValueError" in validated(folder).text


def test_records_are_checked_by_their_own_schema(folder: Path) -> None:
    (folder / "counters.jsonl").write_text('{"kernel": "torch"}\n')
    assert "counters.jsonl:1: field " in validated(folder).text
