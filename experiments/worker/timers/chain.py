"""A kernel between a producer and a consumer, as programs use it: a chain less one without it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch

from experiments.data.statistics import median
from experiments.worker import clock
from experiments.worker.inputs import Inputs
from experiments.worker.timers import CannotTime, Protocol, Sampling, Subject, collect, copied
from experiments.worker.timers.events import hold_cycles
from experiments.worker.timers.graph import cold_buffers, visits_of
from kernels.kernel import Tensors, as_tuple

ROUGH_HOLD = 2_000_000  # cycles, a millisecond: longer than handing over one link takes


def sample(subject: Subject, protocol: Protocol) -> Sampling:
    """What a kernel adds to a CUDA graph of producer → kernel → consumer.

    Producers and consumers are elementwise kernels of PyTorch, a producer for each floating-point
    matrix that the kernel is given, x = a · 1, bit for bit the input as it was made, and a consumer
    for each of its outputs, z = y · 2. Without the kernel a consumer reads the first x of its
    output's size, or where there is none memory that nobody writes. Other inputs, targets or a row
    of weights, are read where they were made; one that the kernel overwrites is produced anew.
    Each link has buffers of its own, in a rotation that L2 does not hold, as in `graph`. So a is
    cold, x is where its producer left it, and the consumer finds y where the kernel left it: what a
    kernel finds in L2 and what it leaves there counts. Replays of the two graphs alternate. A
    sample is what the one with the kernel took longer than the one before it, divided by the calls:
    its interval is one of paired differences. Noise may make a sample negative; it is kept.

    Raises:
        CannotTime: the cache is to be warm, a rotation would need more than 2048 links, or the
            difference is not above zero by more than its interval, or no producer makes what the
            kernel overwrites.
    """
    if protocol.cache != "cold":
        raise CannotTime(
            "in a chain the input comes from the producer before it; use timing.cache=cold"
        )
    made = [i for i, a in enumerate(subject.inputs) if a.dim() == 2 and a.is_floating_point()]
    if subject.overwritten not in (None, *made):
        raise CannotTime("no producer makes the input that is overwritten; use timing=events")
    links = _Links(subject, made)
    buffers, answers = len(links.sources), list[Tensors]()
    visits = visits_of(buffers, lambda: links.run(0, True), ROUGH_HOLD)

    def captured(with_kernel: bool) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(visits):
                answers.clear()  # the next visit may have their memory again
                answers.extend(links.run(i, with_kernel) for i in range(buffers))
        return graph

    without, whole = captured(False), captured(True)
    hold = hold_cycles(without.replay)

    def batch(_: int = 1) -> list[float]:
        marks = [clock.Event(enable_timing=True) for _ in range(3)]
        clock.spin(hold)  # so that no mark waits for the host
        clock.record(marks[0])
        without.replay()
        clock.record(marks[1])
        whole.replay()  # the last, for the gate: x and y are as a call left them
        clock.record(marks[2])
        clock.synchronize()
        short, long = (clock.elapsed_us(start, end) for start, end in pairwise(marks))
        return [(long - short) / (visits * buffers)]

    for _ in range(max(protocol.warmup, 1)):
        batch()
    samples, reason = collect(batch, protocol)
    middle = median(samples)
    if middle.low <= 0:
        raise CannotTime(
            f"the chain takes {middle.value:.3g} µs a call longer with the kernel than without, "
            f"95 % interval from {middle.low:.3g}: no more than its noise; use timing=events"
        )
    timed = subject.replayed(whole.replay, links.given(), answers)
    for graph in (without, whole):
        graph.reset()
    return Sampling(samples, reason, timed)


class _Links:
    """The buffers of a chain: each link's source a, its copies x, and its consumers' z.

    Attributes:
        sources: The inputs as they were made, by link.
    """

    def __init__(self, subject: Subject, made: Sequence[int]) -> None:
        """Of a kernel with producers of these inputs.

        Raises:
            CannotTime: a rotation would need more than 2048 links.
        """
        first, self._subject, self._made = subject.inputs, subject, made
        outputs = as_tuple(subject.call(*first))  # lazy initialisation is not allowed in capture
        subject.restore()
        between = sum(t.nbytes for t in (*(first[i] for i in made), *outputs))
        buffers = cold_buffers(subject.moved_bytes + between, subject.cache_bytes)
        self.sources = [first, *(subject.make(i) for i in range(1, buffers))]
        self._inputs = [
            tuple(torch.empty_like(a) if i in made else a for i, a in enumerate(source))
            for source in self.sources
        ]
        self._ends = [[torch.empty_like(y) for y in outputs] for _ in self._inputs]
        self._instead = [
            tuple(_like(y, [given[i] for i in made]) for y in outputs) for given in self._inputs
        ]

    def run(self, i: int, with_kernel: bool) -> Inputs:
        """Hands over producers, kernel and consumers of a link; gives what consumers read."""
        given = self._inputs[i]
        for k in self._made:
            torch.mul(self.sources[i][k], 1, out=given[k])
        ys = as_tuple(self._subject.call(*given)) if with_kernel else self._instead[i]
        for y, end in zip(ys, self._ends[i], strict=True):
            torch.mul(y, 2, out=end)
        return ys

    def given(self) -> list[Inputs]:
        """Each link's inputs for the gate, an overwritten one as its producer read it."""
        over = self._subject.overwritten
        pairs = zip(self.sources, self._inputs, strict=True)
        first, *others = (
            tuple(source[k] if k == over else x for k, x in enumerate(given))
            for source, given in pairs
        )
        return [copied(first), *others]  # another replay produces others there


def _like(y: torch.Tensor, produced: Sequence[torch.Tensor]) -> torch.Tensor:
    """What an output's consumer reads where there is no kernel."""
    same = [x for x in produced if x.shape == y.shape and x.dtype == y.dtype]
    return same[0] if same else torch.zeros_like(y)
