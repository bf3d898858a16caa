"""The tables: what each says of rows whose answer is known, and what it needs where it cannot."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.__main__ import main
from analysis.format import Table
from analysis.load import Declarations, Inputs, Records, load
from analysis.tables import TABLES, tables_of
from analysis.tables.limits import mixed_code
from experiments.data.rows import Row
from tests.analysis.conftest import Refused
from tests.analysis.drawing import inputs_of
from tests.analysis.plausible import LOSS_SHAPES, loss, point, row, unsupported, write
from tests.conftest import REFERENCE

PAPER = REFERENCE / "h200" / "paper"
DECLARED = Declarations.model_validate_json((PAPER / "variants.json").read_text()).root


def make(name: str, folder: Path, rows: list[Row], **more: Any) -> dict[str, Table]:
    """The tables of one maker, by stem; ``declared`` lies beside the rows."""
    frame, declared = load(write(folder, rows)), more.get("declared", {})
    return tables_of(Inputs(folder, folder, frame, Records(), declared, more.get("ours", "")), name)


def lines_of(table: Table) -> dict[str, dict[str, str]]:
    """A table's cells by their heads, by the first cell of a line."""
    return {line[0]: dict(zip(table.heads, line, strict=True)) for line in table.lines}


def data_of(table: Table) -> pd.DataFrame:
    assert table.data is not None
    assert table.data["keys"].ne("").all()
    return table.data


def test_a_table_that_cannot_be_made_says_what_it_needs(tmp_path: Path, refused: Refused) -> None:
    rows = [row("fused", 256, time_us=None, status="crashed", model_bytes=None)]
    inputs = inputs_of(tmp_path, rows)
    assert not any(tables_of(inputs, name) for name in TABLES)
    found = refused("tables", "--rows", str(tmp_path))
    assert all(f"{name} needs {needs}" in found for name, (needs, _) in TABLES.items())


def test_each_kernel_has_a_line_of_time_share_memory_and_error(tmp_path: Path) -> None:
    rows = loss({"ce_auto": 0.25, "read": 0.24}, LOSS_SHAPES[:2])
    rows += loss({"ce_torch": 1.0}, LOSS_SHAPES[:1], peak_bytes=3 * 8192 * 32000 * 2)
    [(stem, table)] = make("kernels", tmp_path, rows).items()
    assert stem == "kernels-nvidia-h200"
    assert [line[1:6] for line in table.lines] == [
        ["ce_torch", "1", "4.00", "24.0", "3.00"],
        ["ce_auto", "2", "1.00", "96.0", "0.00"],
    ]
    assert data_of(table)["cols"].tolist() == [32000, 32000, 50257]
    [table] = make("kernels", tmp_path, rows, ours="ce_torch").values()
    assert [line[3] for line in table.lines] == ["1.00", "0.25"]


def test_a_cell_without_a_time_says_why_and_not_asked_is_not_failed(tmp_path: Path) -> None:
    rows = [row(kernel, n) for n in (256, 512, 1024) for kernel in ("auto", "copy", "torch")]
    rows += [row("quack", 256, time_us=8.0), unsupported("liger", 512)]
    rows += [row("quack", 512, time_us=None, status="incorrect"), row("liger", 1024, time_us=50.0)]
    [table] = make("limits", tmp_path, rows).values()
    cells = [(line["quack"], line["liger"]) for line in lines_of(table).values()]
    assert cells == [("8.00", "·"), ("incorrect", "–"), ("·", "50.0")]
    assert make("operations", tmp_path / "two", rows)["operations"].lines[0][4].endswith(" at 1")


def test_where_answers_are_not_the_same_bits_is_said(tmp_path: Path) -> None:
    def judged(kernel: str, cols: int, call: bool | None, batch: bool | None, **more: Any) -> Row:
        return row(kernel, cols, deterministic=call, batch_invariant=batch, **more)

    rows = [
        *(judged("online", n, True, n != 512) for n in (256, 512, 1024)),
        judged("online", 256, True, False, round=1),  # of several visits the worst
        *(judged("naive", 2**k, False, False) for k in range(8, 14)),
        judged("three_pass", 256, True, None),
        row("torch", 256),  # nobody asked
    ]
    [table] = make("kernels", tmp_path, rows).values()
    assert [[line[1], *line[-2:]] for line in table.lines] == [
        ["naive", "0 of 6", "0 of 6"],
        ["three_pass", "1 of 1", "–"],
        ["online", "3 of 3", "1 of 3"],
    ]
    apart = data_of(table).set_index("variant").loc["online", ["cols", "batch_invariant"]]
    assert apart.to_numpy().tolist() == [[256, False], [512, False], [1024, True]]


def test_declarations_stand_beside_the_sources_own_tables(tmp_path: Path) -> None:
    rows = [row(kernel, 1024) for kernel in ("naive", "fused", "online", "hybrid", "torch")]
    wrong = {"fused": DECLARED["fused"].model_copy(update={"reads": "2MN"})}
    lines = lines_of(make("a_tab1", tmp_path, rows, declared=DECLARED | wrong)["a_tab1"])
    equal = {"naive": "yes 8MN + 4M", "fused": "no 2MN", "online": "– –"}
    assert {k: f"{lines[k]['equal']} {lines[k]['A: total']}" for k in equal} == equal
    [table] = make("a_tab1", tmp_path, rows, declared=wrong).values()
    assert lines_of(table)["naive"]["equal"] == "not declared"


def test_rows_of_several_codes_or_of_no_clean_commit_are_named(tmp_path: Path) -> None:
    """What README quotes may come of one source per kernel and of clean commits alone."""

    def code(**facts: Any) -> list[Row]:
        environment = {"source": "a", "commit": "b" * 40, "dirty": False} | facts
        sweep = "-".join(map(str, facts.values())) or "clean"
        rows = [row(name, 4096, environment=environment, sweep=sweep) for name in ("auto", "torch")]
        return [*rows, row("copy", 4096, environment=environment, sweep=sweep)]

    def named(name: str, rows: list[Row]) -> str:
        [found] = data_of(make("headline", tmp_path / name, rows)["headline"])["not_one_code"]
        rows_behind = load(tmp_path / name).query("kernel != 'copy'")
        assert "; ".join(mixed_code(rows_behind)) == found
        return str(found)

    assert named("clean", code()) == ""
    assert named("dirty", code(dirty=True)) == "True/0 by an edited or unnamed commit"
    assert named("unnamed", code(commit=None)) == "None/0 by an edited or unnamed commit"
    both = named("two", code() + code(source="c"))
    assert both == "auto of 2 sources; torch of 2 sources"


def test_the_rows_behind_a_line_are_printed_and_nothing_else_is_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], refused: Refused
) -> None:
    write(tmp_path / "rows", point(auto=100.0, torch=120.0, copy=90.0))
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
    assert main(["trace", table, "NVIDIA H200", "--rows", "rows"]) == 0  # by its first column
    assert capsys.readouterr().out.splitlines() == printed
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe")
    write(tmp_path / "elsewhere", [row("torch", 256)])
    for words, said in (
        ((table, "2"), "no line 2; it has 1"),
        ((table, "0"), "no line 0"),
        (("nosuch.csv", "1"), "no such file"),
        (("other.csv", "1"), "line 1 names no rows; counts are in **/count*.jsonl"),
        ((table, "NVIDIA H100"), "no line NVIDIA H100; it has 1"),
        (("bytes.csv", "1"), "no CSV of ours"),
        ((table, "1", "--rows", "elsewhere"), "none of the rows"),
    ):
        assert said in refused("trace", *words)
