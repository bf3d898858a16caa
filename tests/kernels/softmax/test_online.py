from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
import torch

from kernels.device import Device
from kernels.softmax import online
from kernels.softmax.online import EVICT, Online, rows_in_l2
from tests.kernels.inputs import extremes
from tests.kernels.variants import DTYPES, assert_softmax

# NumPy, under the interpreter, remarks on every -inf - -inf
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

WAYS = list(product((1, 3), (False, True), EVICT, (None, 1, 4, 100, "l2")))


@pytest.mark.parametrize(("stages", "reverse", "evict", "cap"), WAYS, ids=str)
def test_every_way_through_gives_the_answer_of_float64(
    device: str, stages: int, reverse: bool, evict: str, cap: int | str | None
) -> None:
    kernel = Online(16, 4, stages, reverse, evict, cap)
    dtype = DTYPES[WAYS.index((stages, reverse, evict, cap)) % len(DTYPES)]
    assert_softmax(kernel, extremes().to(device, dtype))
    assert_softmax(kernel, torch.randn(33, 9, device=device).to(dtype).t())


def test_the_ways_differ_in_no_bit(device: str) -> None:
    x = torch.randn(5, 50, device=device)  # four chunks, and more rows than some caps
    wanted = Online(16)(x)
    for stages, reverse, evict, cap in WAYS[::7]:
        assert torch.equal(Online(16, 4, stages, reverse, evict, cap)(x), wanted)


def test_half_of_l2_is_filled_with_rows(h200: Device) -> None:
    device = replace(h200, l2_bytes=60 << 20)
    assert rows_in_l2(1 << 20, device) == 30
    assert rows_in_l2((1 << 20) + 1, device) == 29
    assert rows_in_l2(1 << 30, device) == 1
    assert rows_in_l2(1 << 20, h200) is None


def test_programs_are_capped_by_rows_by_l2_or_not_at_all(
    h200: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = torch.empty(100, 1 << 10)
    assert Online()._programs(x) == 100
    assert Online(rows_in_flight=7)._programs(x) == 7
    assert Online(rows_in_flight=1000)._programs(x) == 100
    assert Online(rows_in_flight="l2")._programs(x) == 100  # a CPU reports no L2
    monkeypatch.setattr(online, "device_of", lambda x: replace(h200, l2_bytes=8 * x.stride(0) * 4))
    assert Online(rows_in_flight="l2")._programs(x) == 4
