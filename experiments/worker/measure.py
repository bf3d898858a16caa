"""Measures one point: makes inputs, compiles, checks answers, times, checks answers again."""

import gc
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from experiments.data.errors import anonymous
from experiments.data.statistics import median
from experiments.worker import clock, outside
from experiments.worker.describe import build_kernel
from experiments.worker.gate import CheckResult, fingerprints
from experiments.worker.inputs import Values, select_rows
from experiments.worker.machine import card_state
from experiments.worker.timers import CannotTime, Protocol, Sampling, Subject, TimedCall, copied
from experiments.worker.trial import Ask, Equipment, Trial
from kernels.kernel import NotCompiled, Tensors, as_tuple

COMPILERS = (
    *("triton.compiler", "triton.runtime.errors"),
    *("torch._dynamo", "torch._inductor", "cutlass"),
)
NO_MEMORY = "can't allocate memory"  # in PyTorch's message on a CPU
# (factor, µs): after a call has returned, the card may be busy for factor × the time by events plus
# these µs, which a synchronization takes. If it is busy longer, the events missed work of the call.
UNFINISHED = 1.25, 50.0
FURTHER_CALLS = 5  # on the same inputs, to see whether they give the same bits

Announce = Callable[[str], None]  # tells the parent the stage that begins
Launch = tuple[int, Any]  # number of programs, and the compiled kernel (None if interpreted)


def measure(
    point: dict[str, Any], equipment: Equipment, announce: Announce, ask: Ask | None = None
) -> dict[str, Any]:
    """Measures a point and returns the row's outcome fields; an error becomes their ``status``.

    A kernel that changes what others use, such as a clock or the number of threads, gets no time.
    ``sticky`` is true in that case, and if the CUDA context is lost: the parent must then replace
    this worker.

    Args:
        point: ``kernel`` (configuration), ``rows``, ``cols``, ``dtype``, ``timing``, ``seed``,
            ``determinism``, ``workers`` (how many of the sweep's are on this card), and ``range``:
            if not empty, a profiler range to call the kernel in.
        equipment: What this worker keeps between points.
        announce: Called with ``"compiling"`` and ``"sampling"`` as each begins; each has a limit.
        ask: Has another process check the answers of a kernel from outside.
    """
    file, state = point["kernel"].get("file"), clock.state()
    on_card = equipment.machine.device.kind == "cuda"
    try:
        if point.get("range"):
            outcome = _profiled(point, equipment)
        else:
            outcome = _measure(point, equipment, announce, ask if file is not None else None)
    except (Exception, SystemExit) as error:  # a kernel may call sys.exit
        outcome = {"status": _status(error), "reason": anonymous(error), "sticky": False}
        if file is not None and (line := outside.line_of(error, Path(file))):
            outcome["reason"] = f"{Path(file).name}{line}: {outcome['reason']}"
        try:
            if on_card:
                clock.synchronize()
        except Exception:  # the context is lost, as after an illegal access
            outcome["sticky"] = True
    if on_card and not outcome.get("sticky"):
        gc.collect(0)
        torch.cuda.empty_cache()  # a large point may need in one piece what the allocator keeps
    if changed := clock.changes(state):
        outcome = {"status": "implausible", "reason": f"changed {changed}, which others use"}
        outcome["sticky"] = True
    return outcome


def _status(error: BaseException) -> str:
    """The status of a point that raised this error."""
    if isinstance(error, CannotTime):
        return "unsupported"
    if isinstance(error, MemoryError | torch.OutOfMemoryError) or NO_MEMORY in str(error):
        return "out_of_memory"
    if isinstance(error, NotCompiled) or type(error).__module__.startswith(COMPILERS):
        return "compile_error"
    return "launch_error"


def _profiled(point: dict[str, Any], equipment: Equipment) -> dict[str, Any]:
    """Calls the kernel once, flushes, and calls it again in a profiler range; returns a status."""
    kernel = build_kernel(point["kernel"])
    dtype: torch.dtype = getattr(torch, point["dtype"])
    values = Values((point["rows"], point["cols"]), dtype, point["seed"])
    inputs = values.make(kernel.operation, equipment.machine.torch_device)
    call = kernel.prepare(*inputs)
    call(*inputs)
    equipment.flush()
    torch.cuda.synchronize()  # so that nothing else runs inside the range, nor at its end
    with torch.cuda.nvtx.range("{}", point["range"]), torch.cuda.profiler.profile():
        call(*inputs)
        torch.cuda.synchronize()
    return {"status": "ok"}


