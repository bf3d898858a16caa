"""Launches that run again, or at once: graphs and streams."""

from __future__ import annotations

import pytest
import torch

from kernels.softmax.cooperative import Cooperative

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.timeout(120),  # a hang is a failure, not a wait
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def randn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, device="cuda")


def test_replays_of_a_graph_follow_the_input_whatever_runs_between() -> None:
    x = randn(9, 262_144)
    call = Cooperative().prepare(x)
    call(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        first = call(x)
        second = call(first)
    for turn in range(200):
        x.normal_()
        graph.replay()
        if turn % 3 == 0:
            call(x)
        wanted = torch.softmax(x, dim=1)
        torch.testing.assert_close(first, wanted)
        torch.testing.assert_close(second, torch.softmax(wanted, dim=1))


def test_graphs_of_the_compiler_warm_up_record_and_replay() -> None:
    x = randn(3, 131_072)
    call = Cooperative().prepare(x)  # its words come into being as the compiler warms up

    schema = "(Tensor x) -> Tensor"
    operator = torch.library.custom_op("tests::cooperative", call, mutates_args=(), schema=schema)
    operator.register_fake(torch.empty_like)
    compiled = torch.compile(lambda x: 2 * operator(x), mode="reduce-overhead", fullgraph=True)
    for _ in range(5):
        torch.testing.assert_close(compiled(x.normal_()), 2 * torch.softmax(x, dim=1))


def test_two_graphs_of_one_prepared_call_run_at_once() -> None:
    inputs = [randn(40, 131_072) for _ in range(2)]
    call = Cooperative().prepare(inputs[0])
    call(inputs[0])
    graphs, answers = [], []
    for x in inputs:
        graphs.append(torch.cuda.CUDAGraph())
        with torch.cuda.graph(graphs[-1]):
            answers.append(call(x))
    streams = [torch.cuda.Stream() for _ in inputs]
    torch.cuda.synchronize()
    for _ in range(100):
        for stream, graph in zip(streams, graphs, strict=True):
            with torch.cuda.stream(stream):
                graph.replay()
    torch.cuda.synchronize()
    for x, y in zip(inputs, answers, strict=True):
        torch.testing.assert_close(y, torch.softmax(x, dim=1))


def test_two_streams_at_once_each_get_their_own_answers() -> None:
    inputs = [randn(40, 131_072) for _ in range(2)]
    call = Cooperative().prepare(inputs[0])
    # of unlike priority: the one that goes first must not keep the other from completing its grid
    streams = [torch.cuda.Stream(priority=priority) for priority in (0, -1)]
    wanted = [torch.softmax(x, dim=1) for x in inputs]
    right = [torch.zeros((), dtype=torch.int64, device="cuda") for _ in inputs]
    torch.cuda.synchronize()
    for _ in range(100):
        for stream, x, y, count in zip(streams, inputs, wanted, right, strict=True):
            with torch.cuda.stream(stream):
                count += (call(x) - y).abs().amax() < 1e-6
    torch.cuda.synchronize()
    assert [count.item() for count in right] == [100, 100]
