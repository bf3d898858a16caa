"""One point, from input to row: inputs → compile → gate → timing → gate again."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib import import_module
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import torch

from experiments.child import one_line
from experiments.data.statistics import median
from experiments.worker import clock, outside
from experiments.worker.describe import backend, build_kernel, torch_dtype
from experiments.worker.determinism import judge_determinism
from experiments.worker.gate import Verdict
from experiments.worker.inputs import Changing
from experiments.worker.launches import recorded
from experiments.worker.machine import require
from experiments.worker.place import Place
from experiments.worker.timers import CannotTime, Protocol, Sampling, Subject, copied
from experiments.worker.trial import CHANGED, OK, Ask, Bench, Trial
from kernels.kernel import NotCompiled, Shape, Tensors, as_tuple

COMPILERS = (
    *("triton.compiler", "triton.runtime.errors"),
    *("torch._dynamo", "torch._inductor", "cutlass"),
)

# What the card may do after a call has returned: more than the call's time by events, for this
# share, and so many µs that waiting itself takes.
UNFINISHED = 1.25, 50.0


def measure(
    point: dict[str, Any], bench: Bench, stage: Callable[[str], None], ask: Ask | None = None
) -> dict[str, Any]:
    """Measures a point and gives the row's outcome fields; errors become a status.

    A kernel that changes what others use, a clock or the number of threads, has no time. The
    parent replaces this worker then, as it does where the CUDA context is lost: ``sticky``.

    Args:
        point: ``kernel`` (configuration), ``rows``, ``cols``, ``dtype``, ``timing``, ``seed``.
        bench: The worker's own equipment.
        stage: Called with ``"compiling"`` and ``"sampling"`` as each begins, for its limit.
        ask: Has another process judge the answers of a kernel from outside.
    """
    file, state = point["kernel"].get("file"), clock.state()
    ask = ask if file is not None else None
    outcome = _guarded(lambda: _measure(point, bench, stage, ask), bench.place.device.kind, file)
    if changed := clock.changes(state):
        outcome = {"status": "implausible", "reason": f"changed {changed}, which others use"}
        outcome["sticky"] = True
    return outcome


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


def _measure(
    point: dict[str, Any], bench: Bench, stage: Callable[[str], None], ask: Ask | None
) -> dict[str, Any]:
    protocol = _protocol(point["timing"], bench.place)
    kernel, dtype = build_kernel(point["kernel"]), torch_dtype(point["dtype"])
    name, shape = backend(kernel, bench.place.device), (point["rows"], point["cols"])
    trial = Trial(kernel, name, shape, dtype, point["seed"], bench, ask)
    stage("sampling")
    subject = _subject(trial, protocol)
    if name == "interpreter" and not point.get("determinism"):
        return _interpreted(trial, subject, stage)
    answer, fields = _called(trial, subject, stage)
    verdict = trial.judge(answer, subject.asked(subject.inputs))
    if subject.overwritten is not None:
        answer = copied(answer)
    if verdict.reason is None and point.get("determinism"):
        stage("compiling")  # for other numbers of rows
        fields |= judge_determinism(kernel, subject, answer, bench.place.device)
        stage("sampling")
    if verdict.reason is not None:
        return fields | _judged(verdict)
    subject.changing = changing = _changing(trial, subject)
    first = [y[changing.rows].clone() for y in as_tuple(answer)]
    again = trial.judge_again(subject, answer)
    if again.reason is not None or name == "interpreter":
        return fields | _judged(verdict if again.reason is None else again)
    del answer
    changing.hold_others()
    subject.restore()
    return fields | _timed(trial, subject, protocol, first)


def _interpreted(trial: Trial, subject: Subject, stage: Callable[[str], None]) -> dict[str, Any]:
    """The fields of a row that Triton's interpreter computes, and nobody times.

    It takes its time for each row, so one call has the rows that are not normal beside the others,
    unless these are too few.
    """
    subject.changing = changing = _changing(trial, subject)
    at_once = 0 < len(trial.kinds) <= len(changing.rows)
    if at_once:
        changing.hold_others(tuple(islice(cycle(trial.kinds), len(changing.rows))))
        changing.change_all()
        subject.restore()
    answer, fields = _called(trial, subject, stage)
    verdict = trial.judge_mixed(subject, answer, trial.shape[0]) if at_once else OK
    changing.restore()
    if verdict.reason is None and at_once and not trial.is_made(subject.asked(subject.inputs)):
        verdict = CHANGED
    if not at_once:
        verdict = trial.judge(answer, subject.asked(subject.inputs))
    if verdict.reason is None and trial.kinds and not at_once:
        again = trial.judge_again(subject, answer)
        verdict = verdict if again.reason is None else again
    return fields | _judged(verdict)


def _changing(trial: Trial, subject: Subject) -> Changing:
    asked = subject.asked(subject.inputs)
    return Changing(trial.kernel.operation, asked, trial.shape, trial.seed)


def _subject(trial: Trial, protocol: Protocol) -> Subject:
    """What is timed, before its kernel is prepared."""
    kernel, place = trial.kernel, trial.bench.place
    operation, device = kernel.operation, place.device
    moved = operation.compulsory.bytes(operation.sizes(trial.shape), trial.dtype.itemsize)
    if device.kind == "cpu":
        require(moved)
    inputs = trial.make(0)
    names = [array.name for array in operation.inputs]
    over = None if kernel.overwrites is None else names.index(kernel.overwrites)
    original = None if over is None else inputs[over].clone()
    flush = trial.bench.flush if protocol.cache == "cold" else None
    cache_bytes = device.l2_bytes or 0
    return Subject(kernel, inputs, trial.make, flush, cache_bytes, moved, over, original)


def _called(
    trial: Trial, subject: Subject, stage: Callable[[str], None]
) -> tuple[Tensors, dict[str, Any]]:
    """The answer of the kernel that is prepared for the inputs, and the row's fields so far."""
    place, inputs = trial.bench.place, subject.inputs
    outputs = trial.kernel.operation.layout(
        trial.kernel.operation.outputs, trial.shape, trial.dtype
    )
    stage("compiling")
    if trial.backend == "interpreter":  # it compiles nothing, so its first call is the judged one
        poison(outputs, place.torch_device)
    began = clock.now_s()
    with recorded() as launches:
        subject.call = trial.kernel.prepare(*inputs)
        answer = subject.call(*inputs)
        if place.device.kind == "cuda":
            clock.synchronize()
    fields: dict[str, Any] = {"compile_s": clock.now_s() - began, **launches.fields()}
    stage("sampling")
    if trial.backend != "interpreter":
        del answer
        subject.restore()
        poison(outputs, place.torch_device)
        answer, fields["peak_bytes"] = with_peak(lambda: subject.call(*inputs), place.device.kind)
    return answer, fields


