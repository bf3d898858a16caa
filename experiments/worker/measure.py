"""One point, from input to row: inputs → compile → gate → timing → gate again."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import torch

from experiments.child import one_line
from experiments.data.statistics import median
from experiments.worker.bench import Bench
from experiments.worker.describe import backend, build_kernel, torch_dtype
from experiments.worker.faults import context_is_lost, status_of
from experiments.worker.gate import Verdict, check, fingerprint
from experiments.worker.launches import recorded
from experiments.worker.memory import require
from experiments.worker.place import Place
from experiments.worker.timers.events import events
from experiments.worker.timers.graph import graph
from experiments.worker.timers.host import host
from experiments.worker.timers.sampling import Call, Protocol, Sampling


def measure(point: dict[str, Any], bench: Bench, stage: Callable[[str], None]) -> dict[str, Any]:
    """Measures a point and gives the row's outcome fields; errors become a status.

    Args:
        point: ``kernel`` (configuration), ``rows``, ``cols``, ``dtype``, ``timing``, ``seed``.
        bench: The worker's own equipment.
        stage: Told ``"compiling"`` and ``"sampling"`` as they begin, for the parent's limits.
    """
    try:
        outcome = _measure(point, bench, stage)
    except Exception as error:
        outcome = {"status": status_of(error), "reason": one_line(error)}
        outcome["sticky"] = bench.place.device.kind == "cuda" and context_is_lost()
    gc_needed = bench.place.device.kind == "cuda" and not outcome.get("sticky")
    if gc_needed:
        gc.collect(0)
        torch.cuda.empty_cache()
    return outcome


def _measure(point: dict[str, Any], bench: Bench, stage: Callable[[str], None]) -> dict[str, Any]:
    place, protocol = bench.place, _protocol(point["timing"], bench.place)
    kernel, dtype = build_kernel(point["kernel"]), torch_dtype(point["dtype"])
    operation, shape = kernel.operation, (point["rows"], point["cols"])
    name = backend(kernel, place.device)

    before_any_call: dict[int, int] = {}

    def make(index: int) -> torch.Tensor:
        x = operation.make_input(shape, dtype, place.torch_device, point["seed"] + index)
        before_any_call[x.data_ptr()] = fingerprint(x)
        return x

    def judge(y: torch.Tensor, x: torch.Tensor) -> Verdict:
        return check(y, x, operation, name, before_any_call[x.data_ptr()])

    stage("sampling")
    if place.device.kind == "cpu":
        require(sum(operation.compulsory.elements(operation.sizes(shape))) * dtype.itemsize)
    x = make(0)
    stage("compiling")
    began = time.perf_counter()
    with recorded() as launches:
        call = kernel.prepare(x)
        y = call(x)
        _wait(x)
    fields: dict[str, Any] = {"compile_s": time.perf_counter() - began, **launches.fields()}
    stage("sampling")
    del y
    poison(x)
    verdict = judge(call(x), x)
    if verdict.reason is not None or name == "interpreter":
        return fields | _judged(verdict)
    before, began = bench.monitor.read(), time.perf_counter()
    sampling = _sample(call, x, make, bench, protocol)
    fields["sampling_s"] = time.perf_counter() - began
    after = bench.monitor.read()
    for timed_x, timed_y in sampling.timed:
        verdict = judge(timed_y, timed_x)
        if verdict.reason is not None:
            return fields | _judged(verdict, "after timing: ")
    middle = median(sampling.samples_us)
    throttled = None
    if after.throttled is not None:
        throttled = sorted({*(before.throttled or []), *after.throttled})
    others = [n for n in (before.other_processes, after.other_processes) if n is not None]
    return fields | _judged(verdict) | asdict(after) | {
        "timer": protocol.timer,
        "cache": protocol.cache,
        "samples_us": [round(sample, 4) for sample in sampling.samples_us],
        "time_us": middle.value,
        "time_low_us": middle.low,
        "time_high_us": middle.high,
        "late": sampling.late,
        "stop_reason": sampling.stop_reason,
        "throttled": throttled,
        "sm_clock_before_mhz": before.sm_clock_mhz,
        "temperature_before_c": before.temperature_c,
        "other_processes": max(others) if others else None,
    }  # fmt: skip


def _sample(
    call: Call,
    x: torch.Tensor,
    make: Callable[[int], torch.Tensor],
    bench: Bench,
    protocol: Protocol,
) -> Sampling:
    flush = bench.flush if protocol.cache == "cold" else None
    if protocol.timer == "events":
        return events(call, x, flush, protocol)
    if protocol.timer == "graph":
        return graph(call, make, bench.place.device.l2_bytes or 0, protocol)
    return host(call, x, flush, protocol)


def _protocol(timing: dict[str, Any], place: Place) -> Protocol:
    timer = timing["timer"]
    if timer == "auto":
        timer = "events" if place.device.kind == "cuda" else "host"
    known = {name: timing[name] for name in Protocol.__dataclass_fields__}
    return Protocol(**known | {"timer": timer})


def poison(x: torch.Tensor) -> None:
    """Leaves NaN in the memory that an output for ``x`` is likely to get.

    An element that a kernel forgets to write would otherwise still hold the last right answer.
    """
    torch.full(x.shape[-2:], torch.nan, dtype=x.dtype, device=x.device)


def _judged(verdict: Verdict, when: str = "") -> dict[str, Any]:
    wrong = verdict.reason is not None
    return {
        "status": "incorrect" if wrong else "ok",
        "reason": f"{when}{verdict.reason}" if wrong else None,
        "max_abs_error": verdict.max_abs_error,
        "relative_error": verdict.relative_error,
    }


def _wait(x: torch.Tensor) -> None:
    if x.is_cuda:
        torch.cuda.synchronize()
