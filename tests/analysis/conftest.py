"""What tests of whole commands share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from analysis import report
from analysis.figures import style


@pytest.fixture(scope="module")
def small_pictures() -> Iterator[None]:
    """Pictures of a few dots: what is checked of them does not depend on how many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(style, "DPI", 30)
        patch.setattr(report, "DPI", 30)
        yield
