import errno
import fcntl
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from experiments.errors import UserError
from experiments.sweep.record import FolderLock
from tests.conftest import QUICK, ROOT, Command, command_line, once_each, shape


def test_a_crash_a_hang_a_lie_and_a_glutton_are_rows_and_the_rest_is_measured(
    sweep: Command,
) -> None:
    done = sweep(
        "kernel=segfault,hang,wrong,wrong_later,exhaust,starve,oom_killed,raise,meddle,surrogate,good",
        *shape(4, [15, 16]), "dtype=float32", "timing.compile_limit_s=3", *QUICK,
    )  # fmt: skip
    assert done.status == 1
    status = {(row.kernel, row.cols): row.status for row in done.rows}
    assert status == {
        ("segfault", 15): "ok", ("segfault", 16): "crashed",
        ("hang", 15): "timeout", ("hang", 16): "timeout",
        ("wrong", 15): "incorrect", ("wrong", 16): "incorrect",
        ("wrong_later", 15): "incorrect", ("wrong_later", 16): "incorrect",
        ("exhaust", 15): "out_of_memory", ("exhaust", 16): "out_of_memory",
        ("starve", 15): "out_of_memory", ("starve", 16): "out_of_memory",
        ("oom_killed", 15): "crashed", ("oom_killed", 16): "crashed",
        ("raise", 15): "launch_error", ("raise", 16): "launch_error",
        ("meddle", 15): "crashed", ("meddle", 16): "crashed",
        ("surrogate", 15): "launch_error", ("surrogate", 16): "launch_error",
        ("good", 15): "ok", ("good", 16): "ok", ("copy", 15): "ok", ("copy", 16): "ok",
    }  # fmt: skip
    reasons = {row.kernel: row.reason or "" for row in done.rows if not row.expected}
    assert "SIGSEGV" in reasons["segfault"]
    assert "SIGKILL" in reasons["oom_killed"]
    assert "took more than 3 s" in reasons["hang"]
    assert "after timing" in reasons["wrong_later"]
    assert all(row.time_us is None for row in done.rows if not row.expected)
    assert "Traceback" not in done.stderr
    assert once_each(done.rows)


def test_a_second_sweep_is_refused_and_changes_nothing_in_the_folder(
    sweep: Command, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    arguments = ["kernel=hang", *shape(4, 8), "dtype=float32"]
    first = subprocess.Popen(command_line(out, *arguments), cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 60
        while not (out / "variants.json").exists() and time.monotonic() < end:
            time.sleep(0.1)
        request = (out / ".hydra" / "multirun.yaml").read_text()
        assert "kernel=hang" in request
        (out / ".lock").unlink(missing_ok=True)
        done = sweep(*arguments, "seed=1")
        assert done.status == 2
        assert "another sweep" in done.error
        assert (out / ".hydra" / "multirun.yaml").read_text() == request
    finally:
        first.kill()
        first.wait()


def test_a_folder_that_is_replaced_while_a_sweep_has_it_is_noticed(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path / "out")
    lock.check()
    with pytest.raises(UserError, match="being written by another sweep"):
        FolderLock(tmp_path / "out")
    (tmp_path / "out").rename(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="was removed or replaced"):
        lock.check()
    other = FolderLock(tmp_path / "out")
    with pytest.raises(UserError, match="was removed or replaced"):
        lock.check()
    lock.close()
    other.close()


def test_where_folders_take_no_lock_a_file_is_locked_and_its_removal_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock = fcntl.flock

    def as_on_nfs(descriptor: int, operation: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EBADF, "Bad file descriptor")
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", as_on_nfs)
    lock = FolderLock(tmp_path)
    with pytest.raises(UserError, match="being written by another sweep"):
        FolderLock(tmp_path)
    (tmp_path / ".lock").unlink()
    with pytest.raises(UserError, match=r"\.lock was removed"):
        lock.check()
    lock.close()


def test_the_command_line_starts_without_torch_or_trackers(tmp_path: Path) -> None:
    code = (
        "import sys; sys.argv = ['run', '--help']\n"
        "import runpy\n"
        "try: runpy.run_module('experiments.run', run_name='__main__')\n"
        "except SystemExit: pass\n"
        "import experiments.sweep.driver\n"
        "heavy = {'torch', 'triton', 'wandb', 'pandas', 'numpy'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
