"""The command that asks a card, without a sweep, whether a cold read is cold."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from experiments import probe
from experiments.data.files import validated
from experiments.data.records import Probe
from experiments.worker import flush
from experiments.worker import probe as worker_probe
from experiments.worker.measure import Bench
from experiments.worker.place import take_place
from tests.doubles.cuda import Card


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_without_a_card_it_says_so_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["command", "--out", str(tmp_path)])
    assert probe.main() == 0
    assert "no CUDA device, so no L2 flush to probe" in capsys.readouterr().out
    assert not (tmp_path / "probe.jsonl").exists()


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
