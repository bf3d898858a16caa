"""The command ``python -m experiments.count``."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from experiments.count import main
from experiments.data.records import EXAMPLE, Count, Trace, read_records
from tests.conf import KERNELS
from tests.conftest import DOUBLES


def count(out: Path, *arguments: str) -> tuple[Path, list[Count], str]:
    """Runs the command: where it wrote, the counts, and what it printed."""
    with redirect_stdout(io.StringIO()) as printed:
        assert main(["--out", str(out), *arguments]) == 0
    return out, list(read_records(out / "counts.jsonl", Count)), printed.getvalue()


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Count], str]:
    return count(tmp_path_factory.mktemp("count") / "out", "--dtypes", "float16",
        "--shapes", "26x13,3x4200")  # fmt: skip


def test_every_variant_moves_what_it_declares(everything: tuple[Path, list[Count], str]) -> None:
    _, counts, _ = everything
    assert {c.kernel for c in counts} == set(KERNELS)
    for record in counts:
        place = f"{record.kernel} at {record.rows}×{record.cols} {record.dtype}"
        if record.method == "none":
            assert str(record.reason).startswith(("not countable: ", "needs ", "takes ")), place
            assert record.tensors == [], place
        elif record.kernel == "naive":
            assert str(record.difference).endswith("3MN + 2M: max.indices (int64)"), place
        else:
            assert record.difference is None, f"{place}: {record.difference}"
    ratios = {c.model_reads // (c.rows * c.cols) for c in counts if c.kernel == "hybrid"}
    assert ratios == {1, 3}, "both sides of hybrid's block are among the shapes"


def test_softmax_is_traced_on_the_worked_example_in_tiles_of_2_4_and_8(
    everything: tuple[Path, list[Count], str],
) -> None:
    out, counts, _ = everything
    traces = list(read_records(out / "traces.jsonl", Trace))
    countable = {count.kernel for count in counts if count.method != "none"}
    # another preset is of the same kernel
    presets = {"hybrid_whole", "hybrid_capped", "online_l2", "copy_hinted", "read_hinted"}
    # no trace shows two inputs
    presets |= {c.kernel for c in counts if c.tensors and "x" not in {t.name for t in c.tensors}}
    assert {trace.kernel.partition(",")[0] for trace in traces} == countable - presets
    cases = {
        (t.kernel.partition(",")[0], t.rows, t.params.get("block_size"))
        for t in traces
        if t.operation == "softmax"
    }
    tiled = {"three_pass", "hybrid", "online"}
    whole = {"naive", "torch", "fused", "fused_row", "fused_multirow", "auto"}
    assert cases == {
        *((kernel, rows, block) for kernel in tiled for rows in (2, 3) for block in (2, 4, 8)),
        *((kernel, 4, 4) for kernel in tiled),
        *((kernel, rows, None) for kernel in whole for rows in (2, 3, 4)),
    }
    for trace in traces:
        assert trace.input is not None
        assert len(trace.input) == trace.rows
        if trace.rows < 4:
            assert trace.input == [list(row) for row in EXAMPLE[: trace.rows]]
        assert trace.accesses
        assert all(access.values for access in trace.accesses)
    assert (out / "traces.jsonl").stat().st_size < 1_000_000


def test_a_fault_shows_a_crash_stops_no_other_and_the_rest_is_the_same_to_the_byte(
    everything: tuple[Path, list[Count], str], tmp_path: Path
) -> None:
    _, counts, printed = count(
        tmp_path, "--config-dir", str(DOUBLES), "--kernel", "segfault,raise,reread,naive",
        "--shapes", "4x8,26x13", "--dtypes", "float16",
    )  # fmt: skip
    segfault, failing, reread, _ = counts[::2]  # a kernel that is not counted is not traced
    assert segfault.reason == "not countable: the worker died while counting: SIGSEGV"
    assert str(failing.reason).startswith("not countable: it fails here with RuntimeError: first")
    assert reread.difference == "reads 3MN where the model says 2MN"
    assert "reads 3MN where the model says 2MN" in printed
    for file, at in (("counts.jsonl", '"rows":26'), ("traces.jsonl", "")):
        written = [line for line in (tmp_path / file).open() if '"naive"' in line and at in line]
        assert written
        assert set(written) <= set((everything[0] / file).open())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["counts.jsonl", "traces.jsonl"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--kernel", "fast"], "kernel 'fast' is unknown; there are add, "),
        (["--shapes", "4x"], "--shapes 4x; write rows x columns, as in 198x99"),
        (["--dtypes", "int8"], "--dtypes 'int8' is unknown; use one of "),
    ],
)
def test_wrong_input_is_one_line(
    arguments: list[str], expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--out", str(tmp_path / "out"), *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {expected}")
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()
