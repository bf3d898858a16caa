"""Each reason why a point takes its time, on both sides of its threshold."""

from __future__ import annotations

import math
from typing import Any

import pytest

from analysis.roofline.verdicts import BUSY_PIPE_PERCENT as BUSY
from analysis.roofline.verdicts import LAUNCH_SLACK_US, verdict
from experiments.data.cards import card_of
from tests.analysis.plausible import row
from tests.analysis.records import counters

ROOF = 4000.0
HALF = {"programs": 132 * 4, "warps": 8, "registers": 64, "shared_bytes": 0}  # of an SM's warps
MANY = {"programs": 4096, "warps": 4, "registers": 29, "shared_bytes": 16}
FITS = 60 * 2**20 // (132 * 16 * 4)  # columns of which 16 programs of 4 warps an SM fit L2
EARLY = {"time_us": 10.0, "floor_us": 10.0 - LAUNCH_SLACK_US}


def seen(kernel: str, reads: float, **facts: Any) -> dict[str, Any]:
    """What counters saw: reads in units of MN."""
    found = counters(kernel, 4096, 16384, reads, 1.0, **facts)
    return {"seen": found, "reads_ratio": found.dram_read_bytes / (4 * found.model_reads)}


def point(
    kernel: str = "fused", cols: int = 16384, ratio: float = 1.5, **changes: Any
) -> dict[str, Any]:
    """A row far above its launch floor whose time is ``ratio`` times what traffic predicts."""
    fields = {"floor_us": 1.0, "reads_ratio": math.nan, "seen": None} | changes
    data = row(kernel, cols).model_dump() | fields
    predicted = data["model_bytes"] / ROOF / 1e3
    time = changes.get("time_us", ratio * predicted)
    return data | {"time_us": time, "ratio": time / predicted}


@pytest.mark.parametrize(("made", "expected"), [
    (point(ratio=0.901), "traffic"), (point(ratio=1.099), "traffic"),
    (point(ratio=1.05, arithmetic_us=2.0, predicted_us=2.0), "compute"),
    (point(ratio=1.05, arithmetic_us=1.9, predicted_us=2.0), "traffic"),
    (point(ratio=1.101), "unexplained"), (point(ratio=0.899), "unexplained"),
    (point(cols=256, **EARLY), "launch"),
    (point(cols=256, **EARLY | {"time_us": 10.1}), "unexplained"),
    (point(cols=256, time_us=29.0, floor_us=29.0), "launch"),
    (point(cols=256, time_us=29.1, floor_us=29.1), "unexplained"),  # all its points are as long
    (point(spills=82), "spills"), (point(spills=0), "unexplained"),
    (point(spills=0, **seen("fused", 1.0, local_load_bytes=4096, local_store_bytes=0)), "spills"),
    # what DRAM never saw was served by L2: by counters, where the matrix or rows in flight fit
    (point("online", ratio=0.7, **seen("online", 1.1)), "re-reads served by L2"),
    (point("online", ratio=0.7, **seen("online", 2.0)), "unexplained"),
    (point("online", cols=1920, ratio=0.7), "re-reads served by L2"),  # 2MN = 60 MiB
    (point("online", cols=1921, ratio=0.7), "unexplained"),
    (point("online", cols=FITS, ratio=0.7, **MANY), "re-reads served by L2"),
    (point("online", cols=FITS + 1, ratio=0.7, **MANY), "unexplained"),
    (point("fused", cols=1920, ratio=0.7), "unexplained"),  # it reads nothing again
    (point("torch", **seen("torch", 3.0)), "moves more than its model"),
    (point("torch", **seen("torch", 1.05)), "unexplained"),
    (point(**HALF), "unexplained"), (point(**HALF | {"programs": 132 * 4 - 1}), "occupancy"),
    (point(**HALF | {"shared_bytes": 196640}), "occupancy"),  # one program an SM
    # counters overrule the launch
    (point(programs=100, warps=8, **seen("fused", 1.0, occupancy_percent=49.0)), "occupancy"),
    (point(programs=100, warps=8, **seen("fused", 1.0, occupancy_percent=50.0)), "unexplained"),
    (point(**seen("fused", 1.0, pipes_percent={"xu": BUSY + 1, "fma": 9.0})), "compute"),
    (point(**seen("fused", 1.0, pipes_percent={"xu": BUSY})), "unexplained"),
])  # fmt: skip
def test_each_reason_holds_up_to_its_threshold(made: dict[str, Any], expected: str) -> None:
    assert verdict(made, card_of("NVIDIA H200"), made["seen"]) == expected
