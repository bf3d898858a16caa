"""How much faster four cards are than one: ``python -m tests.cards_benchmark``, about two minutes.

The cards are doubles: each point takes as long as it took on one H200 (the recorded rows of
``outputs/reference/h200_x4``), a worker takes seconds to start, and to prepare for the first one.
All the rest is a real sweep: the command line, composing, planning, the schedule, rows on disk.
"""

from __future__ import annotations

import dataclasses
import json
import runpy
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest import mock

from experiments.data.packed import unpacked

from experiments.data.rows import Row, read_rows, rows_files
from experiments.sweep import driver
from experiments.sweep.cards import WorkerPool
from experiments.sweep.client import Worker
from experiments.worker.describe import describe
from kernels.device import Device
from tests.conftest import ROOT

START_S, PREPARE_S = 4.0, 1.5  # importing torch; memory, the flush and its compilation
RECORD = ROOT / "outputs" / "reference" / "h200_x4" / "cards.tar.gz"
CARD = Device(kind="cuda", name="NVIDIA H200")
PRESET = ["experiment=recorded/cards", "kernel=auto,torch,copy", "dtype=float32,bfloat16", "gpu=h200",
          "tracker=none", "remeasure=false"]  # fmt: skip


class Card(Worker):
    """A card whose every point takes the seconds that are known of it."""

    seconds: dict[tuple[str, int, int, str], float]

    def spawn(self) -> None:
        if not self._up:
            self._up, self._ready = True, time.monotonic() + START_S
            self.handshake = {"device": dataclasses.asdict(CARD), "environment": ENVIRONMENT}

    @property
    def answers(self) -> bool:
        return self._up and time.monotonic() >= self._ready

    def start(self) -> dict[str, Any]:
        self.spawn()
        time.sleep(max(0.0, self._ready - time.monotonic()))
        return self.handshake

    def request(self, message: Any, *_: Any, **__: Any) -> dict[str, Any]:
        time.sleep(max(0.0, self._ready + PREPARE_S - time.monotonic()))
        if message["do"] == "describe":
            return describe(message["job"], CARD)
        point = message["point"]
        key = point["kernel"]["_target_"], point["rows"], point["cols"], point["dtype"]
        time.sleep(self.seconds[key])
        return {"status": "ok"}

    def stop(self, patience_s: float = 0.0) -> None:
        self._up = False


class Pool(WorkerPool):
    """Cards of this kind, which need no lock."""

    def worker(self, device: str, card: int) -> Worker:
        return self.workers.setdefault((device, card), Card(device, card, self.log))

    def _lock(self, wait: bool) -> bool:
        return True


def swept(cards: list[int]) -> dict[str, float]:
    """Seconds of planning, of measuring and in all of the sweep on these cards."""
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(driver, "WorkerPool", Pool):
        words = [*PRESET, f"hydra.launcher.cards={cards}".replace(" ", ""), f"out={folder}/out"]
        with mock.patch.object(sys, "argv", ["run", *words]):
            runpy.run_module("experiments.run", run_name="__main__")
        noted = json.loads((Path(folder) / "out" / "sessions.jsonl").read_text())
    planning, elapsed = noted["planning_s"], noted["elapsed_s"]
    return {"planning": planning, "measuring": elapsed - planning, "in all": elapsed}


def main() -> None:
    """Sweeps on one card and on four, and prints the ratios."""
    alone, four = swept([0]), swept([0, 1, 2, 3])
    for part, seconds in alone.items():
        times = f"{seconds:.1f} s on one card, {four[part]:.1f} s on four"
        print(f"{part:9}  {times}: {seconds / four[part]:.2f} times")


def recorded() -> list[Row]:
    """The rows of the sweep on one card."""
    return [row for path in rows_files(unpacked(RECORD) / "alone") for row in read_rows(path)]


ROWS = recorded()
ENVIRONMENT = {k: v for k, v in ROWS[0].environment.items() if k not in ("target", "source")}
Card.seconds = {(row.environment["target"], row.rows, row.cols, row.dtype): row.wall_s or 0.0
                for row in ROWS}  # fmt: skip

if __name__ == "__main__":
    main()
