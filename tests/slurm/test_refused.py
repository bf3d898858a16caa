"""What cannot run on Slurm is one line, and what cannot be measured makes no row."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import QUICK, Command, shape
from tests.slurm.cluster import Cluster
from tests.slurm.commands import submit
from tests.slurm.processes import wait_until

on_slurm = pytest.mark.slurm
pytestmark = pytest.mark.timeout(300)

ONE = ["kernel=good", *shape(4, 8), "dtype=float32", "gpu=cpu", *QUICK]


@on_slurm
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["hydra.launcher.partition=nope"], "invalid partition specified: nope"),
        (["hydra.launcher.more={no-such: 1}"], "unrecognized option '--no-such=1'"),
        (["hydra.launcher.time=soon"], "Slurm takes no job: "),
        (["+hydra.launcher.queue=short"], "hydra.launcher: Unavailable parameter"),
        (["gpu.card=1"], "gpu.card= pins a card of this host; Slurm assigns the cards"),
    ],
)
def test_wrong_options_are_one_line_and_nothing_is_submitted(
    arguments: list[str], message: str, cluster: Cluster, tmp_path: Path
) -> None:
    given = {argument.partition("=")[0] for argument in arguments}
    others = [argument for argument in ONE if argument.partition("=")[0] not in given]
    done = submit(cluster, tmp_path, *others, *arguments)
    assert done.status == 2
    assert message in done.error
    assert cluster.jobs("pending,running") == []


@on_slurm
def test_the_wrong_card_is_an_error_and_no_row(cluster: Cluster, tmp_path: Path) -> None:
    asked = [*ONE[:-4], "gpu=h200", *QUICK]
    assert submit(cluster, tmp_path, *asked).status == 0
    wait_until(lambda: not cluster.jobs("pending,running,completing"), 120)
    seen = submit(cluster, tmp_path, *asked, "dry_run=true")
    # without a driver and with another card the reason differs, the advice does not
    assert re.search(r"failed .*gpu=h200: [^\n]*; use gpu=auto or gpu=cpu", seen.stdout)
    assert seen.rows == []


@on_slurm
def test_rows_measured_without_slurm_are_not_mixed_with_its_own(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "rows.jsonl").touch()
    done = submit(cluster, tmp_path, *ONE)
    assert "holds rows measured without Slurm; choose another" in done.error
    assert done.status == 2


def test_a_sweep_on_slurm_goes_on_there_alone(sweep_here: Command, tmp_path: Path) -> None:
    (tmp_path / "out" / "slurm").mkdir(parents=True)
    done = sweep_here(*ONE)
    assert "is a sweep's on Slurm (LAUNCHER=slurm); choose another" in done.error
    assert done.status == 2
