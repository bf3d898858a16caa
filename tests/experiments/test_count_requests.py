"""What counts as a request, and that a variant requests what it declares."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
import torch

from experiments.count import counts_of
from experiments.data.records import Count
from experiments.sweep.client import Worker
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


CLASSES = {
    "three_pass": "ThreePass", "online": "Online", "hybrid": "Hybrid", "fused": "Fused",
    "fused_row": "FusedRow", "fused_multirow": "FusedMultirow",
}  # fmt: skip
ITEMSIZE = {"float32": 4, "float16": 2, "bfloat16": 2, "float64": 8}
NAIVE = {"_target_": "kernels.softmax.naive.Naive"}


def softmax(name: str, **tunables: Any) -> dict[str, Any]:
    return {"_target_": f"kernels.softmax.{name}.{CLASSES[name]}", **tunables}


def count(
    worker: Worker, config: dict[str, Any], shape: tuple[int, int], dtype: str = "float32"
) -> Count:
    (record,) = counts_of(worker, "variant", config, [shape], [dtype])
    assert Count.model_validate_json(record.model_dump_json()) == record
    return record


def total(record: Count, field: str) -> int:
    return sum(getattr(tensor, field) for tensor in record.tensors)


@pytest.mark.parametrize(
    ("config", "shape", "dtype"),
    [
        (softmax("hybrid", block_size=32), (3, 32), "float64"),
        (softmax("hybrid", block_size=32), (3, 33), "float32"),
        (softmax("online", block_size=128), (2, 1), "bfloat16"),
        (softmax("online", block_size=8, reverse=True, rows_in_flight=3), (7, 20), "float32"),
        (softmax("online", block_size=16, evict="last_first", num_stages=2), (4, 70), "float16"),
        (softmax("fused_multirow", rows_per_program=4), (7, 13), "float16"),
        (softmax("three_pass", block_size=64), (1, 5), "float32"),  # masked lanes request nothing
        (softmax("fused_row"), (0, 5), "float32"),
    ],
)
def test_counted_equals_modelled_exactly(
    worker: Worker, config: dict[str, Any], shape: tuple[int, int], dtype: str
) -> None:
    record = count(worker, config, shape, dtype)
    assert record.method != "none", record.reason
    assert total(record, "loads") == record.model_reads
    assert total(record, "stores") == record.model_writes
    assert total(record, "load_bytes") == record.model_reads * ITEMSIZE[dtype]
    assert total(record, "store_bytes") == record.model_writes * ITEMSIZE[dtype]
    assert record.difference is None
    assert {t.name for t in record.tensors} == ({"x", "y"} if shape[0] else set())


def test_what_differs_from_the_model_is_said_in_the_models_words(worker: Worker) -> None:
    m, n = 5, 37
    naive = count(worker, NAIVE, (m, n), "float16")
    assert total(naive, "loads") == naive.model_reads == 5 * m * n + 2 * m
    assert total(naive, "stores") - m == naive.model_writes == 3 * m * n + 2 * m
    (indices,) = [tensor for tensor in naive.tensors if tensor.dtype == "int64"]
    assert (indices.name, indices.stores, indices.store_bytes) == ("max.indices", m, 8 * m)
    words = "writes 3MN + 3M where the model says 3MN + 2M: max.indices (int64)"
    assert naive.difference == words
    record = count(worker, {"_target_": "tests.doubles.traffic.HiddenCopy"}, (3, 8))
    words = "reads 2MN where the model says MN; writes 2MN where the model says MN"
    assert record.difference == words
    assert [(t.name, t.loads, t.stores) for t in record.tensors] == [
        ("x", 24, 0), ("clone", 24, 24), ("y", 0, 24),
    ]  # fmt: skip
