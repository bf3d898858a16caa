"""From a line of a table back to its rows, and one clear line for anything else."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.__main__ import main
from tests.analysis.plausible import row, write


def test_the_rows_behind_a_line_are_printed_and_nothing_else_is_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    times = {"auto": 100.0, "torch": 120.0, "copy": 90.0}
    rows = [row(k, 4096, time_us=t, round=i) for k, t in times.items() for i in range(3)]
    write(tmp_path / "rows", rows)
    assert main(["tables", "--rows", "rows", "--out", "out", "--only", "limits,a_tab1,main"]) == 0
    capsys.readouterr()
    table = "out/limits-nvidia-h200-events.csv"
    assert main(["trace", table, "1", "--rows", "rows"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert [line.split(" ")[2] for line in printed] == ["auto"] * 3 + ["torch"] * 3
    assert printed[0] == (
        "rows/rows.jsonl:1  auto 4096×4096 float32: ok, 100 µs by events, round 0, attempt 1; "
        "paper/0, commit 0123456789ab"
    )
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe")
    write(tmp_path / "elsewhere", [row("torch", 256)])
    for words, said in (
        ((table, "2"), "no line 2; it has 1"),
        ((table, "0"), "no line 0"),
        (("nosuch.csv", "1"), "no such file"),
        (("other.csv", "1"), "does not name the rows"),
        (("bytes.csv", "1"), "no CSV of ours"),
        ((table, "1", "--rows", "elsewhere"), "none of the rows"),
    ):
        assert main(["trace", *words]) == 2
        error = capsys.readouterr().err
        assert said in error
        assert error.count("\n") == 1
