import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, Command, shape

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
    (["hydra.launcher.cards=2"], "name cards by index, as in [0,1], or all of them by all"),
    (["hydra.launcher.cards=[1,1]"], "names a card twice"),
    (["hydra.launcher.cards=all"], "NVML shows no card here"),
    (["experiment=cpu,smoke"], "one after the other"),
    (["hydra.sweeper.max_batch_size=1"], "takes no batches"),
    (["tracker.backend=mlflow"], "use wandb or none"),
    (["tracker.mode=later"], "use offline or online"),
    (["grid.dtypes=[]"], "no dtype is named"),
    (["kernel=torn"], "is no YAML"),
    (["kernel=good", "kernel._target_=os.system"], "os.system is not in this project"),
    (["kernel=good", "kernel._target_='..tests.x.Y'"], "is not in this project"),
    (["hydra.launcher._target_=os.system"], "by this program and by no other"),
    (["name=../../climbs"], "name=../../climbs; use letters"),
    (["name=.hidden"], "name=.hidden; use letters"),
    (["kernel=../kernel/copy"], "names no file of conf/kernel/"),
    (["twin=../x"], "twin=../x; use letters and digits"),
    (["out="], "out= is empty"),
    (["grid=point", "grid.rows=99999999999999999999"], "no size above 2^40"),
    (["grid=point", "grid.rows={first: 1, last: 1000000000, step: 1}"], "more than 100000 sizes"),
    ([*shape(4, [8, 16]), "rounds=1000000"], "more than the 500000 that are taken"),
    (["seed=99999999999999999999"], "it must be below 2^62"),
    (["timing.sampling_limit_s=inf"], "it must be above zero and finite"),
    (["timing.compile_limit_s=1e30"], "at most 86400 s"),
    (["timing.precision=nan"], "it must be above zero and finite"),
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


def test_a_target_outside_the_project_is_not_even_imported(sweep: Command, tmp_path: Path) -> None:
    marker = tmp_path / "imported"
    (tmp_path / "stranger.py").write_text(f"open({str(marker)!r}, 'w')\nclass Kernel: pass\n")
    done = sweep("kernel=good", "kernel._target_=stranger.Kernel", PYTHONPATH=str(tmp_path))
    assert done.status == 2
    assert "stranger.Kernel is not in this project" in done.error
    assert not marker.exists()


def test_no_name_leads_out_of_the_folder(tmp_path: Path) -> None:
    for argument in (
        "name=../climbs",
        "+name=../climbs",
        "name='../climbs'",
        "kernel=../kernel/copy",
    ):
        done = subprocess.run(
            [sys.executable, "-m", "experiments.run", "gpu=cpu", "tracker=none", argument],
            cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True,
        )  # fmt: skip
        assert done.returncode == 2
        assert b"use letters" in done.stderr or b"names no file" in done.stderr
    # what Hydra itself leaves of the last: the folder that `out` names by default
    assert [path.name for path in tmp_path.iterdir()] == ["outputs"]
    assert [path.name for path in (tmp_path / "outputs").iterdir()] == ["adhoc"]
    assert not list(tmp_path.rglob("*climbs*"))
