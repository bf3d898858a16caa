"""How variants cut rows by shape, dtype and a card's limits; no kernel runs."""

from __future__ import annotations

from dataclasses import astuple, replace
from unittest.mock import MagicMock, patch

import pytest
import torch

from kernels.cluster.cut import LANES, cut
from kernels.device import Device, resident_programs
from kernels.softmax import fused
from kernels.softmax.auto import choice
from kernels.softmax.cluster import Cluster
from kernels.softmax.cooperative import slices_of
from kernels.softmax.fused import Fused
from kernels.softmax.fused_multirow import FusedMultirow
from kernels.softmax.peers import configuration
from kernels.softmax.tiles import vector
from tests.kernels.conftest import H200

F16, BF16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64


def test_helions_configuration_fills_a_tile_and_loops_over_wide_rows() -> None:
    whole, loop = {"reduction_loops": [None]}, {"reduction_loops": [8192]}
    for shape, rows, warps, more in (
        *(((4096, 256), 8, 4, whole), ((4096, 300), 4, 4, whole), ((3, 8), 4, 4, whole)),
        *(((1, 32768), 1, 32, whole), ((64, 32769), 1, 16, loop), ((64, 1), 64, 4, {})),
    ):
        wanted = {"block_sizes": [rows], "num_warps": warps, "num_stages": 1}
        assert configuration(*shape) == wanted | more


def test_programs_follow_the_scarcest_resource(h200: Device) -> None:
    for registers, warps, shared, an_sm in (
        (128, 8, 32, 2),  # 65536 / (128 · 32 · 8)
        (129, 8, 32, 1),  # a register more takes eight more: 136 of them for each thread
        (104, 4, 16, 4),  # 19 warps of 3328 registers would do, of which an SM places 16
        (104, 2, 16, 8),  # and not 9: each of the four schedulers holds 4 of the 19
        (16, 4, 16, 16),  # the 64 warps alone
        (32, 4, 115_712, 2),  # shared memory, with the kilobyte that the driver takes
        (32, 4, 115_713, 1),
        (32, 4, 232_449, 0),  # not even one
        (0, 4, 0, 16),  # as little as can be: nothing is divided by zero
    ):
        assert resident_programs(registers, warps, shared, h200) == 132 * an_sm
    with pytest.raises(ValueError, match="without one of its limits"):
        resident_programs(32, 4, 0, replace(h200, registers_per_sm=None))


def test_vectors_are_the_longest_that_rows_and_strides_are_made_of() -> None:
    for shape, strides, start, dtype, elements in (
        *(((2, 1000), (1000, 1), 0, F32, 4), ((2, 1000), (1000, 1), 0, BF16, 8)),
        *(((2, 1000), (1002, 1), 0, F32, 2), ((2, 1004), (1004, 1), 0, BF16, 4)),
        *(((2, 1023), (1024, 1), 0, F32, 1), ((2, 64), (64, 1), 0, F64, 2)),
        ((2, 8), (0, 1), 0, F32, 4),
        *(((2, 64), (64, 1), start, F32, start) for start in (1, 2)),  # vectors begin as rows do
        ((64, 64), (1, 64), 0, F32, 1),  # no neighbouring columns
        ((1, 64), (63, 1), 0, F32, 4),  # the stride of a single row does not matter
    ):
        x = torch.empty(4200, dtype=dtype).as_strided(shape, strides, start)
        assert vector(x) == elements, (shape, strides, start)


