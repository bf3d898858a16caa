"""Prepares a point: its kernel, its inputs, the cache flush, and the checks of its answers."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from itertools import cycle, islice
from typing import Any

import torch

from experiments.worker import outside
from experiments.worker.describe import backend
from experiments.worker.gate import CheckResult, check, defect, fingerprints, storages, tolerance
from experiments.worker.inputs import HARD_TOLERANCE, ChangingRows, Inputs, Values
from experiments.worker.machine import Machine, require_memory
from experiments.worker.timers import Subject, TimedCall
from kernels.kernel import Kernel, Operation, Tensors, as_tuple
from kernels.language import jit, tl

Ask = Callable[[str], dict[str, Any]]  # has another process run `check_file` on this path
FLUSH_BLOCK = 8192  # elements that one Triton program of the flush reads
INPUT_CHANGED = CheckResult("changed its input, so that its answer cannot be checked")


class Flush:
    """Evicts everything from the device's last-level cache by reading a buffer of twice its size.

    It reads and never writes: dirty lines of the flush would be written back during the timed
    kernel. On an H200 a plain read leaves in L2 about a third of 8 MB that were loaded with
    `evict_last`. So a read with `evict_last` comes first and evicts them, and a plain read evicts
    its lines in turn (tests/experiments/test_gpu.py).
    """

    def __init__(self, device: str, cache_bytes: int) -> None:
        elements = 2 * cache_bytes // 4
        # written once: on a CPU all untouched pages map to one page, so reading flushes nothing
        self._buffer = torch.ones(elements, dtype=torch.float32, device=device)
        self._sink = torch.empty((), dtype=torch.float32, device=device)

    def __call__(self) -> None:
        """Reads the whole buffer; on CUDA it only enqueues the reads."""
        x = self._buffer
        if x.is_cuda and tl is not None:
            _touch[((x.numel() + FLUSH_BLOCK - 1) // FLUSH_BLOCK,)](x, x.numel(), BLOCK=FLUSH_BLOCK)
        torch.amax(x, dim=0, out=self._sink)


@jit  # loads positive float32 numbers, with the hint to keep their lines in L2
def _touch(x: tl.tensor, elements: tl.tensor, BLOCK: tl.constexpr) -> None:
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < elements
    total = tl.sum(tl.load(x + at, inside, 0.0, eviction_policy="evict_last"))
    tl.store(x, total, total < 0)  # never true; without it the compiler would drop the load


class Equipment:
    """What a worker keeps between points: the machine, the flush, results of the gate."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.flush = Flush(machine.torch_device, machine.device.l2_bytes or 32 << 20)
        self._passed: dict[Any, CheckResult] = {}  # by operation, inputs and answer

    def check_once(
        self, answers: Inputs, given: Inputs, operation: Operation, backend: str, values: Values
    ) -> CheckResult:
        """Checks an answer for the inputs ``given``, which are made by the recipe ``values``.

        An answer with the same bits as one that passed for the same inputs is not compared again,
        whichever kernel gave it.
        """
        found = [(tuple(y.shape), y.dtype, tolerance(operation, y, backend)) for y in answers]
        key = operation, values, *found, fingerprints(answers)
        if key not in self._passed:
            factor = 1 if values.hard is None else HARD_TOLERANCE
            result = check(answers, given, operation, backend, factor)
            if result.reason is not None:
                return result
            self._passed[key] = result
        return self._passed[key]


def check_file(path: str, equipment: Equipment) -> dict[str, Any]:
    """Checks another process's answer; returns the fields of its `CheckResult`.

    `Trial` wrote the answer to this file, with the recipe by which the inputs are made anew here.
    """
    device = equipment.machine.torch_device
    asked = torch.load(path, map_location=device, weights_only=True)
    values, operation = Values(**asked["values"]), outside.operation_named(asked["operation"])
    given, backend = values.make(operation, device), asked["backend"]
    return asdict(equipment.check_once(asked["answers"], given, operation, backend, values))


