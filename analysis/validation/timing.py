"""Plausibility of one row by itself: its samples, its time, its bytes."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.data.rows import ITEM_BYTES, Row
from experiments.data.statistics import median

ROUNDED_US = 1e-4  # rows keep samples to four places
# Elements that any implementation must move, in units of MN.
COMPULSORY = {"softmax": 2, "copy": 2, "softmax_backward": 3}


def timing(row: Row) -> Iterator[tuple[str, str]]:
    """What in a row contradicts itself: the kind, and a sentence."""
    yield from _bytes(row)
    times = [row.time_us, row.time_low_us, row.time_high_us, *(row.samples_us or ())]
    if any(time is not None and not 1e-9 <= time <= 1e15 for time in times):
        yield "no time", "a time below zero, or that no clock tells"
        return
    if row.status != "ok":
        if row.time_us is not None:
            yield "no time", f"status {row.status}, and yet a time"
        return
    if row.backend == "interpreter":
        return
    if not row.samples_us or row.time_us is None:
        yield "no time", "status ok, and no samples or no time"
        return
    yield from _samples(row, row.samples_us, row.time_us)


def _samples(row: Row, samples_us: list[float], time_us: float) -> Iterator[tuple[str, str]]:
    known = median(samples_us)
    told = {"time_us": (time_us, known.value), "time_low_us": (row.time_low_us, known.low),
            "time_high_us": (row.time_high_us, known.high)}  # fmt: skip
    for name, (kept, made) in told.items():
        if kept is None or abs(kept - made) > ROUNDED_US + 1e-6 * made:
            yield "not its samples'", f"{name} is {kept:.6g}, its samples make {made:.6g}"
            break
    # A sample of a graph is the mean of its replays, so it takes at least as long as it says.
    total_s = sum(samples_us) / 1e6
    if row.sampling_s is not None and total_s > row.sampling_s:
        yield (
            "longer than it took",
            f"its samples add up to {total_s:.3g} s, sampling took {row.sampling_s:.3g} s",
        )
    spent_s = (row.sampling_s or 0) + (row.compile_s or 0)
    if row.wall_s is not None and spent_s > row.wall_s:
        yield (
            "longer than it took",
            f"sampling and compiling took {spent_s:.3g} s, the whole point {row.wall_s:.3g} s",
        )


def _bytes(row: Row) -> Iterator[tuple[str, str]]:
    item = ITEM_BYTES.get(row.dtype)
    if item is None:
        return
    if None not in (row.model_bytes, row.model_reads, row.model_writes):
        made = ((row.model_reads or 0) + (row.model_writes or 0)) * item
        if row.model_bytes != made:
            yield "wrong bytes", f"model_bytes is {row.model_bytes}, its elements make {made}"
    passes = COMPULSORY.get(row.operation)
    if passes is not None and row.compulsory_bytes is not None:
        made = passes * row.rows * row.cols * item
        if row.compulsory_bytes != made:
            what = f"compulsory_bytes is {row.compulsory_bytes}, {passes}MN makes {made}"
            yield "wrong bytes", what
