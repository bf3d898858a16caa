"""Copies pay in tests: of however few rows one is kept."""

from __future__ import annotations

import pytest

from analysis import columns


@pytest.fixture(autouse=True)
def any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "LARGE_BYTES", 0)
