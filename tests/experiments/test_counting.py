"""What a variant requests is what it declares; a trace shows its order, values and statistics."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from experiments.count import counts_of, traces_of
from experiments.data.records import EXAMPLE, Access, Count
from experiments.sweep.client import Worker

CLASSES = {
    "three_pass": "ThreePass", "online": "Online", "hybrid": "Hybrid", "fused": "Fused",
    "fused_row": "FusedRow", "fused_multirow": "FusedMultirow",
}  # fmt: skip
ITEMSIZE = {"float32": 4, "float16": 2, "bfloat16": 2, "float64": 8}
FORGETFUL = {"_target_": "tests.doubles.forgetful.Forgetful"}
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


def trace(
    worker: Worker, config: dict[str, Any], rows: Any = EXAMPLE, dtype: str = "float32"
) -> list[Access]:
    """The accesses of a call on these rows."""
    point = {
        "kernel": config, "rows": len(rows), "cols": len(rows[0]), "dtype": dtype,
        "input": [list(row) for row in rows], "trace": True,
    }  # fmt: skip
    reply = worker.request({"do": "count", "point": point}, {"counting": 60.0}, "counting")
    assert reply["reason"] is None, reply["reason"]
    return [Access.model_validate(access) for access in reply["accesses"]]


def order(worker: Worker, config: dict[str, Any]) -> list[Access]:
    """The accesses of the seeded case of four rows and eight columns."""
    record = next(t for t in traces_of(worker, "variant", config) if t.rows == 4)
    return record.accesses


def test_passes_are_in_the_order_that_the_variant_makes_them(worker: Worker) -> None:
    for row in range(4):
        accesses = order(worker, softmax("online", block_size=1))
        assert [(a.sweep, a.kind, a.tensor, a.first, a.last) for a in accesses if a.row == row] == [
            (0, "load", "x", 0, 3), (0, "load", "x", 4, 7),
            (1, "load", "x", 0, 3), (1, "store", "y", 0, 3),
            (1, "load", "x", 4, 7), (1, "store", "y", 4, 7),
        ]  # fmt: skip
    backwards = order(worker, softmax("online", block_size=1, reverse=True))
    assert [(a.sweep, a.kind, a.first) for a in backwards if a.row == 1] == [
        (0, "load", 0), (0, "load", 4),
        (1, "load", 4), (1, "store", 4), (1, "load", 0), (1, "store", 0),
    ]  # fmt: skip
    capped = order(worker, softmax("online", block_size=1, rows_in_flight=2))
    assert list(dict.fromkeys((a.program, a.row, a.sweep) for a in capped)) == [
        (0, 0, 0), (0, 0, 1), (0, 2, 0), (0, 2, 1),
        (1, 1, 0), (1, 1, 1), (1, 3, 0), (1, 3, 1),
    ]  # fmt: skip
    several = order(worker, softmax("fused_multirow", rows_per_program=2))
    assert [(a.program, a.kind, a.row) for a in several] == [
        (program, kind, 2 * program + row)
        for program in (0, 1) for kind in ("load", "store") for row in (0, 1)
    ]  # fmt: skip
    for config, number in ((softmax("fused"), 1), (softmax("three_pass", block_size=1), 3)):
        assert {a.sweep for a in order(worker, config)} == set(range(number))


def own(access: Access) -> tuple[Any, Any]:
    """The kernel's own running maximum and sum after an access."""
    assert access.state is not None
    return access.state["maximum"], access.state["total"]