def _timed(
    trial: Trial, subject: Subject, protocol: Protocol, first: Sequence[torch.Tensor]
) -> dict[str, Any]:
    """The fields of a row that is timed, or why its answers or its time are none."""
    bench = trial.bench
    before, began = bench.monitor.read(), clock.now_s()
    timer = import_module(f"experiments.worker.timers.{protocol.timer}")
    sampling: Sampling = timer.sample(subject, protocol)
    sampling_s = clock.now_s() - began
    after = bench.monitor.read()
    middle = median(sampling.samples_us)
    verdict = trial.judge_timed(subject, sampling.timed, first)
    if verdict.reason is not None:
        return _judged(verdict) | {"reason": f"after timing: {verdict.reason}"}
    left_us = unfinished_us(subject) if protocol.timer == "events" else 0.0
    slowed = {*(before.throttled or []), *(after.throttled or [])}
    others = [n for n in (before.other_processes, after.other_processes) if n is not None]
    fields = _judged(verdict) | asdict(after) | {
        "timer": protocol.timer,
        "cache": protocol.cache,
        "sampling_s": sampling_s,
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
    if left_us > UNFINISHED[0] * middle.value + UNFINISHED[1]:
        reason = (
            f"by events a call takes {middle.value:.3g} µs, but the card works for {left_us:.3g} "
            "µs after it has returned"
        )
        fields |= {"status": "implausible", "reason": reason}
    return fields


def unfinished_us(subject: Subject) -> float:
    """How long all of the card works after a call has returned, the shortest of three.

    It cannot be longer than the call takes there, unless events did not see all of its work.
    """
    left = []
    for _ in range(3):
        subject.before()
        clock.synchronize()
        subject.call(*subject.inputs)
        returned = clock.now_s()
        clock.synchronize()
        left.append(1e6 * (clock.now_s() - returned))
    return min(left)


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
