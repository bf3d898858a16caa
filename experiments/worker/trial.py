"""A point's kernel, its inputs and the judgement of its answers, here or in another process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import cycle, islice
from typing import Any

import torch

from experiments.worker import outside
from experiments.worker.describe import torch_dtype
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
from experiments.worker.inputs import HARD_TOLERANCE, Inputs, Values, rows_of
from experiments.worker.machine import Monitor
from experiments.worker.place import Place
from experiments.worker.timers import Subject, Timed
from kernels.kernel import Kernel, Shape, Tensors, as_tuple

Ask = Callable[[dict[str, Any]], dict[str, Any]]  # a question of `judge` to its verdict
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
        self.passed: Passed = {}


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

    def is_made(self, asked: Inputs) -> bool:
        """Whether inputs are as they were made."""
        return fingerprints(asked) in self.made

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
        changing = subject.changing
        assert changing is not None
        held, rows, kinds = memory(as_tuple(answer)), changing.rows, self.kinds
        for first in range(0, max(len(kinds), 1), len(rows)) if rows else ():
            changing.hold_others(tuple(islice(cycle(kinds), first, first + len(rows))) or None)
            changing.change_all()
            subject.restore()
            again = as_tuple(subject.call(*subject.inputs))
            if subject.overwritten is None and memory(again) & held:
                return Verdict("returned the memory of its earlier answer, which is still in use")
            verdict = self.judge_mixed(subject, again, len(rows))
            if verdict.reason is not None:
                return verdict
        return OK

    def judge_mixed(self, subject: Subject, answer: Tensors, most: int) -> Verdict:
        """Judges the changed rows of an answer, and then ``most`` of the others.

        The errors of the verdict are the others'.
        """
        changing, operation = subject.changing, self.kernel.operation
        assert changing is not None
        asked, rows = subject.asked(subject.inputs), changing.rows
        reason = malformed(as_tuple(answer), asked, operation)
        if reason is not None:
            return Verdict(reason)
        if not changing.intact():
            return CHANGED
        verdict = self.judge_rows(as_tuple(answer), rows, *changing.given(range(len(rows))))
        if verdict.reason is None:
            others = (row for row in range(len(as_tuple(answer)[0])) if row not in rows)
            beside = tuple(islice(others, most))
            own = Values(self.shape, self.seed, beside)
            given = rows_of(operation, asked, beside)
            verdict = self.judge_rows(as_tuple(answer), beside, given, own) if beside else OK
        if verdict.reason is not None:
            return replace(verdict, reason=f"of inputs that are not normal {verdict.reason}")
        return verdict

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of `hard` rows that the operation allows."""
        return next(iter(self.kernel.operation.logits.values()), ())

    def judge_timed(
        self, subject: Subject, timed: Sequence[Timed], first: Sequence[torch.Tensor]
    ) -> Verdict:
        """Judges answers of timed calls, in which some rows had other values.

        These rows are judged for the values they held. Then they take the rows of ``first``, which
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
