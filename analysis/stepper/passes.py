"""What a pass over the rows does, in words taken from the trace."""

from __future__ import annotations

from experiments.data.records import Access, Trace

STATISTICS = ("maximum", "total")  # the kernels' names for a row's maximum and sum


def pass_titles(trace: Trace) -> dict[int, str]:
    """By sweep a title, such as ``pass 1 of 2: statistics (maximum, total)``."""
    sweeps = sorted({access.sweep for access in trace.accesses})
    return {sweep: _title(trace, n, sweeps) for n, sweep in enumerate(sweeps)}


def before(trace: Trace) -> str:
    """What is to come, such as ``2 passes``."""
    count = len({access.sweep for access in trace.accesses})
    if any(access.operation for access in trace.accesses):
        return f"{count} operation{'s' if count > 1 else ''}"
    return f"{count} pass{'es' if count > 1 else ''} over each row"


def _title(trace: Trace, number: int, sweeps: list[int]) -> str:
    mine = [access for access in trace.accesses if access.sweep == sweeps[number]]
    place = f"{number + 1} of {len(sweeps)}"
    if mine[0].operation:
        return f"operation {place}: {mine[0].operation}"
    return f"pass {place}: {_purpose(trace, mine, len(sweeps))}"


def _purpose(trace: Trace, mine: list[Access], count: int) -> str:
    if any(access.kind == "store" for access in mine):
        return "normalise" if count > 1 else "statistics and normalise, the row on chip"
    earlier = [a for a in trace.accesses if a.sweep < mine[0].sweep and a.row == mine[0].row]
    known = {name for access in earlier for name in access.state or {}}
    found = {name for access in mine for name in access.state or {}} - known
    kept = [name for name in STATISTICS if name in found]
    return f"statistics ({', '.join(kept)})" if kept else "statistics"
