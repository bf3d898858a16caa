"""The two commands that ask a card without a sweep, and the host's cost of a call."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from experiments import hostcost, probe
from experiments.data.files import validated
from experiments.data.records import Probe
from experiments.sweep.client import Worker
from experiments.worker import flush
from experiments.worker import probe as worker_probe
from experiments.worker.hostcost import measure
from experiments.worker.measure import Bench
from experiments.worker.place import take_place
from tests.doubles.cuda import Card

module = sys.modules[measure.__module__]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_without_a_card_each_says_so_in_one_line(
    worker: Worker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(probe, "Worker", lambda *_: worker)
    monkeypatch.setattr(worker, "stop", lambda: None)
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
    assert (slow["ratio_low"], slow["ratio_high"]) == (8, 8)


def test_a_probe_reads_what_was_left_in_l2_before_and_after_a_flush_and_in_a_rotation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = take_place("cpu")
    bench = Bench(replace(place, device=replace(place.device, l2_bytes=1 << 16)))
    bench.flush.hinted = True
    left: list[bool] = []
    monkeypatch.setattr(flush, "touch", lambda x, store=False: left.append(store))
    monkeypatch.setattr(worker_probe, "LEFT_BYTES", (1 << 14, 1 << 16))  # L2 holds the first alone
    with Card(lambda name: 2.0 * ("sum" in name)) as card:
        card.install(monkeypatch)
        found = worker_probe.probe(bench)["probes"]
    probes = [validated(Probe, one | {"environment": {}}) for one in found]
    ways = ("loads", "hinted loads", "hinted stores")
    expected = {(way, cache) for way in ways for cache in ("warm", "cold")} | {(None, "rotation")}
    assert {(one.left, one.cache) for one in probes if one.bytes == 1 << 14} == expected
    assert {one.bytes for one in probes} == {1 << 14}
    assert set(left) == {False, True}
    assert any(re.fullmatch(r"0\.015625 MiB +hinted stores +2\.00 +2\.00 +2\.00", line)
               for line in probe.lines_of(probes))  # fmt: skip
