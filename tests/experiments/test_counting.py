"""What a variant requests is what it declares, in whole elements, wherever the tests run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from experiments.count import counts_of
from experiments.data.records import Count
from experiments.sweep.client import Worker

TILED = {
    "three_pass": "three_pass.ThreePass",
    "online": "online.Online",
    "hybrid": "hybrid.Hybrid",
}
WHOLE = {
    "fused": "fused.Fused",
    "fused_row": "fused_row.FusedRow",
    "fused_multirow": "multirow.fused_multirow.FusedMultirow",
    "cluster_reduce": "cluster_reduce.ClusterReduce",
}
ITEMSIZE = {"float32": 4, "float16": 2, "bfloat16": 2, "float64": 8}

shapes = st.tuples(st.integers(0, 12), st.integers(1, 70))
dtypes = st.sampled_from(sorted(ITEMSIZE))
quickly = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def softmax(name: str, **tunables: Any) -> dict[str, Any]:
    return {"_target_": f"kernels.softmax.{(TILED | WHOLE)[name]}", **tunables}


def copy_triton(block_size: int) -> dict[str, Any]:
    return {"_target_": "kernels.copy.copy_triton.CopyTriton", "block_size": block_size}


blocks = st.integers(0, 7).map(lambda power: 1 << power)
variants = st.one_of(
    st.builds(lambda n, b: softmax(n, block_size=b), st.sampled_from(sorted(TILED)), blocks),
    st.sampled_from([softmax(name) for name in WHOLE]),
    st.builds(
        lambda rows, warps: softmax("fused_multirow", rows_per_program=rows, num_warps=warps),
        st.sampled_from((None, 1, 2, 8)),
        st.sampled_from((None, 1, 4)),
    ),
    st.builds(
        lambda block, **ways: softmax("online", block_size=block, **ways),
        blocks,
        num_stages=st.integers(1, 3),
        reverse=st.booleans(),
        evict=st.sampled_from(("none", "first", "last_first")),
        rows_in_flight=st.sampled_from((None, 1, 3, 100, "l2")),
    ),
    st.builds(copy_triton, blocks),
    st.just({"_target_": "kernels.copy.copy.Copy"}),
)


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """A worker on the CPU, where kernels are interpreted even if the machine has a GPU."""
    worker = Worker("cpu", 0, tmp_path_factory.mktemp("counting") / "worker.log")
    yield worker
    worker.stop()


def count(
    worker: Worker, config: dict[str, Any], shape: tuple[int, int], dtype: str = "float32"
) -> Count:
    (record,) = counts_of(worker, "variant", config, [shape], [dtype])
    assert Count.model_validate_json(record.model_dump_json()) == record
    return record


def total(record: Count, field: str) -> int:
    return sum(getattr(tensor, field) for tensor in record.tensors)


@quickly
@given(variants, shapes, dtypes)
@example(softmax("hybrid", block_size=32), (3, 32), "float32")
@example(softmax("hybrid", block_size=32), (3, 33), "float32")
@example(softmax("online", block_size=128), (2, 1), "bfloat16")
@example(softmax("online", block_size=8, reverse=True, rows_in_flight=3), (7, 20), "float32")
@example(softmax("fused_multirow", rows_per_program=4), (7, 13), "float16")
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


@quickly
@given(st.integers(1, 12), st.integers(2, 70), dtypes)
def test_naive_differs_by_its_indices_alone(worker: Worker, m: int, n: int, dtype: str) -> None:
    record = count(worker, {"_target_": "kernels.softmax.naive.Naive"}, (m, n), dtype)
    assert total(record, "loads") == record.model_reads == 5 * m * n + 2 * m
    assert total(record, "stores") - m == record.model_writes == 3 * m * n + 2 * m
    (indices,) = [tensor for tensor in record.tensors if tensor.dtype == "int64"]
    assert (indices.name, indices.stores, indices.store_bytes) == ("max.indices", m, 8 * m)
    words = "writes 3MN + 3M where the model says 3MN + 2M: max.indices (int64)"
    assert record.difference == words


@quickly
@given(st.integers(1, 12), st.integers(2, 70), dtypes)
def test_one_read_too_many_is_told_in_the_models_words(
    worker: Worker, m: int, n: int, dtype: str
) -> None:
    reread = {"_target_": "tests.doubles.traffic.Reread", "block_size": 16}
    record = count(worker, reread, (m, n), dtype)
    assert record.difference == "reads 3MN where the model says 2MN"


def test_a_copy_hidden_around_a_triton_kernel_is_traffic(worker: Worker) -> None:
    record = count(worker, {"_target_": "tests.doubles.traffic.HiddenCopy"}, (3, 8))
    words = "reads 2MN where the model says MN; writes 2MN where the model says MN"
    assert record.difference == words
    assert [(t.name, t.loads, t.stores) for t in record.tensors] == [
        ("x", 24, 0), ("clone", 24, 24), ("y", 0, 24),
    ]  # fmt: skip


def test_masked_lanes_are_no_requests(worker: Worker) -> None:
    x, y = count(worker, softmax("online", block_size=64), (1, 5)).tensors
    assert (x.loads, y.stores) == (10, 5)


@pytest.mark.parametrize("name", ["naive_script.NaiveScript", "compiled.Compiled"])
def test_what_a_compiler_decides_says_that_it_is_not_countable(worker: Worker, name: str) -> None:
    record = count(worker, {"_target_": f"kernels.softmax.{name}"}, (4, 8))
    assert (record.method, record.tensors, record.difference) == ("none", [], None)
    assert str(record.reason).startswith("not countable: ")
