from __future__ import annotations

from typing import Any

import pytest

from kernels.copy.copy_triton import CopyTriton
from kernels.kernel import Kernel
from kernels.softmax.compiled import Compiled
from kernels.softmax.fused import Fused
from kernels.softmax.fused_row import FusedRow
from kernels.softmax.hybrid import Hybrid
from kernels.softmax.naive import Naive
from kernels.softmax.naive_script import NaiveScript
from kernels.softmax.online import Online
from kernels.softmax.three_pass import ThreePass

TILED = (ThreePass, Hybrid, Online, CopyTriton)
TRITON = (*TILED, Fused, FusedRow)
ACCUMULATING = (Naive, NaiveScript, Compiled, ThreePass, Fused, FusedRow, Hybrid, Online)


def refused(kind: type[Kernel], tunable: str, value: Any) -> str:
    with pytest.raises(ValueError, match=f"^{tunable} must be") as caught:
        kind(**{tunable: value})
    said = str(caught.value)
    assert repr(value) in said
    assert "\n" not in said
    return said


@pytest.mark.parametrize("value", [0, -16, 1000, 1 << 21, "1024", 1024.0, True, None, [1024]])
@pytest.mark.parametrize("kind", TILED)
def test_block_size_must_be_a_power_of_two(kind: type[Kernel], value: Any) -> None:
    assert "power of two from 1 to 1048576" in refused(kind, "block_size", value)


@pytest.mark.parametrize("value", [0, 3, 64, "4", 4.0, True])
@pytest.mark.parametrize("kind", TRITON)
def test_num_warps_must_be_a_power_of_two_up_to_32(kind: type[Kernel], value: Any) -> None:
    assert "power of two from 1 to 32" in refused(kind, "num_warps", value)


@pytest.mark.parametrize("value", [0, 17, "2", 2.0, True])
def test_num_stages_must_be_a_small_whole_number(value: Any) -> None:
    assert "whole number from 1 to 16" in refused(Fused, "num_stages", value)


@pytest.mark.parametrize("value", ["float16", "double", "", 64, None, ["float32"]])
@pytest.mark.parametrize("kind", ACCUMULATING)
def test_accumulate_must_be_float32_or_float64(kind: type[Kernel], value: Any) -> None:
    assert "float32 or float64" in refused(kind, "accumulate", value)
