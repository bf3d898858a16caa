"""Times a kernel between its producer and its consumer: a chain with it less one without it."""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import torch

from experiments.data.statistics import median
from experiments.worker import clock
from experiments.worker.inputs import Inputs
from experiments.worker.timers import CannotTime, Protocol, Sampling, Subject, collect, copied
from experiments.worker.timers.events import spin_cycles
from experiments.worker.timers.graph import captured, cold_buffers, rotations_in_graph
from kernels.kernel import Tensors, as_tuple

FIRST_SPIN = 2_000_000  # cycles, a millisecond: the host enqueues one link in less


class Link(NamedTuple):
    """The buffers of one link, producer → kernel → consumer, of the chain."""

    source: Inputs  # what producers read
    given: Inputs  # the kernel's inputs
    ends: list[torch.Tensor]  # what consumers write
    instead: Inputs  # what consumers read in the chain without the kernel


def sample(subject: Subject, protocol: Protocol) -> Sampling:
    """The time in µs that a kernel adds to a CUDA graph of producer → kernel → consumer.

    Producers and consumers are elementwise kernels of PyTorch. A producer writes each input x that
    is a floating-point matrix, x = a · 1, with the bits of a; a consumer reads each output y,
    z = y · 2. Without the kernel the consumer reads the first x of y's shape and dtype, or memory
    that nobody writes if there is none. Other inputs (targets, a row of weights) have no producer.
    Each link has its own buffers, which together exceed L2, as in `graph`. So a is cold, x is where
    its producer left it, and y where the kernel left it: what a kernel finds in L2 and what it
    leaves there counts. Replays of the two graphs alternate. A sample is the time of the graph with
    the kernel less that of the graph before it, divided by the calls, so the interval is one of
    paired differences. Noise may make a sample negative; it is kept.

    Raises:
        CannotTime: ``cache`` is ``warm``, L2 takes more than 2048 links to exceed, the interval of
            the difference reaches zero, or the kernel overwrites an input without a producer.
    """
    over = subject.overwritten
    if protocol.cache != "cold":
        raise CannotTime(
            "in a chain the input comes from the producer before it; use timing.cache=cold"
        )
    made = [i for i, a in enumerate(subject.inputs) if a.dim() == 2 and a.is_floating_point()]
    if over not in (None, *made):
        raise CannotTime("no producer makes the input that is overwritten; use timing=events")
    links, answers = _links(subject, made), list[Tensors]()

    def run(link: Link, with_kernel: bool) -> Inputs:
        for i in made:
            torch.mul(link.source[i], 1, out=link.given[i])
        ys = as_tuple(subject.call(*link.given)) if with_kernel else link.instead
        for y, end in zip(ys, link.ends, strict=True):
            torch.mul(y, 2, out=end)
        return ys

    rotations = rotations_in_graph(len(links), lambda: run(links[0], True), FIRST_SPIN)

    def run_all(with_kernel: bool) -> None:
        answers.clear()  # the next rotation in the graph may reuse their memory
        answers.extend(run(link, with_kernel) for link in links)

    without, whole = (captured(rotations, partial(run_all, w)) for w in (False, True))
    spin = spin_cycles(without.replay)

    def batch(_: int) -> list[float]:
        marks = [clock.Event(enable_timing=True) for _ in range(3)]
        clock.spin(spin)  # so that the host enqueues all that follows in time
        clock.record(marks[0])
        without.replay()
        clock.record(marks[1])
        whole.replay()  # last, because the gate checks x and y as its calls left them
        clock.record(marks[2])
        clock.synchronize()
        short, long = (clock.elapsed_us(start, end) for start, end in pairwise(marks))
        return [(long - short) / (rotations * len(links))]

    sampling = collect(batch, protocol)
    middle = median(sampling.samples_us)
    if middle.low <= 0:
        raise CannotTime(
            f"the chain takes {middle.value:.3g} µs a call longer with the kernel than without, "
            f"95 % interval from {middle.low:.3g}: no more than its noise; use timing=events"
        )
    # the gate takes an overwritten input from its source, where it still has its values
    first, *others = (
        tuple(link.source[k] if k == over else x for k, x in enumerate(link.given))
        for link in links
    )
    # the inputs of the first link are copied, because `replayed` replays once more with others
    timed = subject.replayed(whole.replay, [copied(first), *others], answers)
    for graph in (without, whole):
        graph.reset()
    return sampling._replace(timed=timed)


def _links(subject: Subject, made: Sequence[int]) -> list[Link]:
    """Allocates all links; ``made`` are the indices of the inputs that have producers."""
    first = subject.inputs
    outputs = as_tuple(subject.call(*first))  # before capture, which forbids lazy initialisation
    subject.restore()
    between = sum(t.nbytes for t in (*(first[i] for i in made), *outputs))
    buffers = cold_buffers(subject.moved_bytes + between, subject.cache_bytes)
    sources = [first, *(subject.make(i) for i in range(1, buffers))]
    inputs = [
        tuple(torch.empty_like(a) if i in made else a for i, a in enumerate(source))
        for source in sources
    ]
    ends = [[torch.empty_like(y) for y in outputs] for _ in inputs]

    def instead(y: torch.Tensor, given: Inputs) -> torch.Tensor:
        same = [given[i] for i in made if (given[i].shape, given[i].dtype) == (y.shape, y.dtype)]
        return same[0] if same else torch.zeros_like(y)

    nothing = [tuple(instead(y, given) for y in outputs) for given in inputs]
    return [Link(*one) for one in zip(sources, inputs, ends, nothing, strict=True)]
