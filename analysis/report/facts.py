"""What a reader sees of one row or record: short texts under fixed heads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analysis.format import number
from experiments.data.rows import ITEM_BYTES
from experiments.data.statistics import unconverged

HEADS = (
    "variant", "M×N", "dtype", "time", "bandwidth", "of the roof", "over naive",
    "DRAM reads", "predicted", "explained by", "status", "reason", "suspect", "GPU", "key",
)  # fmt: skip


def facts(row: Mapping[str, Any]) -> list[str]:
    """One text under each of `HEADS`, empty where the row has nothing to say."""
    predicted = number(row, "predicted_us")
    return [
        _text(row.get("variant") or row.get("kernel")),
        shape(row),
        _text(row.get("dtype")),
        time_text(row),
        _number(row, "effective_gbps", "{:,.0f} GB/s"),
        _share(row),
        _number(row, "speedup_over_naive", "{:.2f}×"),
        _dram_reads(row),
        "" if predicted is None else f"{microseconds(predicted)} µs",
        _text(row.get("verdict")),
        _text(row.get("status")),
        _text(row.get("reason")),
        "; ".join(map(str, row.get("suspect") or ())),
        _text(row.get("gpu")),
        _text(row.get("key")),
    ]


def shape(row: Mapping[str, Any]) -> str:
    """M×N."""
    return _number(row, "rows", "{:.0f}×") + _number(row, "cols", "{:.0f}")


def time_text(row: Mapping[str, Any]) -> str:
    """The median with its interval; the profiler's time where it is a record of counters."""
    time, low, high = (number(row, f"time{end}_us") for end in ("", "_low", "_high"))
    if time is None:
        kernel = number(row, "kernel_us")
        return "" if kernel is None else f"{microseconds(kernel)} µs under the profiler"
    texts = [f"{microseconds(time)} µs"]
    if low is not None and high is not None:
        texts[0] += f" ({microseconds(low)} to {microseconds(high)})"
    return ", ".join(filter(None, [*texts, unconverged(row.get("stop_reason"))]))


def microseconds(time: float) -> str:
    """Four digits, or all those before the point."""
    return f"{time:,.0f}" if time >= 1000 else f"{time:#.4g}"


def _share(row: Mapping[str, Any]) -> str:
    """The share of the copy roof; one above it by more than its interval says so."""
    share = number(row, "fraction_of_roof")
    flagged = " (above it: not a win)" if row.get("above_roof") is True else ""
    return "" if share is None else f"{100 * share:.1f} %{flagged}"


def _dram_reads(row: Mapping[str, Any]) -> str:
    """What counters saw, in units of the matrix."""
    size, model = number(row, "dram_read_bytes"), number(row, "model_reads")
    if size is None or model is None:
        return ""
    cells = row["rows"] * row["cols"]
    read = size / (cells * ITEM_BYTES[row["dtype"]])
    return f"{read:.3f} MN (model {model / cells:.3f} MN)"


def _number(row: Mapping[str, Any], name: str, text: str) -> str:
    value = number(row, name)
    return "" if value is None else text.format(value)


def _text(value: Any) -> str:
    return "" if value is None or value != value else str(value)
