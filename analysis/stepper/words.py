"""A step in words, for those who read it and for those who hear it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analysis.stepper.passes import STATISTICS
from experiments.data.records import Access, Number, Trace

MINUS = "\u2212"
BEFORE = "Nothing has happened yet: the input lies in memory."


def sentence(accesses: Sequence[Access], changed: Sequence[str]) -> str:
    """What one step did; rows and columns are counted from 1, programs as Triton numbers them."""
    first = accesses[0]
    if first.operation:
        return f"{first.operation} {_moved(accesses, 'load')}; it {_moved(accesses, 'store')}."
    verb = "loads" if first.kind == "load" else "stores"
    text = (
        f"Program {first.program} {verb} {_columns(first)} of {first.tensor}, row {first.row + 1}"
    )
    state = first.state or {}
    told = [
        f"{name} = {shown(value)}"
        for name in STATISTICS
        if name in changed
        and (value := state.get(name)) is not None
        and not isinstance(value, list)
    ]
    return f"{text}; then {_listed(told)}." if told else f"{text}."


def shown(value: Number) -> str:
    """A number to four significant figures."""
    return signed(f"{float(value):.4g}")


def signed(digits: str) -> str:
    """A number's text with the signs of mathematics."""
    return digits.replace("inf", "∞").replace("-", MINUS)


def kept(accesses: Sequence[Access]) -> str:
    """The heading over a program's variables; for an operation, that it leaves none."""
    if not accesses:
        return "On chip: nothing yet"
    if accesses[0].operation:
        return "Inside an operation of PyTorch’s nothing is recorded; after it all is in memory"
    return f"Program {accesses[0].program} keeps on chip"


def told_traffic(trace: Trace, moved: Mapping[str, int]) -> list[dict[str, str | float]]:
    """What was loaded and stored so far, in units of MN and in elements, against the model."""
    size = trace.rows * trace.cols
    lines: list[dict[str, str | float]] = []
    for verb, kind, model in (
        ("loaded", "load", trace.model_reads),
        ("stored", "store", trace.model_writes),
    ):
        count = moved[kind]
        of = ("", "") if model is None else (f" of {model / size:.4g}", f" of {model}")
        lines.append(
            {
                "kind": kind,
                "units": f"{verb} {count / size:.4g}{of[0]} MN",
                "elements": f"{count}{of[1]}",
                "share": min(1.0, round(count / (model or count or 1), 4)),
            }
        )
    return lines


def _columns(access: Access) -> str:
    if access.first == access.last:
        return f"column {access.first + 1}"
    return f"columns {access.first + 1}–{access.last + 1}"


def _moved(accesses: Sequence[Access], kind: str) -> str:
    mine = [access for access in accesses if access.kind == kind]
    parts = []
    for tensor in dict.fromkeys(access.tensor for access in mine):
        count = sum(len(access.values or ()) for access in mine if access.tensor == tensor)
        parts.append(f"{tensor} ({count} element{'s' if count > 1 else ''})")
    return f"{'reads' if kind == 'load' else 'writes'} {_listed(parts) or 'nothing'}"


def _listed(parts: Sequence[str]) -> str:
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"
