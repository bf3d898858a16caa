"""A point's kernel, its inputs and the judgement of its answers, here or in another process."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import cycle, islice
from typing import Any

import torch

from experiments.worker import outside
from experiments.worker.flush import Flush
from experiments.worker.gate import (
    Prints,
    Verdict,
    check,
    fingerprints,
    malformed,
    memory,
    tolerance,
)
from experiments.worker.inputs import HARD_TOLERANCE, Changing, Inputs, Values, rows_of
from experiments.worker.machine import Monitor
from experiments.worker.place import Place
from experiments.worker.timers import Subject, Timed
from kernels.kernel import Kernel, Operation, Tensors, as_tuple

Ask = Callable[[str], dict[str, Any]]  # the file of a question to the verdict of `judge`
OK = Verdict(None)
CHANGED = Verdict("changed its input, so that its answer cannot be compared with any")


class Bench:
    """What a worker keeps between points.

    Its place, the flush buffer, the card's monitor, and the answers that passed the gate.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self.monitor = Monitor(place.serial)
        self.flush = Flush(place.torch_device, place.device.l2_bytes or 32 << 20)
        self._passed: dict[Any, Verdict] = {}

    def judge(
        self, answers: Inputs, given: Inputs, operation: Operation, backend: str, values: Values
    ) -> Verdict:
        """The gate's verdict on an answer for inputs that were made as ``values`` says.

        A whole answer that is bit for bit one that passed before for the same inputs is not
        computed with again, whichever kernel gave it.
        """
        factor = 1 if values.hard is None else HARD_TOLERANCE
        if values.rows is not None:
            return check(answers, given, operation, backend, factor)
        reason = malformed(answers, given, operation)
        if reason is not None:
            return Verdict(reason)
        found = [(tuple(y.shape), y.dtype, tolerance(operation, y, backend)) for y in answers]
        key = operation, values, *found, fingerprints(answers)
        if key not in self._passed:
            verdict = check(answers, given, operation, backend)
            if verdict.reason is not None:
                return verdict
            self._passed[key] = verdict
        return self._passed[key]


def judge(path: str, bench: Bench) -> dict[str, Any]:
    """The verdict on an answer that another process was given, for inputs that are made here.

    Args:
        path: A file with the answer and its `Values`, as `Trial` writes it for the process that
            never imports the kernel.
        bench: This worker's equipment.
    """
    device = bench.place.torch_device
    asked = torch.load(path, map_location=device, weights_only=True)
    values, operation = Values(**asked["values"]), outside.operation_named(asked["operation"])
    given = values.make(operation, device)
    return asdict(bench.judge(asked["answers"], given, operation, asked["backend"], values))


@dataclass
class Trial:
    """One point on its way to a row: its kernel, its inputs, and how answers are judged.

    Attributes:
        kernel: The kernel.
        backend: As rows spell it.
        values: The point's shape, dtype and seed.
        bench: The worker's own equipment.
        ask: Has a process judge that never imports the kernel; None judges here.
        made: The seed of all inputs, by their fingerprints as they were made.
    """

    kernel: Kernel
    backend: str
    values: Values
    bench: Bench
    ask: Ask | None = None
    made: dict[Prints, int] = field(default_factory=dict)

    def make(self, index: int) -> Inputs:
        """The i-th inputs of the point; a timer may call the kernel on copies of them."""
        values = replace(self.values, seed=self.values.seed + index)
        inputs = values.make(self.kernel.operation, self.bench.place.torch_device)
        self.made[fingerprints(inputs)] = values.seed
        return inputs

    def judge(self, answer: Tensors, asked: Inputs) -> Verdict:
        """Judges an answer for inputs as they were made."""
        seed = self.made.get(fingerprints(asked))
        if seed is None:
            return CHANGED
        return self._judge(as_tuple(answer), asked, replace(self.values, seed=seed))

    def _judge(self, answers: Inputs, given: Inputs, values: Values) -> Verdict:
        """Judges an answer, or the rows of one that ``values`` names, for what they were given."""
        operation = self.kernel.operation
        if self.ask is None or not outside.is_ours(operation):
            return self.bench.judge(answers, given, operation, self.backend, values)
        reason = malformed(answers, given, operation)
        if reason is not None:
            return Verdict(reason)
        question = {"operation": operation.name, "backend": self.backend, "values": asdict(values)}
        copies = tuple(y.detach().to("cpu", copy=True) for y in answers)
        with tempfile.NamedTemporaryFile() as file:
            torch.save(question | {"answers": copies}, file)
            file.flush()
            return Verdict(**self.ask(file.name))

    def judge_again(self, subject: Subject, changing: Changing, answer: Tensors) -> Verdict:
        """Calls the kernel once more, on some other values, while it must keep its first answer.

        The other values are `hard` ones where the operation has logits, some at a time where the
        matrix has few rows. Rows beside them are judged too: they may not depend on each other.
        """
        held, rows = memory(as_tuple(answer)), changing.rows
        kinds = next(iter(self.kernel.operation.logits.values()), ())
        for first in range(0, max(len(kinds), 1), len(rows)) if rows else ():
            changing.hold_others(tuple(islice(cycle(kinds), first, first + len(rows))) or None)
            changing.hold_all()
            subject.restore()
            again = as_tuple(subject.call(*subject.inputs))
            if subject.overwritten is None and memory(again) & held:
                return Verdict("returned the memory of its earlier answer, which is still in use")
            verdict = self._judge_mixed(again, subject.asked(subject.inputs), changing)
            if verdict.reason is not None:
                return verdict
        return OK

    def _judge_mixed(self, answers: Inputs, asked: Inputs, changing: Changing) -> Verdict:
        """Judges the changed rows of an answer, and as many of the others."""
        if not changing.intact():
            return CHANGED
        rows = changing.rows
        others = (row for row in range(self.values.shape[0]) if row not in rows)
        beside = tuple(islice(others, len(rows)))
        own = rows_of(self.kernel.operation, asked, beside), replace(self.values, rows=beside)
        for part, given in ((rows, changing.given(range(len(rows)))), (beside, own)):
            verdict = self._judge_rows(answers, asked, part, *given)
            if verdict.reason is not None:
                return Verdict(f"of inputs that are not normal {verdict.reason}")
        return OK

    def _judge_rows(
        self, answers: Inputs, asked: Inputs, rows: Sequence[int], given: Inputs, values: Values
    ) -> Verdict:
        """Judges some rows of an answer to ``asked`` for what these rows were given."""
        reason = malformed(answers, asked, self.kernel.operation)
        if reason is not None:
            return Verdict(reason)
        return self._judge(tuple(y[[*rows]] for y in answers), given, values)

    def judge_timed(
        self, changing: Changing, timed: Sequence[Timed], first: Sequence[torch.Tensor]
    ) -> Verdict:
        """Judges answers of timed calls, in which some rows had other values.

        These rows are judged for the values they held. Then they take the rows of ``first``, which
        passed: an answer that is now the same as a whole need not be computed with again.
        """
        verdict = OK
        if not changing.intact():
            return CHANGED
        changing.hold(())
        for one in timed:
            answers, rows = as_tuple(one.answer), [changing.rows[place] for place in one.held]
            if rows:
                given = changing.given(one.held)
                verdict = self._judge_rows(answers, one.inputs, rows, *given)
                if verdict.reason is not None:
                    return verdict
                for y, own in zip(answers, first, strict=True):
                    y[rows] = own[list(one.held)]
            verdict = self.judge(answers, one.inputs)
            if verdict.reason is not None:
                return verdict
        return verdict
