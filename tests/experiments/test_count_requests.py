"""What counts as a request, operation by operation and layout by layout."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
import torch

from experiments.worker.counting import requests_of, totals
from experiments.worker.counting.interpreter import interpreted
from experiments.worker.counting.requests import Operations, Recorder
from kernels.language import jit, tl
from tests.kernels.variants import LAYOUTS, TRITON, lay_out

Moved = dict[str, tuple[int, int]]

interpreter = pytest.mark.skipif(
    os.environ.get("TRITON_INTERPRET", "0") in ("", "0"),
    reason="Triton compiles for the GPU in this process; test_counting has a worker interpret",
)


def moved(x: torch.Tensor, call: Callable[[torch.Tensor], object]) -> Moved:
    """Loads and stores by tensor."""
    recorder = Recorder({"x": x})
    with interpreted(recorder), Operations(recorder):
        call(x)
    return {t["name"]: (t["loads"], t["stores"]) for t in totals(recorder.requests)}


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda x: x.t()[1:].unsqueeze(0).expand(4, 7, 3).detach(), {}),
        (lambda x: torch.empty_like(x), {}),
        (lambda x: x.exp(), {"x": (24, 0), "exp": (0, 24)}),
        (lambda x: x.zero_(), {"x": (0, 24)}),
        (lambda x: torch.exp(x, out=torch.empty_like(x)), {"x": (24, 0), "empty_like": (0, 24)}),
        (lambda x: torch.empty_like(x).copy_(x), {"x": (24, 0), "empty_like": (0, 24)}),
        (lambda x: x + x[0].expand(3, 8), {"x": (32, 0), "add": (0, 24)}),
        (lambda x: x.exp().exp(), {"x": (24, 0), "exp": (24, 24), "exp#2": (0, 24)}),
        (lambda x: x.max(dim=1), {"x": (24, 0), "max.values": (0, 3), "max.indices": (0, 3)}),
        (lambda x: x[0, 0].item(), {"x": (1, 0)}),
    ],
)
def test_an_operation_reads_its_inputs_and_writes_its_outputs_once(
    call: Callable[[torch.Tensor], object], expected: Moved
) -> None:
    assert moved(torch.ones(3, 8), call) == expected


def test_values_are_taken_down_before_an_operation_overwrites_them() -> None:
    x = torch.tensor([[0.0, 1.0], [2.0, 3.0]])
    recorder = Recorder({"x": x}, watching=True)
    with Operations(recorder):
        x.t().neg_()
    values = [
        (r.kind, r.operation, r.values.tolist()) for r in recorder.requests if r.values is not None
    ]
    assert values == [("load", "neg_", [0, 1, 2, 3]), ("store", "neg_", [0, -1, -2, -3])]


@interpreter
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_strided_input_counts_as_a_contiguous_one(layout: str) -> None:
    kernel, x = TRITON[1], lay_out(torch.randn(5, 37), layout)
    found = {t["name"]: (t["loads"], t["stores"]) for t in totals(requests_of(kernel, x))}
    reads, writes = kernel.traffic().elements({"M": 5, "N": 37})
    assert found == {"x": (reads, 0), "y": (0, writes)}


@jit
def _tally(x: tl.tensor, count: tl.tensor, BLOCK: tl.constexpr) -> None:
    columns = tl.arange(0, BLOCK)
    values = tl.load(x + columns, mask=columns < 5, other=0.0)
    tl.atomic_add(count, tl.sum(values))
    tl.store(count + 1, tl.load(count))


@interpreter
def test_atomics_read_and_write_scalars_are_one_element_and_memory_of_nobody_is_other() -> None:
    def call(x: torch.Tensor) -> None:
        _tally[(3,)](x, x.new_zeros(2), BLOCK=8)

    # zeros: 2 made; then each program: an atomic, a scalar load, a scalar store
    assert moved(torch.ones(5), call) == {"new_zeros": (6, 2 + 6), "x": (15, 0)}
    elsewhere = torch.zeros(2)
    found = moved(torch.ones(5), lambda x: _tally[(1,)](x, elsewhere, BLOCK=8))
    assert found == {"x": (5, 0), "other": (2, 2)}


@jit
def _twice(x: tl.tensor, count: tl.tensor) -> None:
    total = tl.load(x)
    tl.store(count, total)
    total = total + 1.0
    tl.store(count + 1, total)
    total = total + 1.0


@interpreter
def test_the_state_after_a_request_is_that_before_the_programs_next() -> None:
    x, elsewhere = torch.tensor([5.0]), torch.zeros(2)
    recorder = Recorder({"x": x}, watching=True)
    with interpreted(recorder):
        _twice[(2,)](x, elsewhere)
    assert [(r.kind, r.state["total"]) for r in recorder.requests] == [
        ("load", 5.0), ("store", 6.0), ("store", 7.0)
    ] * 2  # fmt: skip
