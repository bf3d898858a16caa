from pathlib import Path

import pytest

from analysis.load import load, read_inputs
from experiments.data.files import RowsError
from experiments.data.rows import pack
from tests.analysis.plausible import row, write


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


def test_the_last_attempt_counts_in_whichever_file_it_stands(tmp_path: Path) -> None:
    write(tmp_path / "a", [row("online", 256, time_us=7.0, attempt=2)])
    write(tmp_path / "b", [row("online", 256, time_us=None, attempt=1, status="crashed")])
    assert load(tmp_path)["time_us"].tolist() == [7.0]


def test_one_load_finds_all_recordings_and_names_their_set(tmp_path: Path) -> None:
    for name in ("h200/paper", "h200/online", "h100/paper"):
        sweep = tmp_path / "measured" / name
        write(sweep / "wide" / "native-auto" / "torch", [row("torch", 256, sweep=name)])
        (sweep / "sweep.json").write_text('{"sweep": "s"}')
        pack(sweep, tmp_path / "recorded" / name)
    measured, recorded = (load(tmp_path / one) for one in ("measured", "recorded"))
    assert sorted(recorded["set"]) == ["h100", "h200", "h200"]
    assert measured["set"].tolist() == recorded["set"].tolist()
    assert measured["time_us"].tolist() == recorded["time_us"].tolist()
    alone = load(tmp_path / "recorded" / "h200" / "paper")
    assert alone["set"].tolist() == [""]
    one_file = load(tmp_path / "recorded" / "h200" / "paper" / "rows.jsonl.gz")
    assert one_file["key"].tolist() == alone["key"].tolist()


def test_recorded_rows_are_the_default_and_are_drawn_beside_them(tmp_path: Path) -> None:
    with pytest.raises(RowsError, match="outputs/reference: no such folder"):
        read_inputs(None, None, "tables")
    write(tmp_path / "outputs" / "reference" / "h200" / "job", [row("torch", 256)])
    write(tmp_path / "outputs" / "newer" / "job", [row("naive", 256)])
    inputs = read_inputs(None, None, "tables")
    assert inputs.frame["kernel"].tolist() == ["torch"]
    assert inputs.out == Path("outputs") / "tables"
    for rows, out in (("newer", "newer/tables"), ("reference/h200", "tables")):
        assert read_inputs(Path("outputs", rows), None, "tables").out == Path("outputs", out)
    with pytest.raises(RowsError, match="--ours: no kernel 'mine'"):
        read_inputs(None, None, "tables", "mine")
