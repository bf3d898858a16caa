"""What a sweep says of its rows when it ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.sweep.summary import print_summary
from tests.analysis.plausible import row


@pytest.mark.parametrize(
    ("stop_reason", "status"),
    [
        ("converged", "| ok |"),
        ("max_samples", "| ok; not converged: max samples |"),
        ("time_limit", "| ok; not converged: time limit |"),
    ],
)
def test_a_time_that_did_not_converge_says_why_sampling_ended(
    tmp_path: Path, stop_reason: str, status: str
) -> None:
    timed = row("torch", 1024, time_us=10.0, stop_reason=stop_reason)
    print_summary([timed], {}, tmp_path, "", [])
    *_, line = (tmp_path / "table.md").read_text().splitlines()
    assert line.endswith(status)
