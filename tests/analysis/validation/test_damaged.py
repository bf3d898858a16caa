"""Whatever befell a folder's files, there is a verdict on it, and every line of it can be shown."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analysis.validation.contributed import RECORDED, validated
from tests.faults.corruption import DAMAGE, Damage

JOB = "batch/native-auto/torch"
FILES = (f"{JOB}/rows.jsonl", f"{JOB}/config.json", "variants.json", "sweep.json")
EXAMPLES = int(os.environ.get("FAULT_EXAMPLES", "25"))


@settings(max_examples=EXAMPLES, deadline=None, database=None)
@given(name=st.sampled_from(FILES), damages=DAMAGE)
def test_a_damaged_folder_gets_a_verdict(name: str, damages: Sequence[Damage]) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "rows"
        shutil.copytree(RECORDED / "batch", folder / "batch")
        for beside in ("variants.json", "sweep.json"):
            shutil.copy(RECORDED / beside, folder)
        data = (folder / name).read_bytes()
        if not name.endswith("rows.jsonl"):  # one object, as a line that damage can edit
            data = b" ".join(data.splitlines()) + b"\n"
        for damage in damages:
            data = damage(data)
        (folder / name).write_bytes(data)
        told = validated(folder)
        assert told.status in (0, 1)
        assert told.verdict.startswith("valid: " if told.status == 0 else "not valid: ")
        assert all(line.isprintable() for line in told.text.split("\n"))
