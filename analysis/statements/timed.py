"""What kernels are said to take, by numbers and by words; numbers keep the digits printed."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

from analysis.statements.statement import Statement

Trend = Literal["rising", "constant", "falling"]


class Win(Statement):
    """``faster`` is said to beat ``slower`` at most widths, not at all."""

    faster: str
    slower: str


class Timing(Statement):
    """A time and the bandwidth printed beside it; ``moves`` is the source's own count of bytes."""

    kernel: str
    rows: int
    cols: int
    dtype: str
    time_ms: Decimal
    gbps: Decimal
    moves: str


class TrendStatement(Statement):
    """How a kernel's bandwidth is said to run over N, from ``beyond`` columns on."""

    kernel: str
    beyond: int = 1
    trend: Trend
    words: str


class Gap(Statement):
    """A word for how far ``kernel`` falls behind ``against`` where both were timed."""

    kernel: str
    against: str
    word: str
    words: str
    timed_at: str
