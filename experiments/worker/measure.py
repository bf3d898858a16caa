"""One point, from input to row: inputs → compile → gate → timing → gate again."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
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
from experiments.worker.flush import Flush
from experiments.worker.gate import (
    Passed,
    Prints,
    Verdict,
    check,
    fingerprints,
    malformed,
    memory,
)
from experiments.worker.handover import handed_over, taken_over
from experiments.worker.inputs import (
    HARD_TOLERANCE,
    ROWS,
    Changing,
    Inputs,
    Values,
    rows_of,
)
from experiments.worker.launches import recorded
from experiments.worker.machine import Monitor, require
from experiments.worker.place import Place
from experiments.worker.timers import CannotTime, Protocol, Sampling, Subject, Timed, copied
from kernels.kernel import Kernel, NotCompiled, Shape, Tensors, as_tuple

COMPILERS = (
    *("triton.compiler", "triton.runtime.errors"),
    *("torch._dynamo", "torch._inductor", "cutlass"),
)

Ask = Callable[[dict[str, Any]], dict[str, Any]]  # a question of `judge` to its verdict
OK = Verdict(None)
CHANGED = Verdict("changed its input, so that its answer cannot be compared with any")
# What the card may do after a call has returned: more than the call's time by events, for this
# share, and so many µs that waiting itself takes.
UNFINISHED = 1.25, 50.0


class Bench:
    """What a worker keeps between points.

    Its place, the flush buffer, the card's monitor, and the answers that passed the gate.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self.monitor = Monitor(place.serial)
        self.flush = Flush(place.torch_device, place.device.l2_bytes or 32 << 20)
        self.passed: Passed = {}


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


@dataclass
class Trial:
    """One point on its way to a row: its kernel, its inputs, and how answers are judged.

    Attributes:
        kernel: The kernel.
        backend: As rows spell it.
        shape: Rows and columns.
        dtype: The point's.
        seed: Of the inputs.
        bench: The worker's own equipment.
        ask: Has a process judge that never imports the kernel; None judges here.
        made: The seed of all inputs, by their fingerprints as they were made.
    """

    kernel: Kernel
    backend: str
    shape: Shape
    dtype: torch.dtype
    seed: int
    bench: Bench
    ask: Ask | None = None
    made: dict[Prints, int] = field(default_factory=dict)

    def make(self, index: int) -> Inputs:
        """The i-th inputs of the point; a timer may call the kernel on copies of them."""
        device = self.bench.place.torch_device
        seed = self.seed + index
        inputs = self.kernel.operation.make_inputs(self.shape, self.dtype, device, seed)
        self.made[fingerprints(inputs)] = seed
        return inputs

    def judge(self, answer: Tensors, asked: Inputs) -> Verdict:
        """Judges an answer for inputs as they were made."""
        prints = fingerprints(asked)
        if prints not in self.made:
            return CHANGED
        return self._compare(answer, asked, Values(self.shape, self.made[prints]), 1, prints)

    def judge_rows(
        self, answer: Sequence[torch.Tensor], rows: Sequence[int], given: Inputs, values: Values
    ) -> Verdict:
        """Judges some rows of an answer for what they were given."""
        factor = 1 if values.hard is None else HARD_TOLERANCE
        return self._compare(tuple(y[list(rows)] for y in answer), given, values, factor)

    def judge_again(self, subject: Subject, answer: Tensors) -> Verdict:
        """Calls the kernel once more, on some other values, while it must keep its first answer.

        The other values are `hard` ones where the operation has logits, some at a time where the
        matrix has few rows. Rows beside them are judged too: they may not depend on each other.
        """
        changing, operation = subject.changing, self.kernel.operation
        assert changing is not None
        held, rows = memory(as_tuple(answer)), changing.rows
        others = (row for row in range(len(as_tuple(answer)[0])) if row not in rows)
        beside = list(islice(others, len(rows)))
        kinds = next(iter(operation.logits.values()), ())
        for first in range(0, max(len(kinds), 1), len(rows)) if rows else ():
            hard = tuple(islice(cycle(kinds), first, first + len(rows)))
            changing.hold_others(hard or None)
            changing.change_all()
            subject.restore()
            asked = subject.asked(subject.inputs)
            again = as_tuple(subject.call(*subject.inputs))
            reason = malformed(again, asked, operation)
            if reason is None and subject.overwritten is None and memory(again) & held:
                reason = "returned the memory of its earlier answer, which is still in use"
            if reason is None and not changing.intact():
                return CHANGED
            if reason is not None:
                return Verdict(reason)
            verdict = self.judge_rows(again, rows, *changing.given(range(len(rows))))
            if verdict.reason is None and beside:
                own = Values(self.shape, self.seed, tuple(beside))
                verdict = self.judge_rows(again, beside, rows_of(operation, asked, beside), own)
            if verdict.reason is not None:
                return replace(verdict, reason=f"of inputs that are not normal {verdict.reason}")
        return OK

    def judge_timed(
        self, subject: Subject, timed: Sequence[Timed], first: Sequence[torch.Tensor]
    ) -> Verdict:
        """Judges answers of timed calls, in which some rows had other values.

        These rows are judged for what they held. Then they get those of the ``first`` answer, which
        passed: an answer that is now the same as a whole need not be computed with again.
        """
        changing, verdict = subject.changing, OK
        assert changing is not None
        if not changing.intact():
            return CHANGED
        changing.restore()
        for one in timed:
            answer = as_tuple(one.answer)
            if one.held:
                reason = malformed(answer, one.inputs, self.kernel.operation)
                if reason is not None:
                    return Verdict(reason)
                rows = [changing.rows[place] for place in one.held]
                verdict = self.judge_rows(answer, rows, *changing.given(one.held))
                if verdict.reason is not None:
                    return verdict
                for y, own in zip(answer, first, strict=True):
                    y[rows] = own[list(one.held)]
            verdict = self.judge(answer, one.inputs)
            if verdict.reason is not None:
                return verdict
        return verdict

    def _compare(
        self, answer: Tensors, given: Inputs, values: Values, factor: float, asked: Prints = ()
    ) -> Verdict:
        operation = self.kernel.operation
        if self.ask is not None and outside.is_ours(operation):
            reason = malformed(as_tuple(answer), given, operation)
            if reason is not None:
                return Verdict(reason)
            question = {"operation": operation.name, "backend": self.backend, "factor": factor}
            question |= {"dtype": str(self.dtype).removeprefix("torch."), "values": asdict(values)}
            with handed_over(as_tuple(answer)) as answers:
                return Verdict(**self.ask(question | {"answers": answers}))
        passed = self.bench.passed if asked else None
        return check(answer, given, operation, self.backend, asked, passed, factor)


