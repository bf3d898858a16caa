from __future__ import annotations

import dataclasses

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernels.device import Device
from kernels.softmax.cluster import LANES, SHARED_BYTES, Cluster, cut

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
    letters = 8 * (plan.programs * plan.warps + 1)
    assert plan.shared * threads * 16 + letters + 1024 <= SM_SHARED_BYTES


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
    ("change", "dtype", "cols", "reason"),
    [
        ({"capability": (8, 0)}, torch.float32, 1024, "sm_90 or newer"),
        ({"kind": "cpu", "capability": None}, torch.float32, 1024, "CUDA device"),
        ({}, torch.float64, 1024, "not float64"),
        ({}, torch.float32, (1 << 20) + 4, "do not fit"),
        ({}, torch.float32, (1 << 19) + 1, "do not fit"),
        ({"capability": (12, 0), "name": "a card"}, torch.float32, 65536, "a card has fewer"),
    ],
)
def test_what_it_cannot_do_is_said(
    h200: Device, change: dict[str, object], dtype: torch.dtype, cols: int, reason: str
) -> None:
    device = dataclasses.replace(h200, **change)  # type: ignore[arg-type]
    said = Cluster().unsupported((4096, cols), dtype, device)
    assert said is not None
    assert reason in said


def test_it_takes_every_width_up_to_a_million_on_an_h200(h200: Device) -> None:
    pytest.importorskip("triton")
    for dtype in Cluster.dtypes:
        for cols in (1, 7, 1024, 50257, 128256, 262144, 524288, 1 << 20):
            assert Cluster().unsupported((4096, cols), dtype, h200) is None
