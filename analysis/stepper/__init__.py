"""C-viz: recorded traces as steps that a page shows one by one, every number from the trace."""

from __future__ import annotations

from typing import Any

from analysis.load import Records, kernel_name
from analysis.stepper.case import case_of, is_steppable

__all__ = ["stepper_data"]


def stepper_data(evidence: Records) -> dict[str, Any]:
    """What ``stepper.js`` shows, ready to be written as JSON.

    ``cases`` holds a case for each recorded combination of variant, shape and block; it is empty
    where traces come from an older version, which recorded no values. A case has its ``steps``,
    the first of which is the state before any access. The page computes nothing: it adds up which
    steps are past.
    """
    traces = sorted(
        (trace for trace in evidence.traces if is_steppable(trace)),
        key=lambda trace: (
            kernel_name(trace.kernel),
            trace.rows,
            trace.params.get("block_size", 0),
        ),
    )
    return {"cases": [case_of(trace) for trace in traces]}
