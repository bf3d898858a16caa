"""What traced calls ended with: the values they stored, the statistics they kept."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from analysis.load import kernel_name
from experiments.data.records import Trace

Case = tuple[int, int, str, str, str]


def of_variant(traces: Iterable[Trace], kernel: str) -> dict[Case, Trace]:
    """A kernel's traces by what they were given: shape, dtype, tile and input."""
    return {_case(trace): trace for trace in traces if kernel_name(trace.kernel) == kernel}


def stored(trace: Trace) -> dict[tuple[int, int], float]:
    """The stored result by row and column; empty where the trace holds no values."""
    found: dict[tuple[int, int], float] = {}
    for access in trace.accesses:
        values = getattr(access, "values", None)
        if access.kind == "store" and access.tensor == "y" and values is not None:
            columns = range(access.first, access.last + 1)
            found |= {(access.row, c): float(v) for c, v in zip(columns, values, strict=True)}
    return found


def statistics(trace: Trace) -> dict[tuple[int, str], float]:
    """Each row's maximum and sum of exponentials, as they stood at its last access."""
    found: dict[tuple[int, str], float] = {}
    for access in trace.accesses:
        for name in ("maximum", "total"):
            if (value := getattr(access, name)) is not None:
                found[access.row, name] = float(value)
    return found


def final(trace: Trace) -> dict[Any, float]:
    """What the call stored, or its statistics where the trace holds no values."""
    return dict(stored(trace) or statistics(trace))


def _case(trace: Trace) -> Case:
    tile = str(trace.params.get("block_size"))
    given = str(getattr(trace, "input", None))
    return trace.rows, trace.cols, trace.dtype, tile, given
