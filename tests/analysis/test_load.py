from __future__ import annotations

import os
from pathlib import Path

import pandas as pd
import pytest

from analysis.load import Records, load, newest_rows, once_per_frame, together
from experiments.data.files import RowsError
from tests.analysis.plausible import row, write
from tests.analysis.records import counters


def test_derived_columns_follow_from_bytes_and_times(tmp_path: Path) -> None:
    rows = [row("copy", 4096, time_us=40.0), row("copy_triton", 4096, time_us=50.0)]
    rows += [row("naive", 4096, time_us=200.0), row("fused", 4096, time_us=50.0)]
    frame = load(write(tmp_path, rows)).set_index("kernel")
    compulsory = 2 * 4096 * 4096 * 4
    assert frame.loc["fused", "effective_gbps"] == pytest.approx(compulsory / 50e-6 / 1e9)
    assert frame.loc["naive", "modelled_gbps"] == pytest.approx(4 * compulsory / 200e-6 / 1e9)
    assert frame.loc["fused", "roof_gbps"] == pytest.approx(compulsory / 40e-6 / 1e9)
    assert frame.loc["fused", "fraction_of_roof"] == pytest.approx(0.8)
    assert frame.loc["fused", "speedup_over_naive"] == pytest.approx(4.0)


def test_a_roof_is_of_the_rows_own_mix_and_of_old_rows_the_copy(tmp_path: Path) -> None:
    size, item = 4096 * 4096, 4
    gradient = {"operation": "softmax_backward", "compulsory_bytes": 3 * size * item}
    add = row("add", 4096, time_us=60.0).model_copy(
        update={"operation": "add", "roof": "add", "compulsory_bytes": 3 * size * item}
    )
    old = row("backward", 4096, time_us=55.0).model_copy(update=gradient)
    new = old.model_copy(update={"kernel": "backward_auto", "key": "new", "roof": "add"})
    lone = new.model_copy(update={"cols": 8192, "key": "lone", "kernel": "backward_torch"})
    rows = [row("copy", 4096, time_us=44.0), add, old, new, lone]
    frame = load(write(tmp_path, rows)).set_index("kernel")
    assert frame["roof"].to_dict() == {
        "copy": "copy", "add": "add", "backward": "copy", "backward_auto": "add",
        "backward_torch": "add",
    }  # fmt: skip
    assert frame.loc["backward", "fraction_of_roof"] == pytest.approx(44 * 1.5 / 55)
    assert frame.loc["backward", "above_roof"], "more bytes than the copy's in more time"
    assert frame.loc["backward_auto", "fraction_of_roof"] == pytest.approx(60 / 55)
    assert pd.isna(frame.loc["backward_torch", "fraction_of_roof"])


def test_the_last_attempt_counts_in_whichever_file_it_stands(tmp_path: Path) -> None:
    write(tmp_path / "a", [row("online", 256, time_us=7.0, attempt=2)])
    write(tmp_path / "b", [row("online", 256, time_us=None, attempt=1, status="crashed")])
    frame = load(tmp_path)
    assert frame["time_us"].tolist() == [7.0]


@pytest.mark.parametrize("made", [False, True])
def test_a_folder_without_rows_is_refused_by_name(tmp_path: Path, made: bool) -> None:
    folder = tmp_path / "nothing"
    if made:
        folder.mkdir()
    with pytest.raises(RowsError, match=r"nothing.*make sweep") as refused:
        load(folder)
    assert "\n" not in str(refused.value)


def test_the_newest_sweep_is_the_default_and_the_reference_where_there_is_none(
    tmp_path: Path,
) -> None:
    with pytest.raises(RowsError, match="make sweep"):
        newest_rows(tmp_path)
    rows = [row("torch", 256)]
    write(tmp_path / "reference" / "h200" / "job", rows)
    assert newest_rows(tmp_path) == tmp_path / "reference"
    for age, sweep in enumerate(("paper", "cpu", "reference/h100")):
        write(tmp_path / sweep / "some" / "job", rows)
        os.utime(tmp_path / sweep / "some" / "job" / "rows.jsonl", (1e9 + age, 1e9 + age))
    assert newest_rows(tmp_path) == tmp_path / "cpu"


def test_what_is_made_of_a_table_is_made_once_for_each_name() -> None:
    made: list[str] = []

    @once_per_frame
    def kernels(frame: pd.DataFrame, operation: str = "") -> list[str]:
        made.append(operation)
        return list(frame.loc[frame["operation"] == operation, "kernel"])

    tables = [pd.DataFrame({"operation": ["add"], "kernel": [name]}) for name in ("one", "two")]
    names = ["add", "".join(["a", "dd"])]  # equal, and not the same object
    assert [kernels(table, name) for table in tables for name in names] == [
        *(["one"], ["one"], ["two"], ["two"])
    ]
    assert made == ["add", "add"]


def test_records_of_several_recordings_are_those_of_one_the_last_of_the_same_thing() -> None:
    before, after = (counters("naive", 4096, 4096, reads, 1.0) for reads in (2.0, 1.0))
    other = counters("online", 4096, 4096, 2.0, 1.0)
    found = together([Records(counters=(before, other)), Records(), Records(counters=(after,))])
    assert found == Records(counters=(after, other))
