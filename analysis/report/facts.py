"""What a reader sees of one row or record: short texts under fixed heads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analysis.format import number, thousands
from experiments.data.rows import ITEM_BYTES

HEADS = (
    "variant", "M×N", "dtype", "time", "bandwidth", "of the roof", "over naive",
    "DRAM reads", "predicted", "explained by", "status", "reason", "suspect", "GPU", "key",
)  # fmt: skip


def facts(row: Mapping[str, Any]) -> list[str]:
    """One text under each of `HEADS`, empty where the row has nothing to say."""
    return [
        str(row.get("variant") or row.get("kernel") or ""),
        shape(row),
        str(row.get("dtype") or ""),
        time_text(row),
        _unit(row, "effective_gbps", "GB/s"),
        share_text(row),
        _times(row, "speedup_over_naive"),
        _in_mn(row),
        _predicted(row),
        _text(row.get("verdict")),
        str(row.get("status") or ""),
        _text(row.get("reason")),
        suspicion(row),
        _text(row.get("gpu")),
        _text(row.get("key")),
    ]


def shape(row: Mapping[str, Any]) -> str:
    """M×N."""
    rows, cols = number(row, "rows"), number(row, "cols")
    return "" if rows is None or cols is None else f"{rows:.0f}×{cols:.0f}"


def time_text(row: Mapping[str, Any]) -> str:
    """The median with its interval; the profiler's time where it is a record of counters."""
    time, low, high = (number(row, f"time{end}_us") for end in ("", "_low", "_high"))
    if time is None:
        kernel = number(row, "kernel_us")
        return "" if kernel is None else f"{microseconds(kernel)} µs under the profiler"
    if low is None or high is None:
        return f"{microseconds(time)} µs"
    return f"{microseconds(time)} µs ({microseconds(low)} to {microseconds(high)})"


def microseconds(time: float) -> str:
    """Four digits, or all those before the point."""
    return f"{time:,.0f}" if time >= 1000 else f"{time:#.4g}"


def share_text(row: Mapping[str, Any]) -> str:
    """The share of the copy roof; one above it by more than its interval says so."""
    share = number(row, "fraction_of_roof")
    if share is None:
        return ""
    flagged = " (above it: not a win)" if row.get("above_roof") is True else ""
    return f"{100 * share:.1f} %{flagged}"


def suspicion(row: Mapping[str, Any]) -> str:
    """Why a row is suspect, if it is."""
    reasons = row.get("suspect")
    return "; ".join(map(str, reasons)) if isinstance(reasons, list | tuple) else ""


def _in_mn(row: Mapping[str, Any]) -> str:
    """What counters saw, in units of the matrix."""
    size, model = number(row, "dram_read_bytes"), number(row, "model_reads")
    rows, cols = number(row, "rows"), number(row, "cols")
    if size is None or not rows or not cols or model is None:
        return ""
    item = ITEM_BYTES[str(row["dtype"])]
    return f"{size / (rows * cols * item):.3f} MN (model {model / (rows * cols):.3f} MN)"


def _predicted(row: Mapping[str, Any]) -> str:
    """The time that the model's bytes take at the roof."""
    time = number(row, "predicted_us")
    return "" if time is None else f"{microseconds(time)} µs"


def _unit(row: Mapping[str, Any], name: str, unit: str) -> str:
    value = number(row, name)
    return "" if value is None else f"{thousands(value)} {unit}"


def _times(row: Mapping[str, Any], name: str) -> str:
    value = number(row, name)
    return "" if value is None else f"{value:.2f}×"


def _text(value: Any) -> str:
    return "" if value is None or value != value else str(value)
