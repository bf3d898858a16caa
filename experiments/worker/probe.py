"""Whether cold is cold: buffers that L2 would hold, read by the timers that time kernels."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import torch

from experiments.data.statistics import median
from experiments.worker import flush
from experiments.worker.timers import Protocol, Sampling, Subject, events, graph
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
            subject = Subject(read, make(), make, before, cache_bytes, size)
            for timer, sample in (("events", events.sample), ("graph", graph.sample)):
                protocol = _protocol(timer, cache)
                yield _record(bench, protocol, size, sample(subject, protocol))
        size *= 2


def _left(bench: Bench) -> Iterator[dict[str, Any]]:
    """What a flush leaves of a buffer that was loaded, or loaded or stored with a hint to stay.

    The buffer is read right after it was put into L2, and after a flush; and others in turn, of
    which L2 holds none.
    """
    cache_bytes = bench.place.device.l2_bytes or 0
    ways: dict[str, Callable[[torch.Tensor], object]] = {"loads": read}
    if bench.flush.hinted:
        ways |= {"hinted loads": flush.touch, "hinted stores": partial(flush.touch, store=True)}
    for size in LEFT_BYTES:
        if size >= cache_bytes:
            continue
        (x,) = _buffer(bench, size)
        turns = cycle([_buffer(bench, size)[0] for _ in range(3 * cache_bytes // size + 2)])

        def next_one(_: torch.Tensor, turns: Iterator[torch.Tensor] = turns) -> torch.Tensor:
            return read(next(turns))

        for left, leave in ways.items():
            before: Callable[[], object] = partial(leave, x)
            for cache, steps in (("warm", (before,)), ("cold", (before, bench.flush))):
                bench.flush()  # of what the probe before has left
                taken = _by_events(read, x, cache, steps)
                yield _record(bench, _protocol("events", cache), size, taken) | {"left": left}
        taken = _by_events(next_one, x, "rotation", ())
        yield _record(bench, _protocol("events", "rotation"), size, taken)


def _by_events(
    call: Callable[[torch.Tensor], torch.Tensor],
    x: torch.Tensor,
    cache: str,
    steps: Sequence[Callable[[], object]],
) -> Sampling:
    """A call by events, after some steps that are not in its time."""
    subject = Subject(call, (x,), lambda _: (x,), lambda: [step() for step in steps])
    return events.sample(subject, _protocol("events", cache))


def _buffer(bench: Bench, size: int, _: int = 0) -> tuple[torch.Tensor]:
    """So many bytes of ones."""
    shape = (size // (4 * COLS), COLS)
    return (torch.ones(shape, dtype=torch.float32, device=bench.place.torch_device),)


def _protocol(timer: str, cache: str) -> Protocol:
    return Protocol(
        timer=timer, cache=cache, warmup=20, min_samples=200, max_samples=500,
        precision=0.002, sampling_limit_s=LIMIT_S,
    )  # fmt: skip


def read(x: torch.Tensor) -> torch.Tensor:
    """Reads every element of ``x`` once and writes one per row."""
    return torch.sum(x, dim=1)


def _record(bench: Bench, protocol: Protocol, size: int, taken: Sampling) -> dict[str, Any]:
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
        "timer": protocol.timer,
        "cache": protocol.cache,
        "bytes": size,
        "l2_bytes": bench.place.device.l2_bytes,
        "flush_bytes": bench.flush.size_bytes,
        "samples_us": taken.samples_us,
        "time_us": middle.value,
        "time_low_us": middle.low,
        "time_high_us": middle.high,
        "stop_reason": taken.stop_reason,
    }
