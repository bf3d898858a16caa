"""CUDA events around each call."""

from collections.abc import Callable
from typing import Any

from experiments.worker import clock
from experiments.worker.timers import CannotTime, Protocol, Sampling, Subject, collect

EVENTS_A_BATCH = 10
CLOCK_HZ = 2e9  # above any card's today
LONGEST_HOLD = 200_000_000  # cycles, a tenth of a second


def sample(subject: Subject, protocol: Protocol) -> Sampling:
    """CUDA events around each call. They carry about 3 µs of launch cost on an H200.

    The queue is held back by a spinning kernel for longer than enqueueing one call takes, so that
    the window holds the call's work on the card and not the host's time to launch it. Where the
    host was late all the same, the window had opened before the call was there: such a window is
    dropped, and the next batch is held back twice as long.

    Raises:
        CannotTime: the call returns only when the queue is empty, so that the host is always late.
    """
    call, inputs = subject.call, subject.inputs

    def handed_over() -> None:
        subject.before()
        call(*inputs)

    def one() -> tuple[Any, Any, bool]:
        start, end = (clock.Event(enable_timing=True) for _ in range(2))
        clock.spin(hold)
        subject.before()
        clock.record(start)
        y = call(*inputs)
        clock.record(end)
        late = clock.query(start)
        subject.keep(y)
        return start, end, late

    hold = hold_cycles(handed_over)

    def batch(most: int) -> list[float | None]:
        nonlocal hold
        taken = [one() for _ in range(min(EVENTS_A_BATCH, most))]
        clock.synchronize()
        samples = [None if late else clock.elapsed_us(start, end) for start, end, late in taken]
        if hold == LONGEST_HOLD and samples.count(None) == len(samples):
            raise CannotTime(
                "the call waits for the device, so events cannot separate its work from the host's "
                "time; use timing=host"
            )
        if None in samples:
            hold = min(2 * hold, LONGEST_HOLD)
        return samples

    return collect(batch, protocol)._replace(timed=subject.timed())


def hold_cycles(work: Callable[[], object]) -> int:
    """Clock cycles to spin so that the host stays ahead: more than enqueueing ``work`` takes."""
    seconds = []
    for _ in range(3):
        clock.synchronize()
        start = clock.now_s()
        work()
        seconds.append(clock.now_s() - start)
    clock.synchronize()
    return int(1.5 * min(seconds) * CLOCK_HZ) + 20_000