def _measure(
    point: dict[str, Any], equipment: Equipment, announce: Announce, ask: Ask | None
) -> dict[str, Any]:
    """Compiles, checks and times a point, and returns its outcome; raises what a kernel raises."""
    timing, device = dict(point["timing"]), equipment.machine.device
    if timing["timer"] == "auto":
        timing["timer"] = "events" if device.kind == "cuda" else "host"
    protocol = Protocol.model_construct(**timing)  # the parent has validated it
    kernel = build_kernel(point["kernel"])
    dtype: torch.dtype = getattr(torch, point["dtype"])
    values = Values((point["rows"], point["cols"]), dtype, point["seed"])
    announce("sampling")
    trial = Trial(kernel, values, equipment, protocol.cache == "cold", ask)
    subject = trial.subject
    answer, fields = _first_calls(trial, announce)
    result = trial.check_answers([TimedCall(subject.originals, answer)])
    if result.reason is not None:
        return fields | _status_fields(result)
    if subject.overwritten is not None:
        answer = copied(answer)
    if point.get("determinism"):
        announce("compiling")  # for other numbers of rows
        fields |= _same_bits(trial, answer)
        announce("sampling")
    again = trial.check_changed(answer)
    if again.reason is not None or trial.backend == "interpreter":
        return fields | _status_fields(result if again.reason is None else again)
    del answer
    subject.changing = trial.changing
    return fields | _timed(trial, protocol, point["workers"])


def _first_calls(trial: Trial, announce: Announce) -> tuple[Tensors, dict[str, Any]]:
    """Compiles the kernel by a call; returns the answer of the next call, and fields of the row."""
    subject, interpreted = trial.subject, trial.backend == "interpreter"
    on_card = subject.inputs[0].is_cuda
    announce("compiling")
    if interpreted:  # it compiles nothing, so the answer of its first call is returned
        _poison(trial)
    with recorded_launches() as launches:
        began = clock.now_s()
        subject.call = trial.kernel.prepare(*subject.inputs)
        answer = subject.call(*subject.inputs)
        if on_card:
            clock.synchronize()
        fields: dict[str, Any] = {"compile_s": clock.now_s() - began}
    fields |= fields_of(launches)
    trial.backend = fields.get("backend", trial.backend)  # an outside function may use Triton
    announce("sampling")
    if interpreted:
        return answer, fields
    del answer
    subject.restore()
    _poison(trial)
    before = 0
    if on_card:
        clock.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    answer = subject.call(*subject.inputs)
    if on_card:  # the memory that the call took beyond its inputs; outputs are included
        clock.synchronize()
    fields["peak_bytes"] = torch.cuda.max_memory_allocated() - before if on_card else None
    return answer, fields


def fields_of(launches: Sequence[Launch]) -> dict[str, Any]:
    """The row's launch fields, from the launch with the most programs; {} if there is no launch.

    A launch under the interpreter gives only ``backend``.
    """
    if not launches:
        return {}
    programs, kernel = max(launches, key=lambda launch: launch[0])
    if kernel is None:
        return {"backend": "interpreter"}
    metadata = getattr(kernel, "metadata", None)
    return {
        "programs": programs,
        "warps": getattr(metadata, "num_warps", None),
        "registers": getattr(kernel, "n_regs", None),
        "shared_bytes": getattr(metadata, "shared", None),
        "spills": getattr(kernel, "n_spills", None),
    }


@contextmanager
def recorded_launches() -> Iterator[list[Launch]]:
    """Yields a list that gets every Triton launch inside the block, also of libraries.

    Triton's launch hooks do not give the grid, so ``run`` is wrapped inside the block. So is
    ``CompiledKernel[grid]``, by which libraries launch kernels that they compiled earlier.
    """
    launches: list[Launch] = []
    try:
        from triton.compiler import CompiledKernel
        from triton.runtime.interpreter import InterpretedFunction
        from triton.runtime.jit import JITFunction
    except ImportError:
        yield launches
        return
    original, kept = JITFunction.run, CompiledKernel.__getitem__
    interpreted = InterpretedFunction.run

    def run(self: Any, *arguments: Any, grid: Any, warmup: bool, **options: Any) -> Any:
        sizes: list[int] = []

        def noted(meta: Any) -> tuple[int, ...]:
            sizes[:] = grid(meta) if callable(grid) else grid
            return tuple(sizes)

        kernel = original(self, *arguments, grid=noted, warmup=warmup, **options)
        if not warmup and kernel is not None:
            launches.append((math.prod(sizes), kernel))
        return kernel

    def interpret(self: Any, *arguments: Any, **options: Any) -> Any:
        launches.append((0, None))
        return interpreted(self, *arguments, **options)

    def by_grid(self: Any, grid: Any) -> Any:
        launches.append((math.prod(grid), self))
        return kept(self, grid)

    with (
        patch.object(JITFunction, "run", run),
        patch.object(InterpretedFunction, "run", interpret),
        patch.object(CompiledKernel, "__getitem__", by_grid),
    ):
        yield launches


