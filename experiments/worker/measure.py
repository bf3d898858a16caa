"""One point, from input to row: inputs → compile → gate → timing → gate again."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib import import_module
from typing import Any

import torch

from experiments.child import one_line
from experiments.data.statistics import median
from experiments.worker.describe import backend, build_kernel, torch_dtype
from experiments.worker.flush import Flush
from experiments.worker.gate import Known, Verdict, check, fingerprint
from experiments.worker.launches import recorded
from experiments.worker.machine import Monitor, require
from experiments.worker.place import Place
from experiments.worker.timers import CannotTime, Protocol, Sampling, Subject
from kernels.kernel import NotCompiled

COMPILERS = (
    *("triton.compiler", "triton.runtime.errors"),
    *("torch._dynamo", "torch._inductor", "cutlass"),
)


class Bench:
    """What a worker keeps between points: its place, the flush buffer and the card's monitor."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.monitor = Monitor(place.serial)
        self.flush = Flush(place.torch_device, place.device.l2_bytes or 32 << 20)


def measure(point: dict[str, Any], bench: Bench, stage: Callable[[str], None]) -> dict[str, Any]:
    """Measures a point and gives the row's outcome fields; errors become a status.

    Args:
        point: ``kernel`` (configuration), ``rows``, ``cols``, ``dtype``, ``timing``, ``seed``.
        bench: The worker's own equipment.
        stage: Called with ``"compiling"`` and ``"sampling"`` as each begins, for its limit.
    """
    return _guarded(lambda: _measure(point, bench, stage), bench.place.device.kind)


def _guarded(work: Callable[[], dict[str, Any]], device: str) -> dict[str, Any]:
    """An outcome, errors as a status; ``sticky`` says that the CUDA context is lost."""
    try:
        outcome = work()
    except Exception as error:
        outcome = {"status": status_of(error), "reason": one_line(error)}
        outcome["sticky"] = device != "cpu" and context_is_lost()
    if device != "cpu" and not outcome.get("sticky"):
        gc.collect(0)
        torch.cuda.empty_cache()  # what the allocator keeps, a large point may need in one piece
    return outcome


def _measure(point: dict[str, Any], bench: Bench, stage: Callable[[str], None]) -> dict[str, Any]:
    place, protocol = bench.place, _protocol(point["timing"], bench.place)
    kernel, dtype = build_kernel(point["kernel"]), torch_dtype(point["dtype"])
    operation, shape = kernel.operation, (point["rows"], point["cols"])
    name = backend(kernel, place.device)

    made: dict[int, Known | None] = {}  # a timer may call the kernel on copies of what it made

    def make(index: int) -> torch.Tensor:
        x = operation.make_input(shape, dtype, place.torch_device, point["seed"] + index)
        made[fingerprint(x)] = None
        return x

    def judge(y: torch.Tensor, x: torch.Tensor) -> Verdict:
        return check(y, x, operation, name, made)

    stage("sampling")
    if place.device.kind == "cpu":
        require(sum(operation.compulsory.elements(operation.sizes(shape))) * dtype.itemsize)
    x = make(0)
    stage("compiling")
    if name == "interpreter":  # it compiles nothing, so that its first call is the judged one
        poison(x)
    began = time.perf_counter()
    with recorded() as launches:
        call = kernel.prepare(x)
        y = call(x)
        if x.is_cuda:
            torch.cuda.synchronize()
    fields: dict[str, Any] = {"compile_s": time.perf_counter() - began, **launches.fields()}
    stage("sampling")
    if name == "interpreter":
        return fields | _judged(judge(y, x))
    del y
    poison(x)
    verdict = judge(call(x), x)
    if verdict.reason is not None:
        return fields | _judged(verdict)
    before, began = bench.monitor.read(), time.perf_counter()
    flush = bench.flush if protocol.cache == "cold" else None
    timer = import_module(f"experiments.worker.timers.{protocol.timer}")
    subject = Subject(call, x, make, flush, place.device.l2_bytes or 0)
    sampling: Sampling = timer.sample(subject, protocol)
    fields["sampling_s"] = time.perf_counter() - began
    after = bench.monitor.read()
    for timed_x, timed_y in sampling.timed:
        verdict = judge(timed_y, timed_x)
        if verdict.reason is not None:
            return fields | _judged(verdict) | {"reason": f"after timing: {verdict.reason}"}
    middle = median(sampling.samples_us)
    slowed = {*(before.throttled or []), *(after.throttled or [])}
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
        "throttled": None if after.throttled is None else sorted(slowed),
        "sm_clock_before_mhz": before.sm_clock_mhz,
        "temperature_before_c": before.temperature_c,
        "other_processes": max(others, default=None),
    }  # fmt: skip


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


def _judged(verdict: Verdict) -> dict[str, Any]:
    return {"status": "ok" if verdict.reason is None else "incorrect", **asdict(verdict)}


def status_of(error: Exception) -> str:
    """The row status that an error amounts to."""
    if isinstance(error, CannotTime):
        return "unsupported"
    text = str(error)
    if isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in text:
        return "out_of_memory"
    from_compiler = type(error).__module__.startswith(COMPILERS)
    return "compile_error" if from_compiler or isinstance(error, NotCompiled) else "launch_error"


def context_is_lost() -> bool:
    """Whether the CUDA context is lost, as after an illegal access: every later call would fail."""
    try:
        torch.cuda.synchronize()
    except Exception:
        return True
    return False


@contextmanager
def profiler_range(name: str) -> Iterator[None]:
    """An NVTX range of this name, with a profiler that waits for ``cudaProfilerStart`` on inside.

    Nothing launched before it is still running when it begins, nor anything of it when it ends.
    """
    torch.cuda.synchronize()
    torch.cuda.nvtx.range_push(name)
    torch.cuda.profiler.start()
    try:
        yield
        torch.cuda.synchronize()
    finally:
        torch.cuda.profiler.stop()
        torch.cuda.nvtx.range_pop()


def profile(point: dict[str, Any], bench: Bench) -> dict[str, Any]:
    """Calls a point's kernel twice, the second time with L2 flushed and inside a range.

    Errors become a status.

    Args:
        point: ``kernel`` (configuration), ``rows``, ``cols``, ``dtype``, ``seed``, ``range``.
        bench: The worker's own equipment.

    Returns:
        ``status`` and ``reason`` as a row's, and ``sticky`` where the CUDA context is lost.
    """

    def two_calls() -> dict[str, Any]:
        kernel, dtype = build_kernel(point["kernel"]), torch_dtype(point["dtype"])
        shape = (point["rows"], point["cols"])
        x = kernel.operation.make_input(shape, dtype, bench.place.torch_device, point["seed"])
        call = kernel.prepare(x)
        call(x)
        bench.flush()
        with profiler_range(point["range"]):
            call(x)
        return {"status": "ok", "reason": None}

    return _guarded(two_calls, bench.place.device.kind)
