from __future__ import annotations

from typing import Any

import pytest

from kernels.copy.copy_triton import CopyTriton
from kernels.kernel import Kernel
from kernels.softmax.cluster_reduce import ClusterReduce
from kernels.softmax.compiled import Compiled
from kernels.softmax.fused import Fused
from kernels.softmax.fused_multirow import FusedMultirow
from kernels.softmax.fused_row import FusedRow
from kernels.softmax.hybrid import Hybrid
from kernels.softmax.naive import Naive
from kernels.softmax.naive_script import NaiveScript
from kernels.softmax.online import Online
from kernels.softmax.three_pass import ThreePass

TILED = (ThreePass, Hybrid, Online, CopyTriton)
TRITON = (*TILED, Fused, FusedRow, FusedMultirow, ClusterReduce)
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
    for kind in (Fused, Online):
        assert "whole number from 1 to 16" in refused(kind, "num_stages", value)


@pytest.mark.parametrize(
    ("kind", "tunable", "value", "due"),
    [
        *((FusedMultirow, "rows_per_program", v, "from 1 to 1024") for v in (0, 3, 2048, "8")),
        *((ClusterReduce, "num_ctas", v, "from 1 to 16") for v in (0, 3, 32, "8", True)),
        *((Online, "reverse", v, "true or false") for v in (1, "yes", None)),
        *((Online, "evict", v, "none or first or last_first") for v in ("last", "", None, 1)),
        *((Online, "rows_in_flight", v, "from 1 to 2147483647") for v in (0, "L2", True, 1.0)),
    ],
)
def test_a_variants_own_tunable_says_what_it_may_be(
    kind: type[Kernel], tunable: str, value: Any, due: str
) -> None:
    assert due in refused(kind, tunable, value)


@pytest.mark.parametrize("value", ["float16", "double", "", 64, None, ["float32"]])
@pytest.mark.parametrize("kind", ACCUMULATING)
def test_accumulate_must_be_float32_or_float64(kind: type[Kernel], value: Any) -> None:
    assert "float32 or float64" in refused(kind, "accumulate", value)


@pytest.mark.parametrize("value", ["max-autotune", "reduce-overhead", "", None, 1])
def test_mode_must_be_one_without_cuda_graphs(value: Any) -> None:
    assert "default or max-autotune-no-cudagraphs" in refused(Compiled, "mode", value)
