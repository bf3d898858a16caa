"""Whether cold is cold: buffers that L2 would hold, read by the timers that time kernels."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import torch

from experiments.data.statistics import median
from experiments.worker.measure import Bench
from experiments.worker.timers import Protocol, Sampling, Subject, events, graph

COLS = 1024  # float32: 4 KiB a row, summed to one number
SMALLEST, PART_OF_L2 = 1 << 20, 2  # bytes; larger than half of L2 a buffer may not stay warm
LIMIT_S = 20.0


def probe(bench: Bench) -> dict[str, Any]:
    """Reads buffers of several sizes below L2, cold and warm, by events and by graph.

    Returns:
        ``probes``, each the fields of a probe's record but the environment.
    """
    cache_bytes = bench.place.device.l2_bytes or 0
    probes = []
    size = SMALLEST
    while size <= cache_bytes // PART_OF_L2:

        def make(_: int, rows: int = size // (4 * COLS)) -> torch.Tensor:
            return torch.ones((rows, COLS), dtype=torch.float32, device=bench.place.torch_device)

        for cache in ("cold", "warm"):
            flush = bench.flush if cache == "cold" else None
            # a rotation is counted in bytes read and written, and this reads alone
            subject = Subject(read, make(0), make, flush, 2 * cache_bytes)
            for timer, sample in (("events", events.sample), ("graph", graph.sample)):
                protocol = Protocol(
                    timer=timer, cache=cache, warmup=20, min_samples=200, max_samples=500,
                    precision=0.002, sampling_limit_s=LIMIT_S,
                )  # fmt: skip
                probes.append(_record(bench, protocol, size, sample(subject, protocol)))
        size *= 2
    return {"probes": probes}


def read(x: torch.Tensor) -> torch.Tensor:
    """Reads every element of ``x`` once and writes one per row."""
    return torch.sum(x, dim=1)


def _record(bench: Bench, protocol: Protocol, size: int, taken: Sampling) -> dict[str, Any]:
    middle = median(taken.samples_us)
    source = Path(__file__).read_bytes() + Path(str(events.__file__)).read_bytes()
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
