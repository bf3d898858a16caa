from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.language import next_power_of_two

WITHOUT_TRITON = """
import sys
sys.modules["triton"] = None  # as where it is not installed
import torch
from kernels.device import Device
from tests.kernels.variants import COPIES, SOFTMAXES

for kernel in SOFTMAXES + COPIES:
    said = kernel.unsupported((2, 3), torch.float32, Device(kind="cpu", name="cpu"))
    assert (said is not None and "not installed" in said) == (kernel.backend == "triton"), said
print("described")
"""


def test_without_triton_its_variants_are_unsupported_and_the_others_run() -> None:
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT_TRITON],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.stdout.strip() == "described", run.stderr[-2000:]


@pytest.mark.parametrize(
    ("n", "power"), [(0, 1), (1, 1), (2, 2), (3, 4), (781, 1024), (4096, 4096)]
)
def test_next_power_of_two(n: int, power: int) -> None:
    assert next_power_of_two(n) == power


@given(st.integers(1, 1 << 40))
def test_next_power_of_two_is_the_least_one(n: int) -> None:
    power = next_power_of_two(n)
    assert power & (power - 1) == 0
    assert power // 2 < n <= power
