"""Wrong input is one line that names the option and what would be right; nothing is measured."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, Command

BOMBS = ROOT / "tests" / "doubles" / "bombs"
WRONG = {
    "kernel=fuzed": "names no file of conf/kernel/; did you mean fused? python -m exp",
    "kernel=fused online": "'online' is no option=value; a list has commas",
    "timing.precision=5": "timing.precision=5; it must be less than 1",
    "kernel=online,naive kernel.block_size=64": "has no 'block_size'; kernel.NAME.block_size= sets",
    "dtype.names=[int32]": "dtype.names.0=int32; it must match pattern '^(float64|float32|",
    "grid=point grid.elements=[9]": "rows and elements",
    "grid=point grid.cols={first:1,last:9,step:0}": "first, last and step",
    "grid=point grid.cols={first:1,last:9000000,step:1}": "at most 100000 are taken",
    "grid=point grid.cols=[8,16] rounds=400000": "more than the 500000 that are taken",
    "kernel=online +kernel.block=8": "no tunable 'block'; it has block_size",
    "kernel=no_kernel": "is not a Kernel",
    "kernel=torn": "torn.yaml",
    "kernel=other_roof": "its operation names the roof add, its file of conf/kernel copy",
    "kernel=foreign": "os.system is not in this project",
    "kernel=glob(nope*)": "kernel=glob(nope*): the list or the glob has no value",
    "gpu.match='('": "gpu.match: ( is no regular expression: ",
    "--config-dir=/nowhere": "--config-dir: /nowhere is no folder",
    f"grid=bomb hydra.searchpath=[{BOMBS}]": "bomb.yaml has more than 20 aliases",
    "--resolve": "--resolve and --package go with --cfg",
    "hydra.searchpath=[http://x]": "http://x is no folder",
    "kernel=quack kernel.by=ours": "kernel.by is said in a kernel's file",
    "kernel=good,torch +kernel.torch._target_=os.system": "kernel.torch._target_ is said in a",
    "~name": "name is missing; each job has one",
    "name=" + "[" * 500 + "]" * 500: "RecursionError",
    "hydra/launcher=basic": "would run jobs one by one or",
    "hydra/launcher=joblib": "hydra.launcher.cards=all spreads a sweep over cards",
    "hydra/launcher=sweep,slurm": "a sweep has one hydra/launcher",
    "kernel=../kernel/copy": "names no file of conf/kernel/",
    "tracker=online kernel=good": "tracker=online: no W&B key: set WANDB_API_KEY",
    "tracker=\u202eon": r"tracker=\u202eon is not in Hydra's grammar",
    "gpu=h200": "gpu=h200: this machine has no CUDA driver; gpu=cpu measures its CPU",
    "--dry-run": "--dry-run is no flag; write dry_run=VALUE",
    "~tracker": "~tracker names no file of conf/tracker/",
    "overwrite=true only_failed=true": "and only_failed=true those that failed; choose one",
    "rounds=range(0,9,0)": "rounds=range(0,9,0): a range has 1 to 500000 values",
    "@=1": "names no option",
    "kernel=naive,,torch": "kernel=naive,,torch has an empty element; remove a comma",
    "grid=point grid.rows=[,4]": "grid.rows=[,4] has an empty element; remove a comma",
    "timing=events": "timing.timer=events needs a CUDA device",
    "timing.min_samples=9 timing.max_samples=3": "timing: max_samples=3 is below min_samples=9",
    "+nonsense=1": "nonsense is not an option; there are kernel, grid,",
    "seed=1,2": "seed belongs to the whole sweep",
    "name=../../climbs": "name=../../climbs; it must match pattern",
    "out=/proc/self/fdinfo/out": "out=/proc/self/fdinfo/out cannot be written",
    "out=README.md": "out=README.md is a file; name a folder",
    "hydra.launcher.cards=2": "name cards by index, as in [0,1], and each once",
    "hydra.sweep.dir=/tmp/x": "out= names the folder that takes the rows",
}


@pytest.mark.parametrize("words", WRONG, ids=lambda words: words[:40])
def test_wrong_input_is_one_line_and_nothing_is_measured(
    sweep: Command, words: str, tmp_path: Path
) -> None:
    nobody = {"WANDB_API_KEY": "", "HOME": str(tmp_path), "NETRC": str(tmp_path / "none")}
    done = sweep(*words.split(), **nobody)
    assert done.status == 2, done.stdout
    assert WRONG[words] in done.error
    assert done.error.isprintable()
    assert done.rows == []


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    read, write = os.pipe()
    os.close(read)  # as `| head` leaves it
    command = [sys.executable, "-m", "experiments.run", "--cfg", "job"]
    done = subprocess.run(command, cwd=ROOT, stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    assert (done.returncode, done.stderr) == (1, b"")
