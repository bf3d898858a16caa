"""Kills, crashes, full disks, odd clocks and a second sweep: no row is lost, none made twice."""

import os
import random
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from experiments.data.errors import UserError
from experiments.data.rows import pack, rows_files
from experiments.parent.record import Ledger, folder_lock
from tests.analysis.plausible import row
from tests.conftest import QUICK, ROOT, Command, command_line, once_each, rows_below, shape

KILLS = int(os.environ.get("FAULT_KILLS", "2"))
SIGNALS = [signal.SIGKILL, signal.SIGTERM, signal.SIGINT]
WIDTHS = 12
ARGUMENTS = ["kernel=good", *shape(4, [*range(8, 8 + WIDTHS)]), "dtype=float32"]


def lines(out: Path) -> int:
    """How many whole rows are on disk."""
    return sum(path.read_bytes().count(b"\n") for path in rows_files(out))


def wait_until(
    ready: Callable[[], object], limit_s: float, process: subprocess.Popen[str] | None = None
) -> None:
    """Waits for what a process is to bring about."""
    end = time.monotonic() + limit_s
    while not ready():
        assert process is None or process.poll() is None, "the command ended before the test's end"
        assert time.monotonic() < end, f"nothing happened in {limit_s:g} s"
        time.sleep(0.01)


@contextmanager
def running(out: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The command line in a process of its own, which does not outlive the block."""
    command, quiet = command_line(out, *arguments, *QUICK), subprocess.DEVNULL
    process = subprocess.Popen(command, cwd=ROOT, stdout=quiet, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.timeout(300 + 30 * KILLS)
def test_a_sweep_killed_many_times_ends_with_every_point_done_once(
    sweep: Command, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    cols = [3, 31, 64, *range(101, 103 + KILLS)]  # more than three rows before a kill
    asked = ["kernel=good,torch", *shape(8, cols), "dtype=float32", "rounds=2"]
    dice = random.Random(11)
    after_new_rows = 0
    for kill in range(1, KILLS + 1):
        before = lines(out)
        with running(out, *asked) as process:
            wanted = kill % 5  # none: while it still plans
            if wanted:
                enough = before + wanted
                wait_until(lambda enough=enough: lines(out) >= enough, 60, process)
                time.sleep(0.02 * dice.random())  # anywhere in the next point
            else:
                time.sleep(dice.uniform(0.3, 2))
            process.send_signal(dice.choice(SIGNALS))
            process.communicate(timeout=60)
        after_new_rows += lines(out) > before
    assert after_new_rows >= KILLS // 2
    last = sweep(*asked, *QUICK)
    assert last.status == 0, last.stderr
    assert len(last.rows) == 3 * len(cols) * 2
    assert once_each(last.rows)
    assert all(row.expected and row.attempt == 1 for row in last.rows)


def test_ctrl_c_ends_in_one_line_and_keeps_the_rows(tmp_path: Path) -> None:
    out = tmp_path / "out"
    asked = ["kernel=good,hang", *shape(4, [4, 8]), "dtype=float32", "seed=2"]  # good comes first
    with running(out, *asked) as process:
        wait_until(lambda: lines(out) > 0, 60, process)
        time.sleep(1)  # by now it hangs in a kernel
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "goes on where it stopped" in errors
    assert "Traceback" not in errors
    assert {row.status for row in rows_below(out)} == {"ok"}  # a point that was interrupted is none


def test_a_disk_that_fills_costs_one_line_and_no_row_that_was_written(sweep: Command) -> None:
    whole = resource.getrlimit(resource.RLIMIT_FSIZE)
    # as on a full disk: a file takes so many bytes, and a write beyond fails in its middle
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, whole[1]))
    try:
        full = sweep(*ARGUMENTS, *QUICK)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, whole)
    assert (full.status, "rows.jsonl: File too large" in full.error) == (1, True)
    before = full.rows
    assert 0 < len(before) < 2 * WIDTHS
    done = sweep(*ARGUMENTS, *QUICK)
    assert done.status == 0, done.stderr
    assert len(done.rows) == 2 * WIDTHS
    assert once_each(done.rows)
    assert all(row in done.rows for row in before)


def test_a_crash_a_hang_a_lie_and_a_glutton_are_rows_and_the_rest_is_measured(
    sweep: Command,
) -> None:
    done = sweep(
        "kernel=segfault,hang,wrong,exhaust,raise,negative,vast,good",
        *shape(4, 16), "dtype=float32", "timing.compile_limit_s=2", *QUICK,
    )  # fmt: skip
    assert done.status == 1
    assert {row.kernel: row.status for row in done.rows} == {
        "segfault": "crashed", "hang": "timeout", "wrong": "incorrect", "raise": "launch_error",
        "exhaust": "out_of_memory", "negative": "incorrect", "vast": "incorrect",
        "good": "ok", "copy": "ok",
    }  # fmt: skip
    reasons = {row.kernel: row.reason or "" for row in done.rows if not row.expected}
    assert "SIGSEGV" in reasons["segfault"]
    assert reasons["raise"] == "RuntimeError: first line second line of file.py"  # and no path
    assert "took more than 2 s" in reasons["hang"]
    assert reasons["negative"] == "model_reads is declared as a number below zero"
    assert reasons["vast"] == "model_reads is declared as a number beyond 2^53"
    assert all(row.time_us is None for row in done.rows if not row.expected)
    assert once_each(done.rows)


def test_a_second_sweep_is_refused_a_recording_takes_no_rows_and_neither_is_changed(
    sweep: Command, sweep_of_four: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with folder_lock(out):
        (out / "precious").touch()
        assert "another sweep writes there" in sweep(*ARGUMENTS).error
        assert {path.name for path in out.iterdir()} == {"precious", ".lock"}
        assert sweep(*ARGUMENTS, "dry_run=true").status == 0  # it only looks
    [packed, *_] = pack(sweep_of_four, out)
    before = packed.read_bytes()
    assert f"{packed} is a recording, which takes no rows" in sweep(*ARGUMENTS).error
    assert packed.read_bytes() == before


@pytest.mark.parametrize("taken", ["lock", "folder"])
def test_a_sweep_whose_folder_another_took_is_ended_before_it_writes(
    tmp_path: Path, taken: str
) -> None:
    out = tmp_path / "out"
    with folder_lock(out):
        first = Ledger(out)
        first.record("a", row("naive", 8, key="1"))
        if taken == "lock":
            (out / ".lock").unlink()
        else:
            out.rename(tmp_path / "elsewhere")
        with folder_lock(out):
            second = Ledger(out)
            second.record("a", row("naive", 8, key="2"))
            with pytest.raises(UserError, match=r"a/rows\.jsonl was removed or changed while this"):
                first.record("b", row("naive", 8, key="3"))
            second.record("b", row("naive", 8, key="4"))
    assert sorted(one.key for one in rows_below(tmp_path)) == ["1", "2", "4"]
