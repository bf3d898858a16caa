"""The roofline: shares of the roof, and which times their traffic or arithmetic explains."""

import csv
from pathlib import Path

import pytest

from analysis.__main__ import main
from experiments.data.rows import Row
from tests.analysis.plausible import loss, paper, row, write


def product(kernel: str, operation: str, time_us: float, **changes: object) -> Row:
    """A row of an operation whose products take 100 µs and whose bytes 10."""
    fields = {"operation": operation, "roof": operation, "flops": 10**9, "dtype": "bfloat16"}
    return row(kernel, 4096, time_us=time_us, **fields | changes)


def test_the_command_draws_a_share_an_operation_and_writes_the_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arithmetic = [
        product("attention_torch", "attention", 105.0, roof="io"),
        product("attention_online", "attention", 150.0, roof="io"),
        product("io", "io", 10.0, flops=None),
        product("matmul", "matmul", 100.0),
    ]
    losses = loss({"ce_auto": 1, "read": 1})
    write(tmp_path / "rows", [*paper((256, 1024, 16384, 131072)), *losses, *arithmetic])
    assert main(["roofline", "--rows", "rows", "--out", "out"]) == 0
    printed = capsys.readouterr().out
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "roofline.csv", "roofline.md",
        *(f"roofline{name}-nvidia-h200.{end}" for end in ("svg", "png")
          for name in ("", "-cross-entropy")),
    }  # fmt: skip
    assert "points are explained by traffic within 10 %." in printed
    lines = list(csv.DictReader((tmp_path / "out" / "roofline.csv").open(encoding="utf-8")))
    assert all(line["keys"] and line["recordings"] for line in lines)
    # the prediction is the longest of bytes and arithmetic
    ratios = {line["variant"]: float(line["ratio"]) for line in lines}
    assert ratios["attention_torch"] == pytest.approx(1.05)
    table = (tmp_path / "out" / "roofline.md").read_text()
    assert "| attention | attention_torch | 1 | 1 | 0 | 0 | 1.05 |" in table
    assert "| attention | attention_online | 1 | 0 | 0 | 1 | 1.50 |" in table
    write(tmp_path / "few", [row("torch", 256)])
    assert main(["roofline", "--rows", "few"]) == 2