def judge(question: dict[str, Any], bench: Bench) -> dict[str, Any]:
    """The verdict on an answer that another process was given, for inputs that are made here.

    Args:
        question: As `Trial` asks it of the process that never imports the kernel.
        bench: This worker's equipment.
    """
    device, asked = bench.place.torch_device, question["values"]
    shape, rows, hard = (asked[k] and tuple(asked[k]) for k in ("shape", "rows", "hard"))
    values = Values(shape, asked["seed"], rows, asked["other"], hard)
    operation, dtype = (
        outside.operation_named(question["operation"]),
        torch_dtype(question["dtype"]),
    )
    given, answers = values.make(operation, dtype, device), taken_over(question["answers"], device)
    passed = bench.passed if rows is None else None
    verdict = check(
        answers, given, operation, question["backend"], None, passed, question["factor"]
    )
    return asdict(verdict)


def _measure(
    point: dict[str, Any], bench: Bench, stage: Callable[[str], None], ask: Ask | None
) -> dict[str, Any]:
    protocol = _protocol(point["timing"], bench.place)
    kernel, dtype = build_kernel(point["kernel"]), torch_dtype(point["dtype"])
    name, shape = backend(kernel, bench.place.device), (point["rows"], point["cols"])
    trial = Trial(kernel, name, shape, dtype, point["seed"], bench, ask)
    stage("sampling")
    subject, answer, fields = _prepared(trial, protocol, stage)
    verdict = trial.judge(answer, subject.asked(subject.inputs))
    if subject.overwritten is not None:
        answer = copied(answer)
    if verdict.reason is None and point.get("determinism"):
        stage("compiling")  # for other numbers of rows
        fields |= judge_determinism(kernel, subject, answer, bench.place.device)
        stage("sampling")
    if verdict.reason is not None:
        return fields | _judged(verdict)
    if name == "interpreter":
        trial, subject, answer = _few_rows(trial, subject, answer)
    subject.changing = changing = Changing(
        kernel.operation, subject.asked(subject.inputs), trial.shape, trial.seed
    )
    first = [y[changing.rows].clone() for y in as_tuple(answer)]
    again = trial.judge_again(subject, answer)
    if name == "interpreter" or again.reason is not None:
        return fields | _judged(verdict if again.reason is None else again)
    del answer
    changing.hold_others()
    subject.restore()
    return fields | _timed(trial, subject, protocol, first)


def _prepared(
    trial: Trial, protocol: Protocol, stage: Callable[[str], None]
) -> tuple[Subject, Tensors, dict[str, Any]]:
    """A kernel compiled for its inputs, its answer for them, and the row's fields so far."""
    kernel, place = trial.kernel, trial.bench.place
    operation, device = kernel.operation, place.device
    moved = operation.compulsory.bytes(operation.sizes(trial.shape), trial.dtype.itemsize)
    if device.kind == "cpu":
        require(moved)
    inputs = trial.make(0)
    outputs = operation.layout(operation.outputs, trial.shape, trial.dtype)
    names = [array.name for array in operation.inputs]
    over = None if kernel.overwrites is None else names.index(kernel.overwrites)
    original = None if over is None else inputs[over].clone()
    stage("compiling")
    if trial.backend == "interpreter":  # it compiles nothing, so its first call is the judged one
        poison(outputs, place.torch_device)
    began = clock.now_s()
    with recorded() as launches:
        call = kernel.prepare(*inputs)
        answer = call(*inputs)
        if device.kind == "cuda":
            clock.synchronize()
    fields: dict[str, Any] = {"compile_s": clock.now_s() - began, **launches.fields()}
    stage("sampling")
    flush = trial.bench.flush if protocol.cache == "cold" else None
    subject = Subject(call, inputs, trial.make, flush, device.l2_bytes or 0, moved, over, original)
    if trial.backend != "interpreter":
        del answer
        subject.restore()
        poison(outputs, place.torch_device)
        answer, fields["peak_bytes"] = with_peak(lambda: call(*inputs), device.kind)
    return subject, answer, fields


def _few_rows(trial: Trial, subject: Subject, answer: Tensors) -> tuple[Trial, Subject, Tensors]:
    """The same of fewer rows, where Triton's interpreter would take long for a second call."""
    few = (2 * ROWS, *trial.shape[1:])
    device = trial.bench.place.device
    if trial.shape[0] <= few[0] or trial.kernel.unsupported(few, trial.dtype, device) is not None:
        return trial, subject, answer
    trial = replace(trial, shape=few, made={})
    inputs, over = trial.make(0), subject.overwritten
    call, original = trial.kernel.prepare(*inputs), None if over is None else inputs[over].clone()
    answer = call(*inputs)
    return trial, replace(subject, call=call, inputs=inputs, original=original), answer


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
