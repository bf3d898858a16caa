"""What is committed of an H200 names no machine, and holds nothing but rows and records."""

from __future__ import annotations

import json
import re

from experiments.data.recordings import SMALL, recorded_jobs
from tests.conftest import ROOT

REFERENCE = ROOT / "outputs" / "reference"
RECORDINGS = sorted(path.parent for path in REFERENCE.rglob("sweep.json"))
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
