from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from experiments import hostcost


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_without_a_card_it_says_so_in_one_line() -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "experiments.hostcost"],
        cwd=root, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == "error: hostcost needs a CUDA device: it times launches of kernels\n"


def test_a_slower_layer_shows_and_waiting_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostcost, "CALLS", 2)
    monkeypatch.setattr(hostcost, "ROUNDS", 6)
    monkeypatch.setattr(hostcost, "WARMUP", 1)
    records = hostcost.measure(
        [("base", "base", lambda: time.sleep(1e-3)), ("slow", "base", lambda: time.sleep(8e-3))],
        wait=lambda: time.sleep(0.02),
    )
    base, slow = records
    assert base["ratio"] == 1
    assert slow["ratio"] > 2
    assert slow["host_us"] < 20e3
    assert hostcost.table(records).count("\n") == 3
