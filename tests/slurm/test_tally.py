"""What the submitting side counts, and which options it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.errors import UserError
from experiments.slurm.options import Options
from experiments.slurm.tally import Tally


def test_a_tally_counts_whole_lines_and_last_attempts(tmp_path: Path) -> None:
    path, tally = tmp_path / "rows.jsonl", Tally()
    row = {"key": "k", "round": 0, "attempt": 1, "status": "crashed"}
    path.write_text(json.dumps(row) + "\n" + json.dumps(row | {"key": "l"})[:20])
    tally.update([path])
    points = [["k", 0], ["l", 0]]
    assert (tally.done(points), tally.failed(points)) == (0, 1)
    again = [row | {"attempt": 2, "status": "ok"}, row | {"key": "l", "status": "unsupported"}]
    path.write_text("".join(json.dumps(line) + "\n" for line in [row, *again]))
    tally.update([path])
    assert (tally.done(points), tally.failed(points)) == (2, 0)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"time": "1:00"}, "time=1:00; it must be a whole number of minutes"),
        ({"array_parallelism": 0}, "array_parallelism=0; it must be a whole number, 1 or more"),
        ({"setup": "module load cuda"}, "it must be a list of shell commands"),
        ({"more": "mem=3G"}, "more=mem=3G; it must be sbatch options and their values"),
        ({"partition": " "}, "it must be a word of sbatch's, or null"),
    ],
)
def test_options_of_no_use_are_named(given: dict[str, object], said: str) -> None:
    with pytest.raises(UserError, match=r"^hydra\.launcher\.") as raised:
        Options(**given)  # type: ignore[arg-type]
    assert said in str(raised.value)
