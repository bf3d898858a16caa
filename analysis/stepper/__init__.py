"""C-viz: recorded traces as steps that a page shows one by one, every number from the trace.

A step is one access of a Triton program, or one whole operation of PyTorch. Rows and columns in
texts are counted from 1, programs as Triton numbers them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from analysis.load import Records, kernel_name
from analysis.published import OPERATION
from experiments.data.records import Access, Number, Trace

MINUS = "\u2212"
# The kernels' names for a row's maximum and sum, and those of eager operations' tensors.
STATISTICS = {"maximum": "max.values", "total": "sum"}
# Softmax with a row of output, the vectors that all rows read, and the kernel's name for that row.
WEIGHTED, SHARED, OUTPUT = "weighted", "v", "output"
BEFORE = "Nothing has happened yet: the input is in memory."
RECOMPUTED = "† not in a variable of the kernel: computed from what it had loaded. "
EMPTY = "An empty cell is not recorded, or not yet."
INSIDE_OPERATION = (
    "Nothing is recorded inside a PyTorch operation; after it, everything is in memory"
)
NOMINAL = "An operation is assumed to read its inputs and to write its outputs once."
ONE_BY_ONE = "Triton’s interpreter runs one program after the other; a GPU runs them side by side."


def stepper_data(records: Records) -> dict[str, Any]:
    """What ``stepper.js`` shows, ready to be written as JSON.

    ``cases`` holds a case for each recorded combination of variant, shape and block; it is empty
    where traces come from an older version, which recorded no values. A case has its ``steps``,
    the first of which is the state before any access. The page computes nothing: it adds up which
    steps are past.
    """
    traces = [
        trace
        for trace in records.traces
        if trace.operation in (OPERATION, WEIGHTED) and trace.input is not None and trace.accesses
        if all(access.values is not None for access in trace.accesses)
    ]
    traces.sort(key=lambda t: (kernel_name(t.kernel), t.rows, t.params.get("block_size", 0)))
    return {"cases": [_case(trace) for trace in traces]}


def _case(trace: Trace) -> dict[str, Any]:
    """A trace as the page reads it; sizes in elements."""
    block = trace.params.get("block_size")
    eager = any(access.operation for access in trace.accesses)
    steps = _steps(trace, eager)
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
        "note": _note(trace, steps[-1]["loads"] + steps[-1]["stores"], eager),
    }


def _tensors(trace: Trace) -> list[dict[str, Any]]:
    """The tensors of the call in the order they are touched, x first and y last."""
    names = dict.fromkeys(["x", *(a.tensor for a in trace.accesses if a.tensor != "y"), "y"])
    sizes = {name: [0, 0] for name in names}
    for access in trace.accesses:
        size = sizes[access.tensor]
        size[:] = max(size[0], access.row + 1), max(size[1], access.last + 1)
    sizes["y"] = [trace.rows, trace.cols if trace.operation == OPERATION else sizes["y"][1]]
    sizes["x"] = [trace.rows, max(sizes["x"][1], trace.cols)]
    return [{"name": n, "width": width, "rows": rows} for n, (rows, width) in sizes.items()]


def _note(trace: Trace, moved: int, eager: bool) -> str:
    beyond = ""
    model = (trace.model_reads or 0) + (trace.model_writes or 0)
    if trace.model_reads is not None and moved != model:
        indices = sorted({a.tensor for a in trace.accesses if a.tensor.endswith("indices")})
        of_them = f", of them {trace.rows} of {' and '.join(indices)}" if indices else ""
        beyond = f"It moves {moved} elements where its model says {model}{of_them}. "
    source = f"Recorded from the unchanged kernel, source {trace.source[:8]}. "
    return source + (NOMINAL if eager else ONE_BY_ONE) + " " + beyond + RECOMPUTED + EMPTY


def _steps(trace: Trace, eager: bool) -> list[dict[str, Any]]:
    """The state before any access, then each step in order.

    ``loads`` and ``stores`` are elements moved up to and with a step, ``traffic`` the same in
    words; ``touches`` are what it moved, ``state`` the program's variables after it, ``changed``
    those that it set, and ``rows`` what is known of the rows that it touched (see `_RowTally`).
    A new ``part`` begins with each program and each pass.
    """
    tally, titles, steps = _RowTally(trace), _titles(trace), []
    moved = {"load": 0, "store": 0}
    held: dict[int, dict[str, Any]] = {}  # by program its variables
    fields = ("kind", "tensor", "row", "first", "last", "values")
    ending = f"operation{'s' * (len(titles) > 1)}"
    if not eager:
        ending = f"pass{'es' * (len(titles) > 1)} over each row"
    for accesses in ([], *_grouped(trace)):
        part, keeps, phase = None, "On chip: nothing yet", f"{len(titles)} {ending}"
        state: dict[str, Any] = {}
        changed: list[str] = []
        for access in accesses:
            moved[access.kind] += len(access.values or ())
            tally.add(access)
        if accesses:
            first = accesses[0]
            part, phase = f"{first.program} {first.sweep}", titles[first.sweep]
            keeps = INSIDE_OPERATION if eager else f"Program {first.program} keeps on chip"
            state, known = dict(first.state or {}), held.get(first.program, {})
            changed = [name for name, value in state.items() if known.get(name) != value]
            held[first.program] = state
        steps.append(
            {
                "part": part,
                "touches": [{name: getattr(a, name) for name in fields} for a in accesses],
                "keeps": keeps,
                "state": [[name, value] for name, value in state.items()],
                "changed": changed,
                "loads": moved["load"],
                "stores": moved["store"],
                "traffic": [
                    _moved_so_far("loaded", "load", moved["load"], trace.model_reads, trace),
                    _moved_so_far("stored", "store", moved["store"], trace.model_writes, trace),
                ],
                "rows": {str(a.row): tally.row(a.row) for a in accesses if a.tensor != SHARED},
                "phase": phase,
                "text": _sentence(accesses, changed) if accesses else BEFORE,
            }
        )
    return steps


def _moved_so_far(
    verb: str, kind: str, count: int, model: int | None, trace: Trace
) -> dict[str, str | float]:
    """What was moved so far, in units of MN and in elements, against the model."""
    size = trace.rows * trace.cols
    of = ("", "") if model is None else (f" of {model / size:.4g}", f" of {model}")
    return {
        "kind": kind,
        "units": f"{verb} {count / size:.4g}{of[0]} MN",
        "elements": f"{count}{of[1]}",
        "share": min(1.0, round(count / (model or count or 1), 4)),
    }


def _grouped(trace: Trace) -> Iterator[list[Access]]:
    for (_, operation), group in groupby(trace.accesses, lambda a: (a.sweep, a.operation)):
        if operation:
            yield list(group)
        else:
            yield from ([access] for access in group)


class _RowTally:
    """What a trace shows of each row so far: its statistics, and its probabilities as stored."""

    def __init__(self, trace: Trace) -> None:
        self._cols, self._probabilities = trace.cols, trace.operation == OPERATION
        self._own: dict[tuple[int, str], Number] = {}
        self._recomputed: dict[tuple[int, str], Number] = {}
        self._stored: dict[int, dict[int, float]] = {}

    def add(self, access: Access) -> None:
        """Takes in one more access; one to what all rows share says nothing of a row."""
        if access.tensor == SHARED:
            return
        for key, again in (("maximum", access.maximum), ("total", access.total)):
            own = (access.state or {}).get(key)
            if own is not None and not isinstance(own, list):
                self._own[access.row, key] = own
            elif access.kind == "store" and access.tensor == STATISTICS[key] and access.values:
                self._own[access.row, key] = access.values[0]
            if again is not None:
                self._recomputed[access.row, key] = again
        if access.kind == "store" and access.tensor == "y" and self._probabilities:
            values = enumerate(map(float, access.values or ()), access.first)
            self._stored.setdefault(access.row, {}).update(values)

    def row(self, row: int) -> dict[str, Any]:
        """The row's numbers so far, None where one is not known; ``own`` names the kernel's.

        ``maximum`` and ``total`` of what was loaded; ``least``, ``greatest`` and ``sum`` of the
        probabilities stored, and once the row is complete its ``entropy`` −Σ p ln p, in nats;
        ``cells`` are all of these as text.
        """
        stored = list(self._stored.get(row, {}).values())
        entropy = -sum(p * math.log(p) for p in stored if p > 0)
        numbers = {
            **{key: self._own.get((row, key), self._recomputed.get((row, key)))
               for key in STATISTICS},
            "least": min(stored, default=None),
            "greatest": max(stored, default=None),
            "sum": float(f"{sum(stored):.7g}") if stored else None,
            "entropy": float(f"{entropy:.7g}") if len(stored) == self._cols else None,
        }  # fmt: skip
        own = [key for key in STATISTICS if (row, key) in self._own]
        return numbers | {"own": own, "cells": [_cell(k, v, own) for k, v in numbers.items()]}


def _cell(key: str, value: Number | None, own: Sequence[str]) -> str:
    if value is None:
        return ""
    digits = f"{float(value):.4f}"
    if key == "maximum":
        digits = digits.rstrip("0").rstrip(".")
    return _signed(digits) + "†" * (key in STATISTICS and key not in own)


def _titles(trace: Trace) -> dict[int, str]:
    """By sweep a title, such as ``pass 1 of 2: statistics (maximum, total)``."""
    titles = {}
    sweeps = sorted({access.sweep for access in trace.accesses})
    for number, sweep in enumerate(sweeps, start=1):
        mine = [access for access in trace.accesses if access.sweep == sweep]
        place, operation = f"{number} of {len(sweeps)}", mine[0].operation
        purpose = f"pass {place}: {_purpose(trace, mine, len(sweeps))}"
        titles[sweep] = f"operation {place}: {operation}" if operation else purpose
    return titles


def _purpose(trace: Trace, mine: Sequence[Access], count: int) -> str:
    if trace.operation == WEIGHTED:
        return "statistics and the output row, rescaled together"
    if any(access.kind == "store" for access in mine):
        return "normalise" if count > 1 else "statistics and normalise, the row on chip"
    earlier = [a for a in trace.accesses if a.sweep < mine[0].sweep and a.row == mine[0].row]
    known = {name for access in earlier for name in access.state or {}}
    found = {name for access in mine for name in access.state or {}} - known
    new = [name for name in STATISTICS if name in found]
    return f"statistics ({', '.join(new)})" if new else "statistics"


def _sentence(accesses: Sequence[Access], changed: Sequence[str]) -> str:
    """What one step did."""
    first, state = accesses[0], accesses[0].state or {}
    if first.operation:
        return f"{first.operation} {_moved(accesses, 'load')}; it {_moved(accesses, 'store')}."
    columns = f"columns {first.first + 1}–{first.last + 1}"
    if first.first == first.last:
        columns = f"column {first.first + 1}"
    verb = "loads" if first.kind == "load" else "stores"
    text = f"Program {first.program} {verb} {columns} of {first.tensor}, row {first.row + 1}"
    found = [
        f"{name} = {_signed(f'{float(value):.4g}')}"
        for name in STATISTICS
        if name in changed and isinstance(value := state.get(name), int | float | str)
    ]
    found += ["the row of output is rescaled and added to"] * (OUTPUT in changed)
    return f"{text}; then {_listed(found)}." if found else f"{text}."


def _moved(accesses: Sequence[Access], kind: str) -> str:
    counts: Counter[str] = Counter()
    for access in accesses:
        if access.kind == kind:
            counts[access.tensor] += len(access.values or ())
    parts = [f"{name} ({n} element{'s' * (n > 1)})" for name, n in counts.items()]
    return f"{'reads' if kind == 'load' else 'writes'} {_listed(parts) or 'nothing'}"


def _listed(parts: Sequence[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _signed(digits: str) -> str:
    """A number's text with the signs of mathematics."""
    return digits.replace("inf", "∞").replace("-", MINUS)
