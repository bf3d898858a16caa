"""The one place where bandwidths, shares of the roof and speedups are computed from rows."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from experiments.data.jobs import kernel_makers
from experiments.data.rows import Row

COPY = "copy"
# These timers capture a CUDA graph. There PyTorch's copy becomes a memcpy node, slower than a
# kernel, so it is no roof.
GRAPH_TIMERS = ("graph", "chain")
DERIVED = (
    "effective_gbps",
    "modelled_gbps",
    "roof_gbps",
    "fraction_of_roof",
    "speedup_over_naive",
    "above_roof",
    "arithmetic_us",
)
ARITHMETIC = ("flops", "exponentials")
# (factor, µs): a time is implausible if its roof's interval lies above its own by more than both.
# Rows of outputs/reference beat their roof by at most 1.29 and 2.0 µs by events, 1.16 by a chain.
# On a CPU other processes disturb the roof too, so its bounds are wide.
CARD, CPU = (1.25, 2.5), (5.0, 20.0)


def latest(rows: Iterable[Row]) -> list[Row]:
    """The last attempt at each point, checked by `mark_implausible`; rows may be of many files."""
    ordered = sorted(rows, key=lambda row: row.attempt)
    return mark_implausible([*{(row.sweep, *row.identity): row for row in ordered}.values()])


def mark_implausible(rows: Sequence[Row]) -> list[Row]:
    """The rows, with status ``implausible`` for each whose time is far below its roof's.

    Such a kernel reused an answer or returned early; no ratio, figure or claim uses its row.
    """
    return [
        row.model_copy(update={"status": "implausible", "reason": why})
        if (why := _implausible(row, _roof(row, near)))
        else row
        for row, near in zip(rows, _neighbours(rows), strict=True)
    ]


def _implausible(row: Row, roof: Row | None) -> str:
    """Why a row's time is impossible, or "". Times of a card by the host's clock are not judged."""
    if roof is None or roof.suspect or roof.operation == row.operation or not timed(row):
        return ""
    if not row.compulsory_bytes or (row.device == "cuda" and row.timer == "host"):
        return ""
    share = row.compulsory_bytes / (roof.compulsory_bytes or 1)
    least_us, most_us = share * (roof.time_low_us or 0), row.time_high_us or row.time_us or 0
    factor, gap_us = CARD if row.device == "cuda" else CPU
    if least_us <= factor * most_us or least_us - most_us <= gap_us:
        return ""
    return (
        f"takes {row.time_us:.3g} µs where {roof.kernel}, which only moves what it must move, "
        f"takes {share * (roof.time_us or 0):.3g}"
    )


def derive(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Rows as dictionaries with their `derived` columns."""
    return [vars(row) | own for row, own in zip(rows, derived(rows), strict=True)]