def _poison(trial: Trial) -> None:
    """Writes NaN, or −77, to memory that the next outputs may get: no old answer is left there."""
    operation, values = trial.kernel.operation, trial.values
    device, held = trial.equipment.machine.torch_device, []
    for shape, dtype in operation.layout(operation.outputs, values.shape, values.dtype):
        value = torch.nan if dtype.is_floating_point else -77
        held.append(torch.full(shape, value, dtype=dtype, device=device))


def _same_bits(trial: Trial, answer: Tensors) -> dict[str, bool | None]:
    """The row's ``deterministic`` and ``batch_invariant``; no call may overwrite ``answer``."""
    kernel, subject, first = trial.kernel, trial.subject, fingerprints(answer)
    inputs = subject.inputs
    same, alike = True, []
    for _ in range(FURTHER_CALLS):
        subject.before()
        same &= fingerprints(subject.call(*inputs)) == first
    subject.restore()
    # call it on some of the rows, for which it may choose another launch; None if none is supported
    rows = as_tuple(answer)[0].shape[0]
    half = range(rows // 4, rows // 4 + rows // 2)
    for part in (range(1), range(rows - min(8, rows - 1), rows), half):
        if not 0 < len(part) < rows:
            continue
        some = tuple(x.clone() for x in select_rows(kernel.operation, inputs, part))
        shape, dtype = kernel.operation.point_of(some)
        if kernel.unsupported(shape, dtype, trial.equipment.machine.device) is None:
            among = fingerprints(tuple(y[[*part]] for y in as_tuple(answer)))
            alike.append(fingerprints(kernel.prepare(*some)(*some)) == among)
    return {"deterministic": same, "batch_invariant": same and all(alike) if alike else None}


def _status_fields(result: CheckResult) -> dict[str, Any]:
    return {"status": "ok" if result.reason is None else "incorrect", **asdict(result)}


def _timed(trial: Trial, protocol: Protocol, workers: int) -> dict[str, Any]:
    """Times a point; returns the row's fields, or the status and reason of a refused answer."""
    subject = trial.subject
    card = trial.equipment.machine.card
    before, began = card_state(card, workers), clock.now_s()
    timer = import_module(f"experiments.worker.timers.{protocol.timer}")
    sampling: Sampling = timer.sample(subject, protocol)
    sampling_s = clock.now_s() - began
    after = card_state(card, workers)
    middle = median(sampling.samples_us)
    result = trial.check_answers(sampling.timed)
    if result.reason is not None:
        return _status_fields(result) | {"reason": f"after timing: {result.reason}"}
    left_us = _unfinished_us(subject) if protocol.timer == "events" else 0.0
    slowed = {*(before["throttled"] or []), *(after["throttled"] or [])}
    others = [one["other_processes"] for one in (before, after)]
    fields = _status_fields(result) | after | {
        "timer": protocol.timer,
        "cache": protocol.cache,
        "sampling_s": sampling_s,
        "samples_us": [round(sample, 4) for sample in sampling.samples_us],
        "time_us": middle.value,
        "time_low_us": middle.low,
        "time_high_us": middle.high,
        "late": sampling.late,
        "stop_reason": sampling.stop_reason,
        "throttled": None if after["throttled"] is None else sorted(slowed),
        "sm_clock_before_mhz": before["sm_clock_mhz"],
        "temperature_before_c": before["temperature_c"],
        "other_processes": max((n for n in others if n is not None), default=None),
    }  # fmt: skip
    if left_us > UNFINISHED[0] * middle.value + UNFINISHED[1]:
        reason = (
            f"by events a call takes {middle.value:.3g} µs, but the card works for {left_us:.3g} "
            "µs after it has returned"
        )
        fields |= {"status": "implausible", "reason": reason}
    return fields


def _unfinished_us(subject: Subject) -> float:
    """The µs that the whole card is busy after a call has returned, the least of three calls."""
    left = []
    for _ in range(3):
        subject.before()
        clock.synchronize()
        subject.call(*subject.inputs)
        returned = clock.now_s()
        clock.synchronize()
        left.append(1e6 * (clock.now_s() - returned))
    return min(left)
