"""The order in which variants touch a row, pass by pass."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from experiments.count import traces_of
from experiments.data.records import Access
from experiments.sweep.client import Worker
from kernels.softmax.operation import SOFTMAX

TILED = {"three_pass": "three_pass.ThreePass", "online": "online.Online"}
WHOLE = {
    "fused": "fused.Fused",
    "fused_row": "fused_row.FusedRow",
    "fused_multirow": "multirow.fused_multirow.FusedMultirow",
}


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """A worker on the CPU, where kernels are interpreted even if the machine has a GPU."""
    worker = Worker("cpu", 0, tmp_path_factory.mktemp("order") / "worker.log")
    yield worker
    worker.stop()


def softmax(name: str, **tunables: Any) -> dict[str, Any]:
    return {"_target_": f"kernels.softmax.{(TILED | WHOLE)[name]}", **tunables}


def trace(worker: Worker, config: dict[str, Any], row: int) -> list[Access]:
    record = next(t for t in traces_of(worker, "variant", config) if t.rows == 4)
    return [access for access in record.accesses if access.row == row]


@pytest.mark.parametrize("row", range(4))
def test_online_loads_all_chunks_then_loads_and_stores_each(worker: Worker, row: int) -> None:
    order = [(a.sweep, a.kind, a.tensor, a.first, a.last) for a in trace(
        worker, softmax("online", block_size=1), row)]  # fmt: skip
    assert order == [
        (0, "load", "x", 0, 3), (0, "load", "x", 4, 7),
        (1, "load", "x", 0, 3), (1, "store", "y", 0, 3),
        (1, "load", "x", 4, 7), (1, "store", "y", 4, 7),
    ]  # fmt: skip


def test_reversed_online_takes_the_second_pass_from_its_last_chunk(worker: Worker) -> None:
    order = [(a.sweep, a.kind, a.first) for a in trace(
        worker, softmax("online", block_size=1, reverse=True), 1)]  # fmt: skip
    assert order == [
        (0, "load", 0), (0, "load", 4),
        (1, "load", 4), (1, "store", 4), (1, "load", 0), (1, "store", 0),
    ]  # fmt: skip


def test_capped_online_ends_a_row_before_it_begins_the_next(worker: Worker) -> None:
    config = softmax("online", block_size=1, rows_in_flight=2)
    record = next(t for t in traces_of(worker, "variant", config) if t.rows == 4)
    order = [(a.program, a.row, a.sweep) for a in record.accesses]
    assert list(dict.fromkeys(order)) == [
        (0, 0, 0), (0, 0, 1), (0, 2, 0), (0, 2, 1),
        (1, 1, 0), (1, 1, 1), (1, 3, 0), (1, 3, 1),
    ]  # fmt: skip


def test_multirow_loads_all_its_rows_before_it_stores_any(worker: Worker) -> None:
    config = softmax("fused_multirow", rows_per_program=2)
    record = next(t for t in traces_of(worker, "variant", config) if t.rows == 4)
    assert [(a.program, a.kind, a.row) for a in record.accesses] == [
        (program, kind, 2 * program + row)
        for program in (0, 1) for kind in ("load", "store") for row in (0, 1)
    ]  # fmt: skip


def test_the_running_statistics_are_those_of_what_was_loaded(worker: Worker) -> None:
    x = SOFTMAX.make_input((4, 8), torch.float32, "cpu", 0).double()
    first, second, *rest = trace(worker, softmax("online", block_size=1), 2)
    for access, loaded in ((first, x[2, :4]), (second, x[2])):
        assert access.maximum == pytest.approx(loaded.max().item(), rel=1e-5)
        assert access.total == pytest.approx((loaded - loaded.max()).exp().sum().item(), rel=1e-5)
    assert {(a.maximum, a.total) for a in rest} == {(second.maximum, second.total)}


@pytest.mark.parametrize(
    ("name", "passes"),
    [("fused", 1), ("fused_row", 1), ("fused_multirow", 1), ("online", 2), ("three_pass", 3)],
)
def test_a_trace_has_as_many_passes_as_the_variant(worker: Worker, name: str, passes: int) -> None:
    config = softmax(name, block_size=1) if name in TILED else softmax(name)
    assert {access.sweep for access in trace(worker, config, 1)} == set(range(passes))


def test_each_eager_operation_is_a_pass_of_its_own(worker: Worker) -> None:
    accesses = trace(worker, {"_target_": "kernels.softmax.naive.Naive"}, 0)
    wide = [(a.sweep, a.kind) for a in accesses if a.last == 7]
    assert wide == [
        (0, "load"), (1, "load"), (1, "store"), (2, "load"), (2, "store"),
        (3, "load"), (4, "load"), (4, "store"),
    ]  # fmt: skip
