import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from experiments.data.rows import read_rows, rows_files
from tests.conftest import QUICK, ROOT, command_line, once_each, shape

KILLS = int(os.environ.get("FAULT_KILLS", "6"))
SIGNALS = [signal.SIGKILL, signal.SIGTERM, signal.SIGINT]
COLS = [3, 5, 16, 31, 64, 100, *range(101, 119)]


def lines(out: Path) -> int:
    """How many whole rows are on disk."""
    return sum(path.read_bytes().count(b"\n") for path in rows_files(out))


def wait_until(ready: Callable[[], bool], process: subprocess.Popen[str], limit_s: float) -> None:
    end = time.monotonic() + limit_s
    while not ready():
        assert process.poll() is None, "the command ended before the test could end it"
        assert time.monotonic() < end, f"nothing happened in {limit_s:g} s"
        time.sleep(0.005)


@pytest.mark.timeout(300 + 30 * KILLS)
def test_a_sweep_killed_many_times_ends_with_every_point_done_once(tmp_path: Path) -> None:
    out = tmp_path / "out"
    cols = [*COLS, *range(200, 200 + KILLS // 5)]  # a kill comes after two rows or so
    command = command_line(
        out, "kernel=good,naive,torch", *shape(8, cols), "dtype=float32,float16", "rounds=2",
        *QUICK,
    )  # fmt: skip
    dice = random.Random(11)
    after_new_rows = 0
    for _ in range(KILLS):
        before = lines(out)
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True
        )
        try:
            wanted = dice.randint(0, 4)
            if wanted:
                enough = before + wanted
                wait_until(lambda enough=enough: lines(out) >= enough, process, limit_s=60)
                time.sleep(0.02 * dice.random())  # anywhere in the next point
            else:
                time.sleep(dice.uniform(0.3, 2))  # most likely still planning
            process.send_signal(dice.choice(SIGNALS))
            process.wait(timeout=60)
        finally:
            process.kill()
            process.wait()
        after_new_rows += lines(out) > before
    assert after_new_rows >= KILLS // 2
    last = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200)
    assert last.returncode == 0, last.stderr
    rows = [row for path in rows_files(out) for row in read_rows(path)]
    assert len(rows) == 4 * len(cols) * 2 * 2
    assert once_each(rows)
    assert all(row.expected and row.attempt == 1 for row in rows)


def test_ctrl_c_ends_in_one_line_and_keeps_the_rows(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = command_line(out, "kernel=good,hang", *shape(4, [4, 8]), "dtype=float32", *QUICK)
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: lines(out) > 0, process, limit_s=60)
        time.sleep(1)  # by now it hangs in a kernel
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert "goes on where it stopped" in errors
    assert "Traceback" not in errors
    rows = [row for path in rows_files(out) for row in read_rows(path)]
    assert rows
    assert {row.status for row in rows} == {"ok"}  # a point that was interrupted is none
