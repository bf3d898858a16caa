"""The command line in this process."""

from __future__ import annotations

import pytest

from tests.conftest import Command


@pytest.fixture
def sweep(sweep_here: Command) -> Command:
    """The `sweep` of tests/conftest.py without a process of its own."""
    return sweep_here
