"""What is committed of an H200 names no machine, and is what its models say."""

from __future__ import annotations

import json
import re
from itertools import product
from pathlib import Path

import pytest

from experiments.data.jobs import Config, expand
from experiments.data.recordings import SMALL, recorded_jobs
from tests.conftest import ROOT

REFERENCE = ROOT / "outputs" / "reference"
RECORDINGS = sorted(path.parent for path in REFERENCE.rglob("sweep.json"))
CUT_SHORT = {"limits_20261124": (9, {(4, 32000)})}  # its time on the card was over: points, shapes
L2_BYTES = 60 << 20
PATH = re.compile(r"(?<![\w./])(?<!https:)(/[\w.+-]+){2,}|\b(root|home)\b|[A-Z]:\\\\|~/")


def test_no_record_names_a_folder_of_the_machine_it_was_made_on() -> None:
    records = sorted(p for p in REFERENCE.rglob("*") if p.suffix in {".json", ".jsonl"})
    assert len(records) > 10
    found = {str(p): m[0] for p in records if (m := PATH.search(p.read_text(encoding="utf-8")))}
    assert found == {}


def test_a_recording_holds_its_rows_jobs_and_records_alone() -> None:
    assert len(RECORDINGS) > 30
    known = {"rows.jsonl.gz", "jobs.jsonl.gz", *SMALL}
    for folder in RECORDINGS:
        assert {path.name for path in folder.iterdir()} <= known, folder
        for job in recorded_jobs(folder):
            assert not PATH.search(json.dumps(job.config).replace("kernels.", "")), folder


def replaced(sweep: str, kernel: str, shape: tuple[int, int]) -> bool:
    """Whether a row is left out, however it ended, as its kernel has been changed since.

    The loss of cross-entropy: beyond L2 after the recordings called rec_, within it after the
    others. Rows of up to 2048 columns have a kernel of their own.
    """
    rows, cols = shape
    if kernel not in {"ce_auto", "ce_cluster"} or cols <= 2048:
        return False
    return (rows * cols * 2 >= L2_BYTES) == sweep.startswith("rec_")


@pytest.mark.parametrize("folder", RECORDINGS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_point_that_a_recording_plans_has_a_row_however_it_ended(folder: Path) -> None:
    planned, recorded = set(), set()
    for job in recorded_jobs(folder):
        # a point that several grids plan has its row in the folder of the first
        place = tuple(job.name.split("/")[1:])
        if job.config is not None:
            config = Config.model_validate(job.config)
            shapes = expand(config.grid.model_dump())
            dtypes = config.dtype.names or config.grid.dtypes
            planned |= {(*place, *one) for one in product(range(config.rounds), dtypes, shapes)}
        recorded |= {(*place, row.round, row.dtype, (row.rows, row.cols)) for row in job.rows}
    assert recorded
    gone = {one for one in planned if replaced(folder.name, one[-4], one[-1])}
    assert not gone & recorded
    missing = planned - recorded - gone
    expected = CUT_SHORT.get(folder.name, (0, set()))
    assert (len(missing), {shape for *_, shape in missing}) == expected
