"""Whether cold is cold: buffers that L2 would hold, read by the timers that time kernels."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import torch

from experiments.data.statistics import median
from experiments.worker import flush
from experiments.worker.timers import Protocol, Subject, events, graph
from experiments.worker.trial import Bench

COLS = 1024  # float32: 4 KiB a row, summed to one number
SMALLEST, PART_OF_L2 = 1 << 20, 2  # bytes; larger than half of L2 a buffer may not stay warm
LEFT_BYTES = (8 << 20, 32 << 20, 48 << 20)  # that a kernel before may have left in L2
LIMIT_S = 20.0


def probe(bench: Bench) -> dict[str, Any]:
    """Reads buffers smaller than L2 cold and warm, and after a flush of what was left there.

    Returns:
        ``probes``, each the fields of a probe's record but the environment.
    """
    return {"probes": [*_cold_and_warm(bench), *_left(bench)]}


def _cold_and_warm(bench: Bench) -> Iterator[dict[str, Any]]:
    """Buffers of several sizes read again and again, by events and by graph."""
    cache_bytes = bench.place.device.l2_bytes or 0
    size = SMALLEST
    while size <= cache_bytes // PART_OF_L2:
        make = partial(_buffer, bench, size)
        for cache in ("cold", "warm"):
            before = bench.flush if cache == "cold" else None
            for timer in ("events", "graph"):
                subject = Subject(read, make(), make, before, cache_bytes, size)
                yield _record(bench, timer, cache, size, subject)
        size *= 2


def _left(bench: Bench) -> Iterator[dict[str, Any]]:
    """Reads of a buffer that loads or stores put into L2, with a hint to stay or without.

    The buffer is read right after it was put into L2, and after a flush. Then others are read in
    turn, of which L2 holds none.
    """
    cache_bytes = bench.place.device.l2_bytes or 0
    ways: dict[str, Callable[[torch.Tensor], object]] = {"loads": read}
    if bench.flush.hinted:
        ways |= {"hinted loads": flush.touch, "hinted stores": partial(flush.touch, store=True)}
    for size in (one for one in LEFT_BYTES if one < cache_bytes):
        make = partial(_buffer, bench, size)
        (x,) = make()
        for left, leave in ways.items():
            for cache in ("warm", "cold"):
                bench.flush()  # of the buffers before
                before = partial(_left_in_l2, leave, x, bench.flush if cache == "cold" else None)
                found = _record(bench, "events", cache, size, Subject(read, (x,), make, before))
                yield found | {"left": left}
        turns = cycle([make()[0] for _ in range(3 * cache_bytes // size + 2)])
        in_turn = Subject(partial(_next, turns), (x,), make)
        yield _record(bench, "events", "rotation", size, in_turn)


def _left_in_l2(
    leave: Callable[[torch.Tensor], object], x: torch.Tensor, then: Callable[[], object] | None
) -> None:
    leave(x)
    if then is not None:
        then()


def _next(turns: Iterator[torch.Tensor], _: torch.Tensor) -> torch.Tensor:
    return read(next(turns))


def _buffer(bench: Bench, size: int, _: int = 0) -> tuple[torch.Tensor]:
    """So many bytes of ones."""
    shape = (size // (4 * COLS), COLS)
    return (torch.ones(shape, dtype=torch.float32, device=bench.place.torch_device),)


def read(x: torch.Tensor) -> torch.Tensor:
    """Reads every element of ``x`` once and writes one per row."""
    return torch.sum(x, dim=1)


def _record(bench: Bench, timer: str, cache: str, size: int, subject: Subject) -> dict[str, Any]:
    sample = {"events": events.sample, "graph": graph.sample}[timer]
    taken = sample(subject, Protocol(timer, cache, 20, 200, 500, 0.002, LIMIT_S))
    middle = median(taken.samples_us)
    files = (__file__, str(events.__file__), str(flush.__file__))
    source = b"".join(Path(file).read_bytes() for file in files)
    return {
        "kernel": "probe",
        "operation": "read",
        "params": {},
        "source": hashlib.sha256(source).hexdigest()[:16],
        "rows": size // (4 * COLS),
        "cols": COLS,
        "dtype": "float32",
        "gpu": bench.place.device.name,
        "timer": timer,
        "cache": cache,
        "bytes": size,
        "l2_bytes": bench.place.device.l2_bytes,
        "flush_bytes": bench.flush.size_bytes,
        "samples_us": taken.samples_us,
        "time_us": middle.value,
        "time_low_us": middle.low,
        "time_high_us": middle.high,
        "stop_reason": taken.stop_reason,
    }
