"""The roofline's files, and each reason why a point takes its time."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import pytest

from analysis.__main__ import main
from analysis.roofline import BUSY_PIPE, LAUNCH_SLACK_US, checked, verdict
from tests.analysis.attention_rows import FLOPS, M, attention_rows
from tests.analysis.drawing import inputs_of
from tests.analysis.loss_rows import loss
from tests.analysis.plausible import paper, row, write
from tests.analysis.records import counters, h200, record_files

EARLY = {"time_us": 10.0, "floor_us": 10.0 - LAUNCH_SLACK_US}


@pytest.mark.usefixtures("small_pictures")
def test_the_command_draws_a_share_an_operation_and_writes_the_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "rows", [*paper((256, 1024, 16384, 131072)), *loss({"ce_auto": 1, "read": 1})])
    record_files(tmp_path / "rows", counters=h200())
    assert main(["roofline", "--rows", "rows", "--out", "out"]) == 0
    printed = capsys.readouterr().out
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "roofline.csv", "roofline.md",
        *(f"roofline{name}-nvidia-h200.{end}" for end in ("svg", "png")
          for name in ("", "-cross-entropy")),
    }  # fmt: skip
    assert "points are explained by traffic within 10 %." in printed
    lines = list(csv.DictReader((tmp_path / "out" / "roofline.csv").open(encoding="utf-8")))
    assert {"naive", "ce_auto"} <= {line["variant"] for line in lines}
    assert all(line["keys"] and line["recordings"] for line in lines)
    write(tmp_path / "few", [row("torch", 256)])
    assert main(["roofline", "--rows", "few"]) == 2


def test_the_prediction_is_the_longest_of_bytes_and_arithmetic(tmp_path: Path) -> None:
    points = checked(inputs_of(tmp_path, attention_rows((4096,)))).set_index("kernel")
    assert points.loc["attention_torch", "predicted_us"] == pytest.approx(512 * M * 4096 / FLOPS)
    assert points.loc["attention_torch", "verdict"] == "arithmetic"


def seen(kernel: str, reads: float, **facts: Any) -> dict[str, Any]:
    """What counters saw: reads in units of MN."""
    found = counters(kernel, 4096, 16384, reads, 1.0, **facts)
    return {"seen": found, "reads_ratio": found.dram_read_bytes / (4 * found.model_reads)}


def point(
    kernel: str = "fused", cols: int = 16384, ratio: float = 1.5, **changes: Any
) -> dict[str, Any]:
    """A row far above its launch floor whose time is ``ratio`` times the predicted one."""
    fields = {
        "floor_us": 1.0,
        "reads_ratio": math.nan,
        "seen": None,
        "arithmetic_us": None,
    } | changes
    data = row(kernel, cols).model_dump() | fields
    predicted = data["model_bytes"] / 4000.0 / 1e3
    time = changes.get("time_us", ratio * predicted)
    return {"predicted_us": predicted} | data | {"time_us": time, "ratio": time / predicted}


@pytest.mark.parametrize(("made", "expected"), [
    (point(ratio=0.901), "traffic"), (point(ratio=1.099), "traffic"),
    (point(ratio=1.05, arithmetic_us=2.0, predicted_us=2.0), "arithmetic"),
    (point(ratio=1.05, arithmetic_us=1.9, predicted_us=2.0), "traffic"),
    (point(ratio=1.101), "unexplained"), (point(ratio=0.899), "unexplained"),
    (point(cols=256, **EARLY), "launch"),
    (point(cols=256, **EARLY | {"time_us": 10.1}), "unexplained"),
    (point(cols=256, time_us=29.1, floor_us=29.1), "unexplained"),  # all its points are as long
    (point(spills=82), "spills"), (point(spills=0), "unexplained"),
    (point(spills=0, **seen("fused", 1.0, local_load_bytes=4096, local_store_bytes=0)), "spills"),
    (point("online", ratio=0.7, **seen("online", 1.1)), "caches served re-reads"),
    (point("online", ratio=0.7, **seen("online", 2.0)), "unexplained"),
    (point("online", ratio=0.7), "caches served re-reads"),
    (point("fused", ratio=0.7), "unexplained"),  # it reads nothing again
    (point("torch", **seen("torch", 3.0)), "moves more than its model"),
    (point(**seen("fused", 1.0, occupancy_percent=49.0)), "occupancy"),
    (point(**seen("fused", 1.0, occupancy_percent=50.0)), "unexplained"),
    (point(**seen("fused", 1.0, pipes_percent={"xu": BUSY_PIPE + 1, "fma": 9.0})), "arithmetic"),
])  # fmt: skip
def test_each_reason_holds_up_to_its_threshold(made: dict[str, Any], expected: str) -> None:
    assert verdict(made, made["seen"]) == expected