def derived(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """For each row its derived columns, None where they do not apply.

    ``recording`` names the sweep and the card of the row. ``effective_gbps`` is compulsory bytes
    over time, ``modelled_gbps`` the model's bytes over time, both in GB/s (1e9). ``roof`` is the
    row's roof operation, or `COPY` if the row is older than that field. ``roof_gbps`` is the
    effective bandwidth of that operation's fastest row in the row's `neighbourhood`.
    ``above_roof``: the row's whole interval is faster than that of this roof. ``bounds``: the row
    measures a roof. ``arithmetic_us`` is the longer of the times that the row's flops and its
    exponentials take at the rate of the fastest roof of that kind of arithmetic.
    ``fraction_of_roof`` is effective over roof bandwidth, or ``arithmetic_us`` over the time if
    that is more: the roof that takes longest counts.
    """
    for row, near in zip(rows, _neighbours(rows), strict=True):
        own = _derived(row, near) if timed(row) else {}
        about = {"recording": row.recording, "roof": row.roof or COPY, "bounds": bounds(row)}
        yield dict.fromkeys(DERIVED) | own | about


def _neighbours(rows: Sequence[Row]) -> list[list[Row]]:
    """For each row the timed rows of its neighbourhood, fastest first."""
    places, found = [*map(neighbourhood, rows)], defaultdict[tuple[Any, ...], list[Row]](list)
    for at, row in sorted(zip(places, rows, strict=True), key=lambda one: one[1].time_us or 0.0):
        if timed(row):
            found[at].append(row)
    return [found[at] for at in places]


def _roof(row: Row, near: Iterable[Row]) -> Row | None:
    """The first, so the fastest, row of the row's roof among its neighbours; None without one."""
    roof = row.roof or COPY
    return next((one for one in near if one.operation == roof and bounds(one)), None)


def bounds(row: Row) -> bool:
    """Whether the row measures a roof: its operation is its own roof. Not `COPY` in a graph."""
    memcpy_node = row.kernel == COPY and row.timer in GRAPH_TIMERS
    return row.operation == (row.roof or COPY) and not memcpy_node


def timed(row: Row) -> bool:
    """Whether the row has a time, of an answer that is right."""
    return row.status == "ok" and row.time_us is not None


def neighbourhood(row: Row) -> tuple[Any, ...]:
    """What two rows must share to be compared: recording, GPU, round, protocol, shape, dtype."""
    protocol = row.recording, row.gpu, row.round, row.timer, row.cache
    return *protocol, row.rows, row.cols, row.dtype


def _least_us(row: Row, near: Iterable[Row]) -> Iterator[float]:
    """The µs that the row's flops, and its exponentials, take at the rate of their fastest roof."""
    for work in ARITHMETIC:
        if own := getattr(row, work):
            rates = [(getattr(one, work) or 0) / (one.time_us or 1) for one in near if bounds(one)]
            if fastest := max(rates, default=0):
                yield own / fastest


def _derived(row: Row, near: Sequence[Row]) -> dict[str, Any]:
    """The derived columns of a timed row; ``near`` are the timed rows of its neighbourhood."""
    values, time_us = dict[str, Any](), row.time_us or 0.0
    if row.model_bytes is not None:
        values["modelled_gbps"] = gbps(row.model_bytes, time_us)
    if row.compulsory_bytes is not None:
        values["effective_gbps"] = gbps(row.compulsory_bytes, time_us)
    values["arithmetic_us"] = bound_us = max(_least_us(row, near), default=None)
    roof, own = _roof(row, near), (row.operation, "naive")
    naive = next((one for one in near if (one.operation, one.kernel) == own), None)
    if roof is not None and roof.time_us and roof.compulsory_bytes and row.compulsory_bytes:
        values["roof_gbps"] = gbps(roof.compulsory_bytes, roof.time_us)
        of_roof = values["effective_gbps"] / values["roof_gbps"]
        values["fraction_of_roof"] = max(of_roof, (bound_us or 0.0) / time_us)
        low_us = (roof.time_low_us or 0) * row.compulsory_bytes / roof.compulsory_bytes
        values["above_roof"] = bool(row.time_high_us and row.time_high_us < low_us)
    if naive is not None and naive.time_us is not None:
        values["speedup_over_naive"] = naive.time_us / time_us
    return values


def gbps(size_bytes: float, time_us: float) -> float:
    """Bytes over microseconds, as GB/s (1e9 bytes a second)."""
    return size_bytes / time_us / 1e3


def compared(rows: Sequence[Row], names: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Compares each row with the rows of other kernels in its `neighbourhood`.

    Kernels in ``names`` are compared with each other only if no other kernel is there. Suspect
    rows are neither rivals nor roofs.

    Returns:
        For each row ``share`` of the roof, and its speed over the fastest other kernel by PyTorch
        (``over_torch``) and over the fastest of all (``over_best``, named in ``best_other``);
        ``left_out`` names the kernels whose rows are suspect. The interval, ``_low`` to ``_high``,
        divides opposite ends of the two times' intervals. NaN where there is nothing to compare.
    """
    makers, found = kernel_makers(), []
    for row, near in zip(rows, _neighbours(rows), strict=True):
        there = [one for one in near if timed(row)]
        beside = [r for r in there if r.operation == row.operation and r.kernel != row.kernel]
        beside = [r for r in beside if {row.kernel, r.kernel} - {*names}] or beside
        rivals = [r for r in beside if not r.suspect]
        by_torch = [one for one in rivals if makers.get(one.kernel) == "torch"]
        line = _ratio("share", _roof(row, [r for r in there if not r.suspect]), row)
        for name, others in (("over_torch", by_torch), ("over_best", rivals)):
            line |= _ratio(name, next(iter(others), None), row)
        doubted = ", ".join(r.kernel for r in beside if r.suspect)
        best = rivals[0].kernel if rivals else ""
        found.append(line | {"best_other": best, "left_out": doubted})
    return found


def _ratio(name: str, other: Row | None, row: Row) -> dict[str, Any]:
    """``name`` and its interval: the other row's time, at equal bytes, over this row's time."""
    ends = [math.nan] * 3
    if other is not None:
        scale = (row.compulsory_bytes or 1) / (other.compulsory_bytes or 1)
        (mine, low, high), (theirs, least, most) = (
            (us, one.time_low_us or us, one.time_high_us or us)
            for one in (row, other)
            for us in [one.time_us or 0.0]
        )
        ends = [scale * theirs / mine, scale * least / high, scale * most / low]
    return dict(zip((name, f"{name}_low", f"{name}_high"), ends, strict=True))
