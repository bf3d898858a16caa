"""Statements as they are read from their files."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from analysis.published import sources
from analysis.statements import statements_of


def test_printed_digits_are_kept() -> None:
    assert str(statements_of("C").timings[1].time_ms) == "1.2150"


def test_a_field_that_no_statement_has_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "trips: [{at: A-fig1, kernel: naive, total: 10, verdict: wrong}]"
    )
    with pytest.raises(ValidationError, match="verdict"):
        statements_of("A", tmp_path)


def test_every_source_has_its_statements() -> None:
    for letter, source in sources().items():
        assert source.statements == statements_of(letter)
        for kind in ("traffic", "trips", "timings", "shapes", "left_out"):
            for one in getattr(source.statements, kind):
                assert one.at.startswith(letter), one
