"""A trace tells what the kernel itself did: order, values, and its own running statistics."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.data.records import EXAMPLE, Access, Trace, read_records
from experiments.sweep.client import Worker

SOFTMAX = "kernels.softmax"
ONLINE = f"{SOFTMAX}.online.Online"
FORGETFUL = "tests.doubles.forgetful.Forgetful"
quickly = settings(max_examples=25, deadline=None)
numbers = st.floats(-30, 30, width=16)
matrices = st.integers(1, 9).flatmap(
    lambda n: st.lists(st.lists(numbers, min_size=n, max_size=n), min_size=1, max_size=3)
)
blocks = st.sampled_from([1, 2, 4, 8])


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """A worker on the CPU, where kernels are interpreted even if the machine has a GPU."""
    worker = Worker("cpu", 0, tmp_path_factory.mktemp("traces") / "worker.log")
    yield worker
    worker.stop()


def trace(
    worker: Worker, target: str, rows: Any = EXAMPLE, dtype: str = "float32", **tunables: Any
) -> list[Access]:
    """The accesses of a call on these rows."""
    point = {
        "kernel": {"_target_": target, **tunables}, "rows": len(rows), "cols": len(rows[0]),
        "dtype": dtype, "input": [list(row) for row in rows], "trace": True,
    }  # fmt: skip
    reply = worker.request({"do": "count", "point": point}, {"counting": 60.0}, "counting")
    assert reply["reason"] is None, reply["reason"]
    return [Access.model_validate(access) for access in reply["accesses"]]


def own(access: Access) -> tuple[Any, Any]:
    """The kernel's own running maximum and sum after an access."""
    assert access.state is not None
    return access.state["maximum"], access.state["total"]


def first_pass(accesses: list[Access]) -> list[Access]:
    return [access for access in accesses if access.sweep == 0]


@quickly
@given(matrices, blocks)
def test_onlines_own_statistics_after_every_block_are_those_of_what_it_loaded(
    worker: Worker, rows: list[list[float]], block: int
) -> None:
    for access in trace(worker, ONLINE, rows, block_size=block):
        seen = rows[access.row][: access.last + 1] if access.sweep == 0 else rows[access.row]
        loaded = torch.tensor(seen, dtype=torch.float64)
        total = (loaded - loaded.max()).exp().sum().item()
        assert own(access) == pytest.approx((loaded.max().item(), total), rel=2e-6)
        assert (access.maximum, access.total) == pytest.approx(own(access), rel=2e-6)


def test_a_sum_that_is_not_rescaled_shows_in_the_kernels_own_statistics(worker: Worker) -> None:
    # the second block of the third row holds no new maximum, those of a rising row all do
    right, wrong = trace(worker, FORGETFUL, ((4.0, 3, 2, 1), (1, 2, 3, 4)), block_size=2)[1::6]
    assert own(right) == pytest.approx((right.maximum, right.total), rel=2e-6)
    assert own(wrong)[0] == wrong.maximum
    assert own(wrong)[1] == pytest.approx(1.367879 * 2, rel=1e-6)
    assert wrong.total == pytest.approx(1.553, rel=1e-3)


def test_statistics_are_named_as_the_kernel_names_them_and_appear_when_it_has_them(
    worker: Worker,
) -> None:
    first, second, third, fourth, *_ = trace(
        worker, f"{SOFTMAX}.three_pass.ThreePass", block_size=4
    )
    names = [list(access.state or {}) for access in (first, second, third, fourth)]
    assert names[0] == ["maxima"]
    assert names[1] == names[2] == ["maxima", "maximum", "sums"]
    assert names[3] == ["maxima", "maximum", "sums", "total"]
    assert first.state == {"maxima": [2.0, -1.0, 3.0, 0.5]}


@pytest.mark.parametrize("name", ["fused.Fused", "fused_row.FusedRow"])
def test_what_a_program_had_as_it_ended_is_the_state_after_its_last_access(
    worker: Worker, name: str
) -> None:
    load, store = (a for a in trace(worker, f"{SOFTMAX}.{name}") if a.row == 2)
    assert load.state == store.state
    assert (store.state or {})["exponentials"] == pytest.approx(
        [float(torch.tensor(value - 3.5).exp()) for value in EXAMPLE[2]], rel=1e-6
    )


@quickly
@given(matrices, blocks, st.sampled_from(["online.Online", "three_pass.ThreePass"]))
def test_values_are_those_of_the_input_and_of_the_result(
    worker: Worker, rows: list[list[float]], block: int, name: str
) -> None:
    y = torch.softmax(torch.tensor(rows, dtype=torch.float64), dim=1)
    for access in trace(worker, f"{SOFTMAX}.{name}", rows, block_size=block):
        columns = slice(access.first, access.last + 1)
        if access.kind == "load":
            assert access.values == pytest.approx(rows[access.row][columns], rel=1e-6)
        else:
            assert access.values == pytest.approx(y[access.row, columns].tolist(), rel=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_values_of_other_dtypes_are_numbers_too(worker: Worker, dtype: str) -> None:
    load, *_ = trace(worker, ONLINE, dtype=dtype, block_size=4)
    assert load.values == list(EXAMPLE[0][:4])


def test_padding_goes_by_its_name(worker: Worker) -> None:
    load, *_ = trace(worker, ONLINE, ((1.0, 2.0, 3.0),), block_size=4)
    assert load.values == [1.0, 2.0, 3.0]
    assert (load.state or {})["values"] == [1.0, 2.0, 3.0, "-inf"]
    assert Access.model_validate_json(load.model_dump_json()) == load


def test_operations_of_pytorch_go_by_their_names_with_what_they_made(worker: Worker) -> None:
    accesses = [a for a in trace(worker, f"{SOFTMAX}.naive.Naive") if a.row == 0]
    assert list(dict.fromkeys(a.operation for a in accesses)) == ["max", "sub", "exp", "sum", "div"]
    stored = {a.tensor: a.values for a in accesses if a.kind == "store"}
    assert stored["max.values"] == [3.0]
    assert stored["max.indices"] == [2.0]
    assert stored["sub"] == [value - 3.0 for value in EXAMPLE[0]]
    assert stored["sum"] == pytest.approx([1.863681])
    assert stored["y"] == pytest.approx(torch.softmax(torch.tensor(EXAMPLE[0]), 0).tolist())
    assert all(a.state is None for a in accesses)


def test_a_trace_of_an_older_file_is_read_without_what_it_lacks(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    path.write_text(
        '{"schema_version":1,"kernel":"torch","operation":"softmax","params":{},"source":"0",'
        '"rows":1,"cols":2,"dtype":"float32","accesses":[{"program":0,"sweep":0,"kind":"load",'
        '"tensor":"x","row":0,"first":0,"last":1,"maximum":null,"total":null}]}\n'
    )
    (record,) = read_records(path, Trace)
    assert (record.input, record.model_reads, record.accesses[0].values) == (None, None, None)
