"""One trace as a case: what it is chosen by, its tensors and its steps."""

from __future__ import annotations

from typing import Any

from analysis.load import kernel_name
from analysis.stepper.steps import steps_of
from experiments.data.records import Trace

MEANS = "† in no variable of the kernel’s: worked out from what it had loaded. "
EMPTY = "An empty cell is not recorded, or not yet."
NOMINAL = "An operation is taken to read what it is given, and to write what it makes, once."
ONE_BY_ONE = "Triton’s interpreter runs one program after the other; a GPU runs them side by side."


def is_steppable(trace: Trace) -> bool:
    """Whether it is a softmax whose values were recorded."""
    held = bool(trace.accesses) and all(a.values is not None for a in trace.accesses)
    return trace.operation == "softmax" and trace.input is not None and held


def is_eager(trace: Trace) -> bool:
    """Whether it was recorded operation by operation."""
    return any(access.operation for access in trace.accesses)


def case_of(trace: Trace) -> dict[str, Any]:
    """A case as the page reads it; sizes in elements."""
    block = trace.params.get("block_size")
    steps = steps_of(trace)
    eager = is_eager(trace)
    return {
        "variant": kernel_name(trace.kernel),
        "shape": f"{trace.rows}×{trace.cols}",
        "block": str(block) if block else "no block" if eager else "whole row",
        "rows": trace.rows,
        "cols": trace.cols,
        "eager": eager,
        "model": f"{trace.dtype}, {trace.model_formula} elements by its model",
        "input": trace.input,
        "tensors": _tensors(trace),
        "steps": steps,
        "note": _note(trace, steps, eager),
    }


def _tensors(trace: Trace) -> list[dict[str, Any]]:
    """The tensors of the call in the order they are touched, x first and y last."""
    widths: dict[str, int] = {"x": trace.cols}
    heights: dict[str, int] = {}
    for access in trace.accesses:
        if access.tensor != "y":
            widths[access.tensor] = max(widths.get(access.tensor, 0), access.last + 1)
        heights[access.tensor] = max(heights.get(access.tensor, 0), access.row + 1)
    widths["y"] = trace.cols
    heights |= {"x": trace.rows, "y": trace.rows}
    return [{"name": n, "width": width, "rows": heights[n]} for n, width in widths.items()]


def _note(trace: Trace, steps: list[dict[str, Any]], eager: bool) -> str:
    recorded = f"Recorded from the unchanged kernel, source {trace.source[:8]}. "
    moved = steps[-1]["loads"] + steps[-1]["stores"]
    model = (trace.model_reads or 0) + (trace.model_writes or 0)
    beyond = ""
    if trace.model_reads is not None and moved != model:
        indices = sorted({a.tensor for a in trace.accesses if a.tensor.endswith("indices")})
        named = f", of them {trace.rows} of {' and '.join(indices)}" if indices else ""
        beyond = f"It moves {moved} elements where its model says {model}{named}. "
    return recorded + (NOMINAL if eager else ONE_BY_ONE) + " " + beyond + MEANS + EMPTY
