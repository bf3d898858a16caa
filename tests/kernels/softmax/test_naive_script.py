from __future__ import annotations

import warnings

import torch

from kernels.softmax.naive_script import NaiveScript


def test_no_shape_leaves_a_trace_in_the_next(device: str) -> None:
    for cols in range(1, 12):
        x = torch.randn(3, cols, device=device)
        torch.testing.assert_close(NaiveScript().prepare(x)(x), torch.softmax(x, dim=1))


def test_prepare_ends_with_an_optimised_graph(device: str) -> None:
    call = NaiveScript().prepare(torch.randn(3, 4, device=device))
    graph = str(torch.jit.last_executed_optimized_graph())
    assert callable(call)  # it owns the graph
    assert "aten::max" in graph
    assert "prim::profile" not in graph


def test_deprecation_of_torchscript_is_not_the_users_concern(device: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        NaiveScript().prepare(torch.randn(3, 4, device=device))
