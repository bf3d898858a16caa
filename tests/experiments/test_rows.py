import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.data.rows import Row, RowsError, read_rows, rows_files
from experiments.sweep.ledger import append_row, heal


def row(**changes: object) -> Row:
    values: dict[str, object] = {
        "key": "k", "card": 0, "round": 0, "attempt": 1, "sweep": "s", "operation": "softmax",
        "kernel": "naive", "params": {}, "rows": 4, "cols": 8, "dtype": "float32", "status": "ok",
        "device": "cpu", "gpu": "a CPU", "backend": "eager",
    }  # fmt: skip
    return Row.model_validate(values | changes)


def test_a_row_comes_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "a" / "rows.jsonl"
    rows = [row(round=i, samples_us=[1.5, 2.25], params={"block_size": 1024}) for i in range(3)]
    for each in rows:
        append_row(path, each)
    assert list(read_rows(path)) == rows


@settings(max_examples=30)
@given(cut=st.integers(1, 400))
def test_a_file_torn_anywhere_in_its_last_line_is_healed(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    path = tmp_path_factory.mktemp("torn") / "rows.jsonl"
    append_row(path, row(round=0))
    append_row(path, row(round=1))
    data = path.read_bytes()
    path.write_bytes(data[: max(len(data) - cut, len(data) // 2)])
    assert [r.round for r in read_rows(path)] in ([0], [0, 1])
    heal(path)
    append_row(path, row(round=2))
    assert [r.round for r in read_rows(path)] in ([0, 2], [0, 1, 2])


def test_a_last_line_that_only_lacks_its_end_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    append_row(path, row())
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    heal(path)
    assert len(list(read_rows(path))) == 1
    assert path.read_bytes().endswith(b"\n")


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{nonsense", "not JSON"),
        ("[1]", "a row is a JSON object"),
        (json.dumps({"schema_version": 99}), "schema_version 99; this version reads 1"),
        (json.dumps({}), "schema_version None"),
        (row().model_dump_json().replace('"rows":4', '"rows":-4'), "field 'rows'"),
        (row().model_dump_json().replace('"status":"ok"', '"status":"fine"'), "field 'status'"),
        (row().model_dump_json().replace('"time_us":null', '"time_us":NaN'), "field 'time_us'"),
        (row().model_dump_json()[:-1] + ',"host":"me"}', "field 'host'"),
    ],
)
def test_a_malformed_line_is_refused_by_file_and_line(
    tmp_path: Path, line: str, complaint: str
) -> None:
    path = tmp_path / "rows.jsonl"
    append_row(path, row())
    with path.open("a") as file:
        file.write(line + "\n")
    append_row(path, row())
    with pytest.raises(RowsError) as caught:
        list(read_rows(path))
    assert str(caught.value).startswith(f"{path}:2: ")
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_trackers_copies_are_no_rows(tmp_path: Path) -> None:
    append_row(tmp_path / "job" / "rows.jsonl", row())
    append_row(tmp_path / "wandb" / "artifact" / "rows.jsonl", row())
    assert rows_files(tmp_path) == [tmp_path / "job" / "rows.jsonl"]


CONTRACT = """
    schema_version key card round attempt sweep operation kernel params rows cols dtype
    status reason suspect device gpu backend environment
    timer cache samples_us time_us time_low_us time_high_us stop_reason compile_s wall_s
    model_reads model_writes model_formula model_bytes compulsory_bytes
    programs warps registers shared_bytes spills max_abs_error relative_error
    sm_clock_mhz memory_clock_mhz power_w temperature_c throttled
"""


def test_a_row_has_every_field_of_the_contract() -> None:
    written = json.loads(row().model_dump_json())
    assert not set(CONTRACT.split()) - set(written)