@pytest.mark.parametrize("block", [2, 4])
@pytest.mark.parametrize("name", ["online", "three_pass"])
def test_values_and_statistics_are_those_of_what_was_moved(
    worker: Worker, name: str, block: int
) -> None:
    rows = [[*row[:7]] for row in EXAMPLE]
    y = torch.softmax(torch.tensor(rows, dtype=torch.float64), dim=1)
    for access in trace(worker, softmax(name, block_size=block), rows):
        columns = slice(access.first, access.last + 1)
        if access.kind == "load":
            assert access.values == pytest.approx(rows[access.row][columns], rel=1e-6)
        else:
            assert access.values == pytest.approx(y[access.row, columns].tolist(), rel=1e-5)
        seen = rows[access.row][: access.last + 1] if access.sweep == 0 else rows[access.row]
        loaded = torch.tensor(seen, dtype=torch.float64)
        sums = (loaded.max().item(), (loaded - loaded.max()).exp().sum().item())
        assert (access.maximum, access.total) == pytest.approx(sums, rel=2e-6)
        if name == "online":
            assert own(access) == pytest.approx(sums, rel=2e-6)


def test_a_sum_that_is_not_rescaled_shows_in_the_kernels_own_statistics(worker: Worker) -> None:
    # the second block of the third row holds no new maximum, those of a rising row all do
    rows = ((4.0, 3, 2, 1), (1, 2, 3, 4))
    right, wrong = trace(worker, FORGETFUL | {"block_size": 2}, rows)[1::6]
    assert own(right) == pytest.approx((right.maximum, right.total), rel=2e-6)
    assert own(wrong)[0] == wrong.maximum
    assert own(wrong)[1] == pytest.approx(1.367879 * 2, rel=1e-6)
    assert wrong.total == pytest.approx(1.553, rel=1e-3)


def test_state_is_named_as_the_kernel_names_it_and_appears_when_it_has_it(worker: Worker) -> None:
    accesses = trace(worker, softmax("three_pass", block_size=4))
    names = [list(access.state or {}) for access in accesses[:4]]
    assert names[0] == ["maxima"]
    assert names[1] == names[2] == ["maxima", "maximum", "sums"]
    assert names[3] == ["maxima", "maximum", "sums", "total"]
    assert accesses[0].state == {"maxima": [2.0, -1.0, 3.0, 0.5]}
    for name in ("fused", "fused_row"):  # what a program had as it ended stays with its last access
        load, store = (a for a in trace(worker, softmax(name)) if a.row == 2)
        assert load.state == store.state
        assert (store.state or {})["exponentials"] == pytest.approx(
            [float(torch.tensor(value - 3.5).exp()) for value in EXAMPLE[2]], rel=1e-6
        )


def test_other_dtypes_are_numbers_too_and_padding_goes_by_its_name(worker: Worker) -> None:
    for dtype in ("float16", "bfloat16", "float64"):
        load, *_ = trace(worker, softmax("online", block_size=4), dtype=dtype)
        assert load.values == list(EXAMPLE[0][:4])
    load, *_ = trace(worker, softmax("online", block_size=4), ((1.0, 2.0, 3.0),))
    assert load.values == [1.0, 2.0, 3.0]
    assert (load.state or {})["values"] == [1.0, 2.0, 3.0, "-inf"]
    assert Access.model_validate_json(load.model_dump_json()) == load


def test_operations_of_pytorch_go_by_their_names_with_what_they_made(worker: Worker) -> None:
    accesses = [a for a in trace(worker, NAIVE) if a.row == 0]
    assert list(dict.fromkeys(a.operation for a in accesses)) == ["max", "sub", "exp", "sum", "div"]
    assert [(a.sweep, a.kind) for a in accesses if a.last == 7] == [
        (0, "load"), (1, "load"), (1, "store"), (2, "load"), (2, "store"),
        (3, "load"), (4, "load"), (4, "store"),
    ]  # fmt: skip
    stored = {a.tensor: a.values for a in accesses if a.kind == "store"}
    assert stored["max.values"] == [3.0]
    assert stored["max.indices"] == [2.0]
    assert stored["sub"] == [value - 3.0 for value in EXAMPLE[0]]
    assert stored["sum"] == pytest.approx([1.863681])
    assert stored["y"] == pytest.approx(torch.softmax(torch.tensor(EXAMPLE[0]), 0).tolist())
    assert all(a.state is None for a in accesses)