def test_auto_chooses_for_an_h200(h200: Device) -> None:
    pytest.importorskip("triton")
    for rows, cols, dtype, name in (
        (4096, 1024, F32, "FusedMultirow"),  # 4 KB
        (4096, 1025, F32, "Cluster"),
        (4096, 1001, F16, "Cluster"),  # no whole number of vectors
        (4096, 511, F16, "FusedMultirow"),
        (4096, 1 << 18, F32, "Cluster"),
        (4096, (1 << 18) + 4, F32, "Cooperative"),
        (16, (1 << 18) + 8, BF16, "Cooperative"),  # few and wide
        (17, (1 << 18) + 8, BF16, "Cluster"),
        (17, 1 << 20, BF16, "Cluster"),
        (4096, (1 << 20) + 8, BF16, "Cooperative"),
        (4096, 1 << 23, F32, "Online"),
        (4096, 8192, F64, "FusedRow"),
        (4096, 8200, F64, "Online"),
    ):
        chosen = choice((rows, cols), dtype, h200, 16 // dtype.itemsize)
        assert type(chosen).__name__ == name


def test_as_many_programs_of_fused_as_the_device_holds_share_out_the_rows(h200: Device) -> None:
    for rows, registers, shared, programs in (
        (4096, 64, 16416, 132 * 4),  # as many as the registers of all SMs hold
        (300, 64, 16416, 300),  # no more than there are rows
        (4096, 255, 233473, 132),  # nothing fits by the numbers, yet an SM always runs one
    ):
        function = MagicMock()
        function.warmup().configure_mock(n_regs=registers, **{"metadata.shared": shared})
        with patch.multiple(fused, _fused=function, device_of=lambda _: h200):
            Fused()(torch.empty(rows, 9))
        function.__getitem__.assert_called_once_with((programs,))


def test_stages_of_fused_are_as_many_as_rows_fit(h200: Device) -> None:
    for cols, dtype, stages in (
        *((4096, F32, 4), (16384, F32, 4)),  # three rows of 64 KiB
        *((32768, F32, 2), (32768, F16, 4), (65536, F16, 2)),  # one of 128 KiB
        (65536, F32, 1),  # none of 256 KiB
    ):
        assert Fused()._stages(cols, dtype, h200) == stages
    small = replace(h200, shared_bytes_per_block=101_376)
    assert Fused()._stages(1024, F32, small) == 2
    assert Fused(num_stages=3)._stages(1024, F32, small) == 3


@pytest.mark.parametrize(("cols", "itemsize"), [(425_984, 4), (655_360, 2)])
def test_a_clusters_slots_fit_beside_what_triton_asks_of_the_driver(
    cols: int, itemsize: int
) -> None:
    """Triton asks for more than 48 KB by what it allocates, and the slots are not its own."""
    for programs in (1, 2, 4, 8, 16):
        for warps in (1, 2, 4, 8, 16):
            plan = cut((64, cols), itemsize, 16 // itemsize, H200, programs, warps)
            allocated = plan.shared * warps * LANES * 16 if plan else 0
            slots = 8 * (programs * warps + 1)
            assert allocated > 48 << 10 or allocated + slots <= 48 << 10


def test_the_cut_of_a_row_follows_what_a_card_holds() -> None:
    def cuts(*shapes: tuple[int, int], itemsize: int = 2) -> list[tuple[int, int]]:
        plans = [cut(shape, itemsize, 16 // itemsize, H200) for shape in shapes]
        return [(plan.programs, plan.warps) for plan in plans if plan]

    # the best of all cuts measured at 268 MB, or within 1.3 % of it
    assert cuts((6554, 20480), (7085, 18944), (1638, 81920)) == [(2, 4), (2, 4), (8, 4)]
    assert cuts((1024, 262144), (2093, 128256), itemsize=4) == [(16, 8), (16, 4)]
    assert cuts((64, 1 << 20), (1024, 1 << 20)) == [(16, 8)] * 2  # two programs an SM
    # seven GPCs have room for a cluster of 16
    assert cuts((7, 262144), (8, 262144), (15, 262144), itemsize=4) == [(16, 8), (8, 16), (16, 8)]
    assert cuts((1, 32768), (4096, 32768), itemsize=4) == [(16, 4), (8, 8)]  # few rows spread wider
    crowded = replace(H200, clusters=(528, 248, 60, 8))  # a card that holds few large clusters
    plan = cut((1024, 131072), 2, 8, crowded)
    assert plan is not None
    assert plan.programs < 16


def test_slices_spread_over_all_sms_whatever_the_rows(h200: Device) -> None:
    for cols, number, width, warps, groups in (
        (131072, 33, 3984, 4, 16),  # 528 programs, four an SM, each with slices of two rows
        (1 << 19, 132, 3984, 4, 4),
        (1 << 20, 132, 7952, 8, 2),  # two programs an SM
        (1 << 21, 264, 7952, 4, 2),  # four of one slice: there is no room for twice two rows
        (1 << 22, 528, 7952, 4, 1),
        (5, 1, 16, 4, 256),  # a row narrower than any slice
    ):
        found = slices_of(cols, h200, whole=True)
        assert (found.number, found.width, found.warps, found.groups(256)) == (
            *(number, width, warps, groups),
        )
        assert found.deferred == (cols <= 1 << 20)
    found = slices_of(300_000, h200, whole=True)
    assert (found.number, found.groups(16)) == (75, 6)  # rounds of six rows, where seven fit


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_a_batch_invariant_row_is_cut_alike_whatever_the_rows(
    h200: Device, dtype: torch.dtype
) -> None:
    assert cut((1, 32_000), 2, 8, h200) != cut((9999, 32_000), 2, 8, h200)  # else there is no need
    for cols in (1, 64, 250, 781, 1024, 4096, 32_000, 50_257, 131_072, 1 << 19, 1 << 20, 1 << 21):
        for width in {1, max(1, 16 // dtype.itemsize)}:
            [kernel] = {choice((m, cols), dtype, h200, width, True) for m in (1, 9, 200, 9999)}
            if isinstance(kernel, Cluster | FusedMultirow):  # no tunable is left to the rows
                assert None not in astuple(kernel)
