from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
import torch

from experiments import hostcost


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_without_a_card_it_says_so_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["hostcost"])
    with pytest.raises(SystemExit, match="2"):
        hostcost.main()
    error = capsys.readouterr().err
    assert error == "error: hostcost needs a CUDA device: it times launches of kernels\n"


def test_a_slower_layer_shows_and_waiting_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    now_us = 0

    def spend(us: int) -> None:
        nonlocal now_us
        now_us += us

    clock = SimpleNamespace(perf_counter_ns=lambda: 1000 * now_us)
    monkeypatch.setattr(hostcost, "time", clock)
    base, slow = hostcost.measure(
        [("base", "base", lambda: spend(1)), ("slow", "base", lambda: spend(8))],
        wait=lambda: spend(20),
    )
    assert (base["host_us"], base["ratio"]) == (1, 1)
    assert (slow["host_us"], slow["ratio"]) == (8, 8)
    assert hostcost.table([base, slow]).count("\n") == 3
