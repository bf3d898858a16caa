"""A point's kernel, its inputs and the check of its answers, here or in another process."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from itertools import cycle, islice
from typing import Any

import torch

from experiments.worker import outside
from experiments.worker.describe import backend
from experiments.worker.gate import CheckResult, check, fingerprints, malformed, memory, tolerance
from experiments.worker.inputs import HARD_TOLERANCE, Changing, Inputs, Values
from experiments.worker.machine import Machine, require_memory
from experiments.worker.timers import Subject, Timed
from kernels.kernel import Kernel, Operation, Tensors, as_tuple
from kernels.language import jit, tl

Ask = Callable[[str], dict[str, Any]]  # takes a question's file, returns the result of `check_file`
FLUSH_BLOCK = 8192  # elements a program of the flush touches
INPUT_CHANGED = CheckResult("changed its input, so that its answer cannot be checked")


class Flush:
    """Empties the device's last-level cache by reading a clean buffer of twice its size.

    L2 is emptied of the timed buffers by reading others, never by writing: a flush that writes
    leaves its own dirty lines, which the timed kernel then has to write back. On an H200 a plain
    read leaves about a third of 8 MB that were loaded with `evict_last`. A read with `evict_last`
    drives them out, and the plain one after it replaces its lines (tests/experiments/test_gpu.py).
    """

    def __init__(self, device: str, cache_bytes: int) -> None:
        elements = 2 * cache_bytes // 4
        # on a CPU, pages that were never written all map to one, and reading them flushes nothing
        self._buffer = torch.ones(elements, dtype=torch.float32, device=device)
        self._sink = torch.empty((), dtype=torch.float32, device=device)

    def __call__(self) -> None:
        """Reads the whole buffer; on CUDA it is only enqueued."""
        x = self._buffer
        if x.is_cuda and tl is not None:
            _touch[((x.numel() + FLUSH_BLOCK - 1) // FLUSH_BLOCK,)](x, x.numel(), BLOCK=FLUSH_BLOCK)
        torch.amax(x, dim=0, out=self._sink)


@jit  # loads float32 numbers above zero, with the hint to keep their lines in L2
def _touch(x: tl.tensor, elements: tl.tensor, BLOCK: tl.constexpr) -> None:
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < elements
    total = tl.sum(tl.load(x + at, inside, 0.0, eviction_policy="evict_last"))
    tl.store(x, total, total < 0)  # never true; without it the compiler would drop the load


class Equipment:
    """What a worker keeps between points: machine, flush, answers that passed."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.flush = Flush(machine.torch_device, machine.device.l2_bytes or 32 << 20)
        self._passed: dict[Any, CheckResult] = {}

    def check_once(
        self, answers: Inputs, given: Inputs, operation: Operation, backend: str, values: Values
    ) -> CheckResult:
        """Checks an answer for inputs that were made as ``values`` says.

        An answer that equals, bit for bit, one that passed before for the same inputs is not
        compared again, whichever kernel gave it.
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
    """Checks an answer that another process got, for inputs that are made in this one.

    The file has the answer and its `Values`, as `Trial` writes it.
    """
    device = equipment.machine.torch_device
    asked = torch.load(path, map_location=device, weights_only=True)
    values, operation = Values(**asked["values"]), outside.operation_named(asked["operation"])
    given, backend = values.make(operation, device), asked["backend"]
    return asdict(equipment.check_once(asked["answers"], given, operation, backend, values))


class Trial:
    """One point on its way to a row: its kernel, its inputs, and how answers are checked."""

    def __init__(
        self, kernel: Kernel, values: Values, equipment: Equipment, cold: bool, ask: Ask | None
    ) -> None:
        """Makes the inputs. ``ask``, if any, has answers checked where the kernel is not imported.

        Raises:
            MemoryError: the host has too little for them.
        """
        device, operation = equipment.machine.device, kernel.operation
        self.kernel, self.backend, self.values = kernel, backend(kernel, device), values
        self.equipment, self._ask = equipment, ask
        self._seeds = seeds = dict[tuple[int, ...], int]()  # by the fingerprints of inputs as made

        # not a method: a cycle of references would keep its memory in use after the point
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
        made = tuple(x.clone() if a.name == kernel.overwrites else x for a, x in pairs)
        flush, cache_bytes = equipment.flush if cold else None, device.l2_bytes or 0
        # what is timed; its call is the kernel's once that is prepared
        self.subject = Subject(kernel, inputs, make, flush, cache_bytes, moved, made)
        self.changing = Changing(operation, made, values)  # its rows change after the first answer
        self.first: list[torch.Tensor] = []  # the rows of the first answer that change later

    def check_answers(self, answers: Sequence[Timed]) -> CheckResult:
        """The first result that refuses an answer, else the last; restores all rows' own values.

        First the rows whose input held other values are checked for these. Then the first answer's
        rows, which passed, stand in for them: a whole with bits that passed is not compared again.
        """
        if not self.changing.intact():
            return INPUT_CHANGED
        self.changing.hold(())
        for one in answers:
            if not isinstance(one.answer, torch.Tensor | tuple | list):
                return CheckResult(f"returned a {type(one.answer).__name__}, not a torch.Tensor")
            answer = as_tuple(one.answer)
            reason = malformed(answer, one.inputs, self.kernel.operation)
            if reason is not None:
                return CheckResult(reason)
            rows, indices = [self.changing.rows[i] for i in one.held], [*one.held]
            changed = tuple(y[rows] for y in answer)
            if rows:
                result = self._check_or_ask(changed, *self.changing.given(indices))
                if result.reason is not None:
                    return result
                for y, own in zip(answer, self.first, strict=True):
                    y[rows] = own[indices]
            seed = self._seeds.get(fingerprints(one.inputs))
            if seed is None:
                return INPUT_CHANGED
            result = self._check_or_ask(answer, one.inputs, replace(self.values, seed=seed))
            if result.reason is not None:
                return result
            for y, own in zip(answer, changed, strict=True):
                y[rows] = own  # a kernel that keeps this memory finds there what it wrote
        return result

    def _check_or_ask(self, answers: Inputs, given: Inputs, values: Values) -> CheckResult:
        """Checks an answer, or rows of one, for what they were given, which ``values`` makes."""
        operation = self.kernel.operation
        ours = outside.operations().get(operation.name)  # any process can make its inputs
        if self._ask is None or ours is not operation:
            return self.equipment.check_once(answers, given, operation, self.backend, values)
        question = {"operation": operation.name, "backend": self.backend, "values": asdict(values)}
        copies = tuple(y.detach().to("cpu", copy=True) for y in answers)
        with tempfile.NamedTemporaryFile() as file:
            torch.save(question | {"answers": copies}, file)
            file.flush()
            return CheckResult(**self._ask(file.name))

    def check_changed(self, answer: Tensors) -> CheckResult:
        """Calls the kernel again with some rows changed, and checks it; holds the first answer.

        The other values are `hard` where the operation has logits, some kinds at a time where the
        matrix has few rows. The answers of the unchanged rows may not depend on them.
        """
        subject, changing = self.subject, self.changing
        kinds = next(iter(self.kernel.operation.logits.values()), ())
        self.first = [y[changing.rows].clone() for y in as_tuple(answer)]
        result = CheckResult(None)
        for start in range(0, max(len(kinds), 1), len(changing.rows)) if changing.rows else ():
            some = tuple(islice(cycle(kinds), start, start + len(changing.rows)))
            changing.hold_others(some or None)
            changing.hold_all()
            subject.restore()
            again = as_tuple(subject.call(*subject.inputs))
            if subject.overwritten is None and memory(again) & memory(as_tuple(answer)):
                return CheckResult(
                    "returned the memory of its earlier answer, which is still in use"
                )
            result = self.check_answers([Timed(subject.made, again, changing.held)])
            if result.reason is not None:
                what = f"rows that are {', '.join(dict.fromkeys(some))}" if some else "other values"
                return CheckResult(f"of {what}: {result.reason}")
        changing.hold_others()
        subject.restore()
        return result
