"""Ways to time a call, a module each: CUDA events, CUDA graphs, the host's clock.

A timer is a module here with a function ``sample(subject, protocol) -> Sampling``; its name is the
configuration's ``timing.timer``. It takes one sample after another, in microseconds; when to stop
is decided in `collect` alone.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from experiments.data.jobs import TimingConfig
from experiments.data.statistics import stop_reason
from experiments.worker import clock
from experiments.worker.inputs import Changing, Inputs
from kernels.kernel import Tensors, as_tuple

Protocol = TimingConfig  # how one point is sampled, as the configuration says it
Call = Callable[..., Any]  # the inputs of an operation to its outputs, a tensor or a tuple
DICE = random.SystemRandom()  # which no kernel can seed


class CannotTime(Exception):
    """The asked protocol has no meaning for this point; the message says why."""


class Timed(NamedTuple):
    """The inputs of a timed call, its answer, and which rows of `Changing` held other values."""

    inputs: Inputs
    answer: Tensors
    held: tuple[int, ...] = ()


@dataclass
class Subject:
    """What is timed, and the answers that it gave."""

    call: Call  # the prepared kernel
    inputs: Inputs  # what it is called with
    make: Callable[[int], Inputs]  # the i-th further inputs, for timers that take buffers in turn
    flush: Callable[[], object] | None = None  # before each sample, outside of it
    cache_bytes: int = 0  # the device's L2
    moved_bytes: int = 0  # what a call has to read and write
    made: Inputs = ()  # the inputs as before any call; of one that is overwritten, a copy
    changing: Changing | None = None  # changes the inputs' values between calls
    _calls: int = 0
    _chosen: Timed | None = None
    _last: Timed | None = None

    def __post_init__(self) -> None:
        self.made = self.made or self.inputs

    @property
    def overwritten(self) -> int | None:
        """The index of the input that the call overwrites with its output; None if none is."""
        pairs = zip(self.inputs, self.made, strict=True)
        return next((i for i, (x, before) in enumerate(pairs) if x is not before), None)

    def restore(self) -> None:
        """Restores the overwritten input: a kernel applied to its own answers would diverge."""
        for x, before in zip(self.inputs, self.made, strict=True):
            if x is not before:
                x.copy_(before)

    def before(self) -> None:
        """Runs before each sample, outside its window: changes values, restores, then flushes.

        The flush drives out what the others leave in L2. Without it the input is as warm as a
        kernel before would leave it. The last answer is released, so that the call may reuse its
        memory.
        """
        self._last = None
        if self.changing is not None:
            self.changing.change()
        self.restore()
        if self.flush is not None:
            self.flush()

    def keep(self, answer: Tensors) -> None:
        """Takes the answer of the call just timed.

        One answer, chosen at random, is copied at once, so that no later write can complete it.
        """
        self._calls += 1
        held = () if self.changing is None else self.changing.held
        self._last = Timed(self.made, answer, held)
        if DICE.random() * self._calls < 1:
            self._chosen = self._last._replace(answer=copied(answer))

    def timed(self) -> list[Timed]:
        """The answers to check: of one call chosen at random, and of the last."""
        return [one for one in (self._chosen, self._last) if one is not None]

    def replayed(
        self, replay: Callable[[], object], inputs: Sequence[Inputs], answers: Sequence[Tensors]
    ) -> list[Timed]:
        """A graph's answers to check: in three of its buffers, and after one more replay.

        In that replay all changing rows hold other values. Answers are copied, since their memory
        is the graph's and is freed with it.
        """
        chosen = {0, len(inputs) // 2, len(inputs) - 1}
        timed = [Timed(inputs[i], copied(answers[i])) for i in chosen]
        if self.changing is not None and self.changing.rows:
            self.changing.hold_all()
            self.restore()
            replay()
            clock.synchronize()
            timed.append(Timed(self.made, copied(answers[0]), self.changing.held))
        return timed


def copied(answer: Tensors) -> Inputs:
    """A copy of each output."""
    return tuple(y.clone() for y in as_tuple(answer))


class Sampling(NamedTuple):
    """All samples of a point, and why they ended."""

    samples_us: list[float]
    stop_reason: str
    late: int  # windows that were no sample: the host was late, or another process had a core
    timed: Sequence[Timed] = ()  # answers to check


def collect(batch: Callable[[int], Sequence[float | None]], protocol: Protocol) -> Sampling:
    """Warms up, then takes batches until the stopping rule is met.

    Half of the time limit is left for checking. ``batch`` gets the number of samples that the cap
    still allows, and takes at most so many; each None counts a disturbed window.
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
