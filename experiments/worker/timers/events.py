"""Times each call by two CUDA events."""

from collections.abc import Callable
from typing import Any

from experiments.worker import clock
from experiments.worker.timers import CannotTime, Protocol, Sampling, Subject, collect

SAMPLES_A_BATCH = 10
CLOCK_HZ = 2e9  # more than the SM clock of any card today
LONGEST_SPIN = 200_000_000  # cycles, a tenth of a second


def sample(subject: Subject, protocol: Protocol) -> Sampling:
    """The time in µs between an event before each call and one after it.

    On an H200 it includes about 3 µs of launch cost. A spinning kernel before the first event runs
    for longer than the host takes to enqueue the call, so the host's time to launch is not in the
    window. If the first event has passed before the call is enqueued, the host was late: the window
    is dropped, and the next batch spins twice as long.

    Raises:
        CannotTime: the call returns only when the queue is empty, so that the host is always late.
    """
    call, inputs = subject.call, subject.inputs

    def enqueue() -> None:
        subject.before()
        call(*inputs)

    def one() -> tuple[Any, Any, bool]:
        start, end = (clock.Event(enable_timing=True) for _ in range(2))
        clock.spin(spin)
        subject.before()
        clock.record(start)
        y = call(*inputs)
        clock.record(end)
        late = clock.query(start)
        subject.keep(y)
        return start, end, late

    spin = spin_cycles(enqueue)

    def batch(most: int) -> list[float | None]:
        nonlocal spin
        taken = [one() for _ in range(min(SAMPLES_A_BATCH, most))]
        clock.synchronize()
        samples = [None if late else clock.elapsed_us(start, end) for start, end, late in taken]
        if spin == LONGEST_SPIN and samples.count(None) == len(samples):
            raise CannotTime(
                "the call waits for the device, so events cannot separate its work from the host's "
                "time; use timing=host"
            )
        if None in samples:
            spin = min(2 * spin, LONGEST_SPIN)
        return samples

    return collect(batch, protocol)._replace(timed=subject.timed())


def spin_cycles(work: Callable[[], object]) -> int:
    """Clock cycles for `clock.spin`: more than the host takes to enqueue ``work``."""
    seconds = []
    for _ in range(3):
        clock.synchronize()
        start = clock.now_s()
        work()
        seconds.append(clock.now_s() - start)
    clock.synchronize()
    return int(1.5 * min(seconds) * CLOCK_HZ) + 20_000
