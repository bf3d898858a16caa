import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from experiments.rows import read_rows, rows_files
from tests.conftest import QUICK, ROOT, Command, command_line, once_each, shape


def test_a_crash_a_hang_a_lie_and_a_glutton_are_rows_and_the_rest_is_measured(
    sweep: Command,
) -> None:
    done = sweep(
        "kernel=segfault,hang,wrong,wrong_later,exhaust,raise,good", *shape(4, [15, 16]),
        "dtype=float32", "timing.compile_limit_s=3", *QUICK,
    )  # fmt: skip
    assert done.status == 1
    status = {(row.kernel, row.cols): row.status for row in done.rows}
    assert status == {
        ("segfault", 15): "ok", ("segfault", 16): "crashed",
        ("hang", 15): "timeout", ("hang", 16): "timeout",
        ("wrong", 15): "incorrect", ("wrong", 16): "incorrect",
        ("wrong_later", 15): "incorrect", ("wrong_later", 16): "incorrect",
        ("exhaust", 15): "out_of_memory", ("exhaust", 16): "out_of_memory",
        ("raise", 15): "launch_error", ("raise", 16): "launch_error",
        ("good", 15): "ok", ("good", 16): "ok", ("copy", 15): "ok", ("copy", 16): "ok",
    }  # fmt: skip
    reasons = {row.kernel: row.reason or "" for row in done.rows if not row.expected}
    assert "SIGSEGV" in reasons["segfault"]
    assert "took more than 3 s" in reasons["hang"]
    assert "after timing" in reasons["wrong_later"]
    assert all(row.time_us is None for row in done.rows if not row.expected)
    assert "Traceback" not in done.stderr
    assert once_each(done.rows)


def test_a_sweep_killed_ten_times_ends_with_every_point_done_once(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = command_line(
        out, "kernel=good,naive,torch", *shape(8, [3, 5, 16, 31, 64, 100]), "dtype=float32,float16",
        "kernel.delay_s=0.003", *QUICK, "timing.warmup=1",
    )  # fmt: skip
    command = [part for part in command if part != "kernel.delay_s=0.003"]
    dice = random.Random(11)
    for _ in range(10):
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(2.0 + 1.2 * dice.random())
        process.send_signal(signal.SIGKILL)
        process.wait()
    last = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200)
    assert last.returncode == 0, last.stderr
    rows = [row for path in rows_files(out) for row in read_rows(path)]
    assert len(rows) == 4 * 6 * 2
    assert once_each(rows)
    assert all(row.expected and row.attempt == 1 for row in rows)


def test_ctrl_c_ends_in_one_line_and_keeps_the_rows(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = command_line(out, "kernel=hang,good", *shape(4, [4, 8]), "dtype=float32")
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 60
    while not rows_files(out) and time.monotonic() < end:
        time.sleep(0.2)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "goes on where it stopped" in errors
    assert "Traceback" not in errors


WRONG_INPUT = [
    (["kernel=nonsense"], "Could not find 'kernel/nonsense'"),
    (["grid=nonsense"], "Could not find 'grid/nonsense'"),
    (["dtype=float8"], "Could not find 'dtype/float8'"),
    (["dtype.names=[int32]"], "dtype 'int32' is unknown"),
    ([*shape(-4, 8)], "-4"),
    ([*shape(4, 0)], "0"),
    (["grid=point", "grid.rows=[]"], "grid=point"),
    (["grid=point", "grid.rows=many"], "many"),
    (["kernel=online", "kernel.block=8"], "there is no option 'kernel.block'"),
    (["kernel=online", "+kernel.block=8"], "no tunable 'block'; it has block_size"),
    (["kernel=online", "kernel.block_size=1000"], "1000"),
    (["kernel=no_kernel"], "is not a Kernel"),
    (["kernel=good", "kernel._target_=kernels.softmax.missing.Missing"], "cannot be imported"),
    (["gpu=h200"], "no such CUDA device on this machine; use gpu=auto or gpu=cpu"),
    (["timing=events"], "timing.timer=events needs a CUDA device"),
    (["timing.timer=sundial"], "use one of auto, events, graph, host"),
    (["timing.max_samples=0"], "timing.max_samples=0"),
    (["timing.max_samples=some"], "some"),
    (["+nonsense=1"], "nonsense is no option"),
    (["+timing.nonsense=1"], "timing.nonsense is no option"),
    (["rounds=0"], "rounds=0"),
    (["seed=1,2"], "seed belongs to the whole sweep"),
    (["hydra.launcher.cards=[]"], "hydra.launcher.cards"),
]


@pytest.mark.parametrize(
    ("arguments", "complaint"), WRONG_INPUT, ids=[" ".join(a) for a, _ in WRONG_INPUT]
)
def test_wrong_input_is_one_line_and_nothing_is_measured(
    sweep: Command, arguments: list[str], complaint: str
) -> None:
    done = sweep(*arguments)
    assert done.status == 2, done.stdout
    assert complaint in done.error
    assert done.rows == []


@pytest.mark.parametrize("last", ["nonsense", "no_kernel"])
def test_a_fault_in_the_last_of_forty_jobs_shows_before_the_first(
    sweep: Command, last: str
) -> None:
    cols = ",".join(f"[{i}]" for i in range(1, 21))
    done = sweep(f"kernel=good,{last}", "grid=point", "grid.rows=4", f"grid.cols={cols}")
    assert done.status == 2
    assert last in done.error
    assert done.rows == []


def test_a_folder_that_cannot_be_written_is_named(sweep: Command, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = sweep("kernel=good", out=tmp_path / "file" / "below")
    assert done.status == 2
    assert "file" in done.error


def test_a_malformed_rows_file_is_named_and_left_as_it_is(sweep: Command) -> None:
    arguments = ["kernel=good", *shape(4, 8), "dtype=float32"]
    path = rows_files(sweep(*arguments).out)[0]
    path.write_text("{nonsense}\n" + path.read_text())
    before = path.read_bytes()
    done = sweep(*arguments)
    assert done.status == 2
    assert f"{path}:1: not JSON" in done.error
    assert path.read_bytes() == before


def test_two_sweeps_cannot_write_to_one_folder(sweep: Command, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ["kernel=hang", *shape(4, 8), "dtype=float32"]
    first = subprocess.Popen(command_line(out, *arguments), cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 60
        while not (out / "variants.json").exists() and time.monotonic() < end:
            time.sleep(0.1)
        done = sweep(*arguments)
        assert done.status == 2
        assert "another sweep" in done.error
    finally:
        first.kill()
        first.wait()


def test_the_command_line_starts_without_torch_or_trackers(tmp_path: Path) -> None:
    code = (
        "import sys; sys.argv = ['run', '--help']\n"
        "import runpy\n"
        "try: runpy.run_module('experiments.run', run_name='__main__')\n"
        "except SystemExit: pass\n"
        "import experiments.sweep\n"
        "heavy = {'torch', 'triton', 'wandb', 'pandas', 'numpy'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run(
        [__import__("sys").executable, "-c", code], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
