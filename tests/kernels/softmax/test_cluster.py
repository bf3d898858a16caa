from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.softmax.cluster import LANES, SHARED_BYTES, cut
from kernels.softmax.cluster_reduce import ClusterReduce

SM_SHARED_BYTES = 227 << 10


@given(
    cols=st.integers(1, 1 << 20),
    rows=st.integers(1, 100_000),
    itemsize=st.sampled_from([2, 4]),
    width=st.sampled_from([1, 2, 4, 8]),
    sms=st.sampled_from([1, 78, 132, 148]),
)
def test_a_cut_covers_the_row_and_fits_on_the_chip(
    cols: int, rows: int, itemsize: int, width: int, sms: int
) -> None:
    width = min(width, 16 // itemsize)
    plan = cut((rows, cols), itemsize, width, sms)
    if plan is None:
        assert cols * itemsize > 4 << 20 or width * itemsize < 16
        return
    assert (plan.chunks - 1) * plan.chunk < cols <= plan.chunks * plan.chunk
    assert plan.chunk == plan.programs * plan.warps * LANES * width
    threads = plan.warps * LANES
    held = (plan.chunks - plan.shared) * width
    assert plan.shared < plan.chunks
    assert held * (itemsize if plan.packed else 4) <= 256  # bytes in registers of a thread
    assert plan.shared * threads * width * itemsize <= SHARED_BYTES
    slots = 8 * (plan.programs * plan.warps + 1)
    assert plan.shared * threads * 16 + slots + 1024 <= SM_SHARED_BYTES


@given(cols=st.integers(1, 1 << 20), itemsize=st.sampled_from([2, 4]))
def test_rows_of_whole_vectors_fit_up_to_four_megabytes(cols: int, itemsize: int) -> None:
    width = 16 // itemsize
    assert cut((4096, max(width, cols // width * width)), itemsize, width, 132) is not None


def test_few_rows_are_spread_wider() -> None:
    one, many = (cut((rows, 32768), 4, 4, 132) for rows in (1, 4096))
    assert one is not None
    assert many is not None
    assert (many.programs, many.warps) == (8, 4)
    assert one.programs == 16


@pytest.mark.parametrize(
    ("block", "cluster"),
    [(256, (1, 4)), (8192, (1, 8)), (16384, (2, 8)), (131072, (16, 8)), (262144, (16, 16))],
)
def test_clusters_that_the_compiler_reduces_grow_with_the_row(
    block: int, cluster: tuple[int, int]
) -> None:
    assert ClusterReduce()._cluster(block) == cluster
