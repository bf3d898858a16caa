"""A sweep waits for its card while another process has it; a dry run does not."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.conftest import QUICK, ROOT, Command, command_line, shape
from tests.experiments.test_card_lock import NVML, cards, holder, says

__all__ = ["cards"]  # the fixture
ASKED = ["kernel=good", *shape(4, 8), "dtype=float32", *QUICK]


def test_a_sweep_waits_for_its_card_and_a_dry_run_does_not(
    cards: list[str],
    sweep: Command,
    tmp_path: Path,
) -> None:
    other = holder(0)
    assert says(other) == "held"
    path = {"PYTHONPATH": str(NVML)}
    dry = sweep(*ASKED, "gpu=auto", "dry_run=true", **path)
    assert (dry.status, "in use" in dry.stderr) == (0, False)
    command = command_line(tmp_path / "out", *ASKED, "gpu=auto")
    waiting = subprocess.Popen(command, cwd=ROOT, text=True,
                               stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                               env=os.environ | path)  # fmt: skip
    assert waiting.stderr is not None
    told = waiting.stderr.readline().strip()
    assert told == f"card 0 is in use by process {other.pid} of another sweep; waiting"
    assert not list((tmp_path / "out").rglob("rows.jsonl"))
    other.kill()
    other.communicate()
    assert "card 0 is free" in waiting.communicate(timeout=240)[1]
    assert waiting.returncode == 0
    on_cpu = holder(0)  # whoever has a card, a sweep on the CPU asks for none
    assert says(on_cpu) == "held"
    assert sweep(*ASKED, "gpu=cpu", "overwrite=true", **path).status == 0
    on_cpu.communicate()
