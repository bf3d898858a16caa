"""One point, from input to row: inputs → compile → gate → timing → gate again."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from experiments.child import one_line
from experiments.data.statistics import median
from experiments.worker import outside
from experiments.worker.describe import backend, build_kernel, torch_dtype
from experiments.worker.determinism import judge_determinism
from experiments.worker.flush import Flush
from experiments.worker.gate import Passed, Prints, Verdict, check, fingerprints
from experiments.worker.launches import recorded
from experiments.worker.machine import Monitor, require
from experiments.worker.place import Place
from experiments.worker.timers import CannotTime, Inputs, Protocol, Sampling, Subject
from kernels.kernel import NotCompiled, Shape, Tensors

COMPILERS = (
    *("triton.compiler", "triton.runtime.errors"),
    *("torch._dynamo", "torch._inductor", "cutlass"),
)


class Bench:
    """What a worker keeps between points.

    Its place, the flush buffer, the card's monitor, and the answers that passed the gate.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self.monitor = Monitor(place.serial)
        self.flush = Flush(place.torch_device, place.device.l2_bytes or 32 << 20)
        self.passed: Passed = {}


def measure(point: dict[str, Any], bench: Bench, stage: Callable[[str], None]) -> dict[str, Any]:
    """Measures a point and gives the row's outcome fields; errors become a status.

    Args:
        point: ``kernel`` (configuration), ``rows``, ``cols``, ``dtype``, ``timing``, ``seed``.
        bench: The worker's own equipment.
        stage: Called with ``"compiling"`` and ``"sampling"`` as each begins, for its limit.
    """
    file = point["kernel"].get("file")
    return _guarded(lambda: _measure(point, bench, stage), bench.place.device.kind, file)


def _guarded(
    work: Callable[[], dict[str, Any]], device: str, file: str | None = None
) -> dict[str, Any]:
    """An outcome, errors as a status; ``sticky`` says that the CUDA context is lost.

    The reason names the line of a kernel's ``file`` from outside.
    """
    try:
        outcome = work()
    except Exception as error:
        reason = one_line(error)
        if file is not None and (line := outside.line_of(error, Path(file))):
            reason = f"{Path(file).name}{line}: {reason}"
        outcome = {"status": status_of(error), "reason": reason}
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

    made: set[Prints] = set()  # a timer may call the kernel on copies of what it made

    def make(index: int) -> Inputs:
        inputs = operation.make_inputs(shape, dtype, place.torch_device, point["seed"] + index)
        made.add(fingerprints(inputs))
        return inputs

    def judge(answer: Tensors, asked: Inputs) -> Verdict:
        return check(answer, asked, operation, name, made, bench.passed)

    stage("sampling")
    moved = operation.compulsory.bytes(operation.sizes(shape), dtype.itemsize)
    if place.device.kind == "cpu":
        require(moved)
    inputs, outputs = make(0), operation.layout(operation.outputs, shape, dtype)
    names = [array.name for array in operation.inputs]
    over = None if kernel.overwrites is None else names.index(kernel.overwrites)
    original = None if over is None else inputs[over].clone()
    stage("compiling")
    if name == "interpreter":  # it compiles nothing, so that its first call is the judged one
        poison(outputs, place.torch_device)
    began = time.perf_counter()
    with recorded() as launches:
        call = kernel.prepare(*inputs)
        answer = call(*inputs)
        if place.device.kind == "cuda":
            torch.cuda.synchronize()
    fields: dict[str, Any] = {"compile_s": time.perf_counter() - began, **launches.fields()}
    stage("sampling")
    flush = bench.flush if protocol.cache == "cold" else None
    cache_bytes = place.device.l2_bytes or 0
    subject = Subject(call, inputs, make, flush, cache_bytes, moved, over, original)
    if name != "interpreter":
        del answer
        subject.restore()
        poison(outputs, place.torch_device)
        answer, fields["peak_bytes"] = with_peak(lambda: call(*inputs), place.device.kind)
    verdict = judge(answer, subject.asked(inputs))
    if verdict.reason is not None:
        return fields | _judged(verdict)
    if point.get("determinism"):
        stage("compiling")  # for other numbers of rows
        fields |= judge_determinism(kernel, subject, answer, place.device)
        stage("sampling")
    if name == "interpreter":
        return fields | _judged(verdict)
    del answer
    before, began = bench.monitor.read(), time.perf_counter()
    timer = import_module(f"experiments.worker.timers.{protocol.timer}")
    sampling: Sampling = timer.sample(subject, protocol)
    fields["sampling_s"] = time.perf_counter() - began
    after = bench.monitor.read()
    for asked, timed in sampling.timed:
        verdict = judge(timed, asked)
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


def poison(outputs: Sequence[tuple[Shape, torch.dtype]], device: str) -> None:
    """Leaves NaN, or −77, in the memory that outputs of these shapes and dtypes are likely to get.

    An element that a kernel forgets to write would otherwise still hold the last right answer.
    """
    held = []
    for shape, dtype in outputs:
        value = torch.nan if dtype.is_floating_point else -77
        held.append(torch.full(shape, value, dtype=dtype, device=device))


def with_peak(call: Callable[[], Tensors], device: str) -> tuple[Tensors, int | None]:
    """A call's answer, and the most bytes of PyTorch's device memory it had beyond its inputs.

    Its outputs are among them; None on a CPU.
    """
    if device != "cuda":
        return call(), None
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    answer = call()
    torch.cuda.synchronize()
    return answer, torch.cuda.max_memory_allocated() - before


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
        inputs = kernel.operation.make_inputs(shape, dtype, bench.place.torch_device, point["seed"])
        call = kernel.prepare(*inputs)
        call(*inputs)
        bench.flush()
        with profiler_range(point["range"]):
            call(*inputs)
        return {"status": "ok", "reason": None}

    return _guarded(two_calls, bench.place.device.kind)
