"""Rows, recordings and medians: what is written comes back, and damage is one line."""

import gzip
import json
import random
import re
import statistics
from pathlib import Path

import pytest

from experiments.data.files import LINE_BYTES, RowsError, write_file
from experiments.data.jobs import TimingConfig
from experiments.data.metrics import compared
from experiments.data.rows import MOST_SAMPLES, pack, read_rows, recorded_jobs
from experiments.data.statistics import Median, median, stop_reason
from experiments.parent.record import Ledger, append_row
from tests.analysis.plausible import row

ROW = row("naive", 8)
LINE = ROW.model_dump_json()


def test_a_row_comes_back_as_it_was_written_also_with_the_most_samples(tmp_path: Path) -> None:
    path = tmp_path / "a" / "rows.jsonl"
    rows = [ROW, row("online", 8, samples_us=[1.5, 2.25], params={"block_size": 1024})]
    longest = [round(-123456789012345.1, 4), -12345678901.2346]  # a chain's are differences
    text, samples = "x" * 2000, longest * (MOST_SAMPLES // 2)
    rows.append(row("naive", 8, timer="chain", samples_us=samples, suspect=[text] * 100))
    for each in rows:
        append_row(path, each)
    assert list(read_rows(path)) == rows
    assert max(map(len, path.read_bytes().splitlines())) < LINE_BYTES


BOUNDS = [
    ("rows", '"4096"'), ("cols", str(2**40 + 1)), ("compulsory_bytes", str(10**9)),
    ("samples_us", "[-1.0]"), ("samples_us", "[Infinity]"), ("host", '"me"'), ("gpu", '"\\ud800"'),
    ("params", '{"a":' * 900 + "0" + "}" * 900), ("environment", '{"a":[[[[0]]]]}'),
    ("environment", json.dumps({"a": "x" * 2001})), ("environment", json.dumps({"x" * 2001: 1})),
    ("environment", json.dumps(dict.fromkeys(range(1001)))), ("environment", '{"a": NaN}'),
]  # fmt: skip
LINES = {
    "{nonsense": "not JSON",
    "[1]": "Input should be a valid dictionary",
    '{"schema_version": 99}': "field 'schema_version': Input should be 1",
    **{  # a row's line in which a field's JSON is replaced as a text
        json.dumps(json.loads(LINE) | {name: "@"}).replace('"@"', text): f"{name}|not JSON|64 bit"
        for name, text in BOUNDS
    },
}


@pytest.mark.parametrize("line", LINES, ids=range(len(LINES)))
def test_a_malformed_line_is_refused_in_one_short_line_with_file_and_line(
    tmp_path: Path, line: str
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join([LINE, line, LINE, ""]))
    with pytest.raises(RowsError) as caught:
        list(read_rows(path))
    assert re.fullmatch(rf"{re.escape(str(path))}:2: [^\n]{{1,200}}", str(caught.value))
    assert re.search(LINES[line], str(caught.value))


def test_a_torn_tail_of_any_kind_is_passed_over_and_removed(tmp_path: Path) -> None:
    for i, tail in enumerate([b"[" * 100_000, b"\xff\xfe", LINE[:-9].encode()]):
        path = tmp_path / str(i) / "rows.jsonl"
        append_row(path, ROW)
        path.write_bytes(path.read_bytes() + tail)
        assert list(read_rows(path)) == [ROW]
        Ledger(path.parent)
        assert path.read_text() == LINE + "\n"


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    assert write_file(tmp_path / "new" / "file", "text").read_text() == "text"
    with pytest.raises(UnicodeEncodeError):
        write_file(tmp_path / "new" / "file", "\ud800")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["file"]


def test_jobs_that_are_not_those_of_the_rows_are_one_line(
    sweep_of_four: Path, tmp_path: Path
) -> None:
    _, jobs, *_ = pack(sweep_of_four, tmp_path)
    for text in ("[]", '{"job": "a", "rows": 99, "config": null}', "{"):
        jobs.write_bytes(gzip.compress(text.encode()))
        with pytest.raises(RowsError, match="no job of these rows"):
            list(recorded_jobs(tmp_path))


@pytest.mark.parametrize("n", [10, 101])
def test_interval_covers_the_true_median_in_95_percent_of_experiments(n: int) -> None:
    dice = random.Random(n)
    covered = 0
    for _ in range(1000):
        samples = [dice.expovariate(1.0) for _ in range(n)]
        found = median(samples)
        assert found.value == pytest.approx(statistics.median(samples))
        covered += found.low <= 0.6931 <= found.high
    assert 0.94 <= covered / 1000 <= 0.9995
    assert median([3.0, 1.0, 2.0]) == Median(2.0, 1.0, 3.0)  # of few, the extremes


def test_sampling_ends_when_it_converged_at_the_cap_or_at_the_time_limit() -> None:
    rule = TimingConfig.model_construct(min_samples=10, max_samples=50, precision=0.01)
    steady, noisy = [100.0, 100.1] * 10, [50.0, 150.0] * 25
    assert stop_reason(steady, rule, False) == "converged"
    assert stop_reason(steady[:9], rule, False) is None
    assert stop_reason(noisy, rule, False) == "max_samples"
    assert stop_reason(noisy[:2], rule, True) == "time_limit"
    assert stop_reason([], rule, True) is None


def test_a_suspect_row_is_nobodys_rival_and_a_file_is_compared_with_others_first() -> None:
    doubted = row("fused", 1024, time_us=1.0, suspect=["disturbed: by another process"])
    rows = [doubted, *(row(name, 1024, time_us=us) for name, us in (("a", 4.0), ("b", 8.0)))]
    found = [(one["best_other"], one["left_out"]) for one in compared(rows, ["a", "b"])]
    assert found == [("a", ""), ("", "fused"), ("", "fused")]
    alone = compared(rows[1:], ["a", "b"])
    assert [(one["best_other"], one["over_best"]) for one in alone] == [("b", 2.0), ("a", 0.5)]
