"""What tests of whole commands share."""

from __future__ import annotations

import pytest

from analysis import report
from analysis.figures import style


@pytest.fixture
def small_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures of a few dots: what is checked of them does not depend on how many."""
    monkeypatch.setattr(style, "DPI", 30)
    monkeypatch.setattr(report, "DPI", 30)