class Trial:
    """One point during its measurement: its kernel, its inputs, and the checks of its answers."""

    def __init__(
        self, kernel: Kernel, values: Values, equipment: Equipment, cold: bool, ask: Ask | None
    ) -> None:
        """Makes the inputs by the recipe ``values``.

        ``cold``: flush before each sample. ``ask``: have answers checked in another process, which
        does not import the kernel. Raises `MemoryError` if the host has too little memory.
        """
        device, operation = equipment.machine.device, kernel.operation
        self.kernel, self.backend, self.values = kernel, backend(kernel, device), values
        self.equipment, self._ask = equipment, ask
        self._seeds = seeds = dict[tuple[int, ...], int]()  # by the fingerprints of the inputs made

        # not a method: `Subject` keeps it, and a reference cycle would keep the memory of the point
        def make(index: int) -> Inputs:
            own = replace(values, seed=values.seed + index)
            inputs = own.make(operation, equipment.machine.torch_device)
            seeds[fingerprints(inputs)] = own.seed
            return inputs

        sizes = operation.sizes(values.shape)
        moved = operation.compulsory.bytes(sizes, values.dtype.itemsize)
        if device.kind == "cpu":
            require_memory(moved)
        inputs = make(0)
        pairs = zip(operation.inputs, inputs, strict=True)
        originals = tuple(x.clone() if a.name == kernel.overwrites else x for a, x in pairs)
        flush, cache_bytes = equipment.flush if cold else None, device.l2_bytes or 0
        # its ``call`` is replaced as soon as the kernel has been prepared for the inputs
        self.subject = Subject(kernel, inputs, make, flush, cache_bytes, moved, originals)
        self.changing = ChangingRows(operation, originals, values)
        self.first_rows: list[torch.Tensor] = []  # of each output of the first answer, those rows

    def check_answers(self, answers: Sequence[TimedCall]) -> CheckResult:
        """The first result that refuses an answer, else the last; all input rows get own values.

        Rows of an answer whose input rows held other values are checked by themselves. Then the
        same rows of the first answer replace them, so that the whole has the bits of an answer that
        passed, and need not be compared again.
        """
        if not self.changing.intact():
            return INPUT_CHANGED
        self.changing.hold(())
        for one in answers:
            if not isinstance(one.answer, torch.Tensor | tuple | list):
                return CheckResult(f"returned a {type(one.answer).__name__}, not a torch.Tensor")
            answer = as_tuple(one.answer)
            reason = defect(answer, one.inputs, self.kernel.operation)
            if reason is not None:
                return CheckResult(reason)
            rows, indices = [self.changing.rows[i] for i in one.held], [*one.held]
            changed = tuple(y[rows] for y in answer)
            if rows:
                result = self._check_or_ask(changed, *self.changing.others_of(indices))
                if result.reason is not None:
                    return result
                for y, own in zip(answer, self.first_rows, strict=True):
                    y[rows] = own[indices]
            seed = self._seeds.get(fingerprints(one.inputs))
            if seed is None:
                return INPUT_CHANGED
            result = self._check_or_ask(answer, one.inputs, replace(self.values, seed=seed))
            if result.reason is not None:
                return result
            for y, own in zip(answer, changed, strict=True):
                y[rows] = own  # the kernel may keep this memory: leave in it what it wrote
        return result

    def _check_or_ask(self, answers: Inputs, given: Inputs, values: Values) -> CheckResult:
        """Checks an answer or rows of one, here or by ``ask``; ``values`` makes ``given``."""
        operation = self.kernel.operation
        ours = outside.operations().get(operation.name)
        if self._ask is None or ours is not operation:  # only our operations exist elsewhere
            return self.equipment.check_once(answers, given, operation, self.backend, values)
        question = {"operation": operation.name, "backend": self.backend, "values": asdict(values)}
        copies = tuple(y.detach().to("cpu", copy=True) for y in answers)
        with tempfile.NamedTemporaryFile() as file:
            torch.save(question | {"answers": copies}, file)
            file.flush()
            return CheckResult(**self._ask(file.name))

    def check_changed(self, answer: Tensors) -> CheckResult:
        """Calls the kernel with some rows changed, and checks its answers.

        ``answer`` is the first answer, which passed. If the operation has logits, the other values
        are `hard`: as many kinds in a call as rows can change. All other rows of an answer must
        stay right.
        """
        subject, changing = self.subject, self.changing
        kinds = next(iter(self.kernel.operation.logits.values()), ())
        self.first_rows = [y[changing.rows].clone() for y in as_tuple(answer)]
        result = CheckResult(None)
        for start in range(0, max(len(kinds), 1), len(changing.rows)) if changing.rows else ():
            some = tuple(islice(cycle(kinds), start, start + len(changing.rows)))
            changing.renew_others(some or None)
            changing.hold(range(len(changing.rows)))
            subject.restore()
            again = as_tuple(subject.call(*subject.inputs))
            if subject.overwritten is None and storages(again) & storages(as_tuple(answer)):
                return CheckResult(
                    "returned the memory of its earlier answer, which is still in use"
                )
            result = self.check_answers([TimedCall(subject.originals, again, changing.held)])
            if result.reason is not None:
                what = f"rows that are {', '.join(dict.fromkeys(some))}" if some else "other values"
                return CheckResult(f"of {what}: {result.reason}")
        changing.renew_others()
        subject.restore()
        return result
