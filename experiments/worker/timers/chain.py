"""Times a kernel between a producer and a consumer: a chain with it, less a chain without it."""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import torch

from experiments.data.statistics import median
from experiments.worker import clock
from experiments.worker.inputs import Inputs
from experiments.worker.timers import CannotTime, Protocol, Sampling, Subject, collect, copied
from experiments.worker.timers.events import hold_cycles
from experiments.worker.timers.graph import captured, cold_buffers, visits_of
from kernels.kernel import Tensors, as_tuple

ROUGH_HOLD = 2_000_000  # cycles, a millisecond: longer than handing over one link takes


class Link(NamedTuple):
    """Buffers of one link."""

    source: Inputs  # what producers read
    given: Inputs  # the kernel's inputs
    ends: list[torch.Tensor]  # what consumers write
    instead: Inputs  # what consumers read where there is no kernel


def sample(subject: Subject, protocol: Protocol) -> Sampling:
    """What a kernel adds to a CUDA graph of producer → kernel → consumer.

    Producers and consumers are elementwise kernels of PyTorch. A producer makes each floating-point
    matrix of the inputs, x = a · 1, bit for bit as it was; a consumer reads each output, z = y · 2.
    Without the kernel a consumer reads the first x of its output's shape and dtype, or, if there is
    none, memory that nobody writes. Other inputs (targets, a row of weights) are read where they
    were made; an input that the kernel overwrites is produced anew. Each link has its own buffers,
    in a rotation that exceeds L2, as in `graph`. So a is cold, x is where its producer left it, and
    the consumer finds y where the kernel left it: what a kernel finds in L2 and what it leaves
    there counts. Replays of the two graphs alternate. A sample is the time of the one with the
    kernel less that of the one before it, divided by the calls, so its interval is one of paired
    differences. Noise may make a sample negative; it is kept.

    Raises:
        CannotTime: the cache is to be warm, a rotation would need more than 2048 links, the
            interval of the difference is not above zero, or no producer makes the input that the
            kernel overwrites.
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

    visits = visits_of(len(links), lambda: run(links[0], True), ROUGH_HOLD)

    def run_all(with_kernel: bool) -> None:
        answers.clear()  # the next visit may have their memory again
        answers.extend(run(link, with_kernel) for link in links)

    without, whole = (captured(visits, partial(run_all, w)) for w in (False, True))
    hold = hold_cycles(without.replay)

    def batch(_: int) -> list[float]:
        marks = [clock.Event(enable_timing=True) for _ in range(3)]
        clock.spin(hold)  # so that no mark waits for the host
        clock.record(marks[0])
        without.replay()
        clock.record(marks[1])
        whole.replay()  # the last, for the gate: x and y are as a call left them
        clock.record(marks[2])
        clock.synchronize()
        short, long = (clock.elapsed_us(start, end) for start, end in pairwise(marks))
        return [(long - short) / (visits * len(links))]

    sampling = collect(batch, protocol)
    middle = median(sampling.samples_us)
    if middle.low <= 0:
        raise CannotTime(
            f"the chain takes {middle.value:.3g} µs a call longer with the kernel than without, "
            f"95 % interval from {middle.low:.3g}: no more than its noise; use timing=events"
        )
    # for the gate: an overwritten input as its producer read it
    first, *others = (
        tuple(link.source[k] if k == over else x for k, x in enumerate(link.given))
        for link in links
    )
    # another replay produces others in the first link
    timed = subject.replayed(whole.replay, [copied(first), *others], answers)
    for graph in (without, whole):
        graph.reset()
    return sampling._replace(timed=timed)


def _links(subject: Subject, made: Sequence[int]) -> list[Link]:
    """The buffers of all links of a kernel with producers of these inputs."""
    first = subject.inputs
    outputs = as_tuple(subject.call(*first))  # lazy initialisation is not allowed in capture
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
