"""A trace as steps: an access of a Triton program, or a whole operation of PyTorch's."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from analysis.stepper.passes import before, pass_titles
from analysis.stepper.rows import RowTally
from analysis.stepper.words import BEFORE, kept, sentence, told_traffic
from experiments.data.records import Access, Trace


def steps_of(trace: Trace) -> list[dict[str, Any]]:
    """The state before any access, then each step in order.

    ``loads`` and ``stores`` are elements moved up to and with a step, ``traffic`` the same in
    words; ``touches`` are what it moved, ``state`` the program's variables after it, ``changed``
    those that it set, and ``rows`` what is known of the rows that it touched (see `RowTally`).
    """
    tally, titles = RowTally(trace), pass_titles(trace)
    moved = {"load": 0, "store": 0}
    held: dict[int, dict[str, Any]] = {}
    steps = [_step(trace, [], moved, [], {}) | {"phase": before(trace), "text": BEFORE}]
    for accesses in _grouped(trace):
        first = accesses[0]
        for access in accesses:
            moved[access.kind] += len(access.values or ())
            tally.add(access)
        known, state = held.get(first.program, {}), first.state or {}
        changed = [name for name, value in state.items() if known.get(name) != value]
        held[first.program] = dict(state)
        rows = {str(access.row): tally.told(access.row) for access in accesses}
        steps.append(
            _step(trace, accesses, moved, changed, rows)
            | {"phase": titles[first.sweep], "text": sentence(accesses, changed)}
        )
    return steps


def _step(
    trace: Trace,
    accesses: list[Access],
    moved: dict[str, int],
    changed: list[str],
    rows: dict[str, Any],
) -> dict[str, Any]:
    state = accesses[0].state or {} if accesses else {}
    # a new part of the course begins with each program and each pass
    part = f"{accesses[0].program} {accesses[0].sweep}" if accesses else None
    fields = ("kind", "tensor", "row", "first", "last", "values")
    return {
        "part": part,
        "touches": [{name: getattr(a, name) for name in fields} for a in accesses],
        "keeps": kept(accesses),
        "state": [[name, value] for name, value in state.items()],
        "changed": changed,
        "loads": moved["load"],
        "stores": moved["store"],
        "traffic": told_traffic(trace, moved),
        "rows": rows,
    }


def _grouped(trace: Trace) -> Iterator[list[Access]]:
    for (_, operation), group in groupby(trace.accesses, lambda a: (a.sweep, a.operation)):
        if operation:
            yield list(group)
        else:
            yield from ([access] for access in group)
