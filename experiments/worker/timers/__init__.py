"""The timers: each module here times a call in its own way, by events, a graph or the host's clock.

A timer has a function ``sample(subject, protocol) -> Sampling``; ``timing.timer`` in the
configuration is the module's name. It takes samples in microseconds until `collect` decides to
stop.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from experiments.data.jobs import TimingConfig
from experiments.data.statistics import stop_reason
from experiments.worker import clock
from experiments.worker.inputs import ChangingRows, Inputs
from kernels.kernel import Tensors, as_tuple

Protocol = TimingConfig  # how to sample a point
Call = Callable[..., Any]  # takes an operation's inputs; returns a tensor or a tuple of tensors
GENERATOR = random.SystemRandom()  # which no kernel can seed


class CannotTime(Exception):
    """The timer cannot time this point by this protocol; the message says why."""


class TimedCall(NamedTuple):
    """A timed call's inputs and answer, and `ChangingRows.held` at that time."""

    inputs: Inputs
    answer: Tensors
    held: tuple[int, ...] = ()


@dataclass
class Subject:
    """The call to time, with its inputs, and the answers that are kept for the gate."""

    call: Call  # the prepared kernel
    inputs: Inputs  # its arguments
    make: Callable[[int], Inputs]  # makes the i-th further inputs, for timers with many buffers
    flush: Callable[[], object] | None = None  # run before each sample; None: the cache stays warm
    cache_bytes: int = 0  # size of the device's L2
    moved_bytes: int = 0  # the compulsory traffic of a call
    originals: Inputs = ()  # the inputs; in place of one that the call overwrites, a copy of it
    changing: ChangingRows | None = None  # changes the inputs' values between calls
    _calls: int = 0
    _chosen: TimedCall | None = None  # of one call, chosen at random
    _last: TimedCall | None = None

    def __post_init__(self) -> None:
        self.originals = self.originals or self.inputs

    @property
    def overwritten(self) -> int | None:
        """The index of the input that the call overwrites with its output; None if it does not."""
        pairs = zip(self.inputs, self.originals, strict=True)
        return next((i for i, (x, before) in enumerate(pairs) if x is not before), None)

    def restore(self) -> None:
        """Copies the original into the overwritten input, which holds the last answer."""
        for x, before in zip(self.inputs, self.originals, strict=True):
            if x is not before:
                x.copy_(before)

    def before(self) -> None:
        """Prepares the next sample, outside its window: changes values, restores, then flushes.

        The flush comes last and evicts what the other two leave in L2. Without a flush the cache
        stays as the last call and these writes left it. It also drops the reference to the last
        answer, so that the call may reuse that memory.
        """
        self._last = None
        if self.changing is not None:
            self.changing.change()
        self.restore()
        if self.flush is not None:
            self.flush()

    def keep(self, answer: Tensors) -> None:
        """Keeps the answer of the call just timed, as the last one.

        One of all answers, chosen at random, is copied at once: no later write can complete it.
        """
        self._calls += 1
        held = () if self.changing is None else self.changing.held
        self._last = TimedCall(self.originals, answer, held)
        if GENERATOR.random() * self._calls < 1:  # reservoir sampling: each call is as likely
            self._chosen = self._last._replace(answer=copied(answer))

    def timed(self) -> list[TimedCall]:
        """The calls whose answers are to be checked: one chosen at random, and the last."""
        return [one for one in (self._chosen, self._last) if one is not None]

    def replayed(
        self, replay: Callable[[], object], inputs: Sequence[Inputs], answers: Sequence[Tensors]
    ) -> list[TimedCall]:
        """The calls of a graph whose answers are to be checked.

        These are the calls on three of its buffers, and the first call of one more replay, with
        other values in all changing rows. Answers are copied: the graph frees their memory.
        """
        chosen = {0, len(inputs) // 2, len(inputs) - 1}
        timed = [TimedCall(inputs[i], copied(answers[i])) for i in chosen]
        if self.changing is not None and self.changing.rows:
            self.changing.hold(range(len(self.changing.rows)))
            self.restore()
            replay()
            clock.synchronize()
            timed.append(TimedCall(self.originals, copied(answers[0]), self.changing.held))
        return timed


def copied(answer: Tensors) -> Inputs:
    """Copies of the outputs, as a tuple."""
    return tuple(y.clone() for y in as_tuple(answer))


class Sampling(NamedTuple):
    """All samples of a point, and why sampling ended."""

    samples_us: list[float]
    stop_reason: str
    late: int  # disturbed windows: the host was late, or another process had a core
    timed: Sequence[TimedCall] = ()  # the calls whose answers are to be checked


def collect(batch: Callable[[int], Sequence[float | None]], protocol: Protocol) -> Sampling:
    """Warms up, then takes batches of samples until `stop_reason` gives a reason.

    ``batch`` gets the number of samples still allowed, and returns at most so many, in µs; a None
    among them is a disturbed window. Half of the time limit is left for checking answers.
    """
    for _ in range(protocol.warmup):
        batch(1)
    end = clock.now_s() + protocol.sampling_limit_s / 2
    samples, late = list[float](), 0
    while True:
        taken = batch(protocol.max_samples - len(samples))
        samples += [one for one in taken if one is not None]
        late += taken.count(None)
        if reason := stop_reason(samples, protocol, clock.now_s() > end):
            return Sampling(samples, reason, late)
