"""The dtype of a row's statistics: its maximum, exponentials and sum."""

from __future__ import annotations

from typing import Any

import torch

from kernels.tunables import check_choice

ACCUMULATE = ("float32", "float64")


def check_accumulate(value: Any) -> None:
    """Refuses all but the name of a dtype to accumulate in.

    Raises:
        ValueError: in one line, what it may be.
    """
    check_choice("accumulate", value, ACCUMULATE)


def statistics_dtype(dtype: torch.dtype, accumulate: str) -> torch.dtype:
    """What statistics of rows of ``dtype`` are kept in: ``accumulate``, or wider for float64."""
    return torch.promote_types(dtype, getattr(torch, accumulate))
