"""The recorded traces, as the stepper shows them."""

from __future__ import annotations

from typing import Any

from analysis.load import COUNTED, load_records
from analysis.stepper import stepper_data
from tests.conftest import ROOT

EVIDENCE = load_records(ROOT / COUNTED, ROOT / COUNTED)
CASES: list[dict[str, Any]] = stepper_data(EVIDENCE)["cases"]


def case(variant: str, shape: str = "2×8", block: str = "2") -> dict[str, Any]:
    """One of them."""
    return next(
        c for c in CASES if (c["variant"], c["shape"], c["block"]) == (variant, shape, block)
    )
