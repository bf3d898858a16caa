"""The command ``python -m experiments.count``."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from experiments.count import main
from experiments.data.records import Count, read_records
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


def test_a_fault_shows_a_crash_stops_no_other_and_the_rest_is_the_same_to_the_byte(
    everything: tuple[Path, list[Count], str], tmp_path: Path
) -> None:
    _, counts, printed = count(
        tmp_path, "--config-dir", str(DOUBLES), "--kernel", "segfault,raise,reread,naive",
        "--shapes", "4x8,26x13", "--dtypes", "float16",
    )  # fmt: skip
    segfault, failing, reread, _ = counts[::2]
    assert segfault.reason == "not countable: the worker died while counting: SIGSEGV"
    assert str(failing.reason).startswith("not countable: it fails here with RuntimeError: first")
    assert reread.difference == "reads 3MN where the model says 2MN"
    assert "reads 3MN where the model says 2MN" in printed
    written = [line for line in (tmp_path / "counts.jsonl").open()
               if '"naive"' in line and '"rows":26' in line]  # fmt: skip
    assert written
    assert set(written) <= set((everything[0] / "counts.jsonl").open())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["counts.jsonl"]


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
