"""The two commands that ask a card without a sweep, and the host's cost of a call."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from experiments import hostcost, probe
from experiments.worker.hostcost import measure

module = sys.modules[measure.__module__]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_without_a_card_each_says_so_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["command", "--out", str(tmp_path)])
    with pytest.raises(SystemExit, match="2"):
        hostcost.main()
    error = capsys.readouterr().err
    assert error == "error: hostcost needs a CUDA device: it times launches of kernels\n"
    assert probe.main() == 0
    assert "no CUDA device, so no L2 flush to probe" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_a_slower_layer_shows_and_waiting_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    now_us = 0

    def spend(us: int) -> None:
        nonlocal now_us
        now_us += us

    clock = SimpleNamespace(perf_counter_ns=lambda: 1000 * now_us)
    monkeypatch.setattr(module, "time", clock)
    base, slow = measure(
        [("base", "base", lambda: spend(1)), ("slow", "base", lambda: spend(8))],
        wait=lambda: spend(20),
    )
    assert (base["host_us"], base["ratio"]) == (1, 1)
    assert (slow["host_us"], slow["ratio"]) == (8, 8)
