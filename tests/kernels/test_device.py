from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.device import Device, resident_programs
from kernels.language import next_power_of_two


@pytest.mark.parametrize(
    ("registers", "warps", "shared", "an_sm"),
    [
        (128, 8, 32, 2),  # 65536 / (128 · 32 · 8)
        (129, 8, 32, 1),  # a register more takes eight more: 136 of them for each thread
        (104, 4, 16, 4),  # 19 warps of 3328 registers would do, of which an SM places 16
        (100, 4, 16, 4),  # as 104
        (104, 2, 16, 8),  # and not 9: each of the four schedulers holds 4 of the 19
        (32, 8, 16, 8),  # the 64 warps bind, as the registers do
        (16, 4, 16, 16),  # warps alone
        (80, 8, 32, 3),
        (32, 4, 115_000, 2),  # shared memory, with the kilobyte that the driver takes
        (32, 4, 115_712, 2),
        (32, 4, 115_713, 1),
        (32, 4, 232_449, 0),  # not even one
        (255, 16, 0, 0),
        (0, 4, 0, 16),  # as little as can be: nothing is divided by zero
    ],
)
def test_programs_follow_the_scarcest_resource(
    h200: Device, registers: int, warps: int, shared: int, an_sm: int
) -> None:
    assert resident_programs(registers, warps, shared, h200) == 132 * an_sm


def test_a_device_described_without_its_limits_is_refused(h200: Device) -> None:
    with pytest.raises(ValueError, match="without one of its limits"):
        resident_programs(32, 4, 0, replace(h200, registers_per_sm=None))


@given(st.integers(1, 1 << 40))
def test_next_power_of_two_is_the_least_one(n: int) -> None:
    power = next_power_of_two(n)
    assert power & (power - 1) == 0
    assert power // 2 < n <= power
    assert next_power_of_two(0) == 1
