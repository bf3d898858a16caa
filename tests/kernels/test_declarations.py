from __future__ import annotations

import pytest
import sympy

from kernels.kernel import Kernel
from kernels.softmax.hybrid import Hybrid
from kernels.softmax.peers.flag_gems import FlagGems
from kernels.traffic import M, N, Traffic, evaluate
from tests.kernels.variants import COPIES, PEERS, SOFTMAXES, WAITING, name

# (formula, LaTeX, reads and writes at 3 × 16, elements of a row on chip at N = 16)
DECLARED = {
    "Naive": ("8MN + 4M", "8 M N + 4 M", (246, 150), 1),
    "NaiveScript": ("8MN + 4M", "8 M N + 4 M", (246, 150), 1),
    "TorchSoftmax": ("2MN", "2 M N", (48, 48), 16),
    "Compiled": ("2MN", "2 M N", (48, 48), 16),
    "ThreePass": ("4MN", "4 M N", (144, 48), 16),
    "Fused": ("2MN", "2 M N", (48, 48), 16),
    "FusedRow": ("2MN", "2 M N", (48, 48), 16),
    "FusedMultirow": ("2MN", "2 M N", (48, 48), 16),
    "Cluster": ("2MN", "2 M N", (48, 48), 16),
    "ClusterReduce": ("2MN", "2 M N", (48, 48), 16),
    "Online": ("3MN", "3 M N", (96, 48), 16),
    "Cooperative": ("2MN", "2 M N", (48, 48), 16),
    "Liger": ("2MN", "2 M N", (48, 48), 16),
    "Quack": ("2MN", "2 M N", (48, 48), 16),
    "Copy": ("2MN", "2 M N", (48, 48), 1),
    "CopyTriton": ("2MN", "2 M N", (48, 48), 16),
}
EVERY = SOFTMAXES + WAITING + COPIES + PEERS


@pytest.mark.parametrize("kernel", [k for k in EVERY if name(k) in DECLARED], ids=name)
def test_traffic_and_footprint_are_those_of_the_papers(kernel: Kernel) -> None:
    text, latex, elements, on_chip = DECLARED[name(kernel)]
    traffic = kernel.traffic()
    assert (str(traffic), traffic.latex()) == (text, latex)
    assert traffic.elements({"M": 3, "N": 16}) == elements
    assert evaluate(kernel.on_chip_elements(), {"M": 3, "N": 16}) == on_chip


@pytest.mark.parametrize("kernel", EVERY, ids=name)
def test_no_kernel_declares_less_than_its_operation_must_move(kernel: Kernel) -> None:
    sizes = kernel.operation.sizes((7, 1000))
    reads, writes = kernel.traffic().elements(sizes)
    least_reads, least_writes = kernel.operation.compulsory.elements(sizes)
    assert (reads >= least_reads, writes >= least_writes) == (True, True)


def test_hybrid_turns_from_one_pass_to_three_past_its_block() -> None:
    kernel = Hybrid(block_size=1024)
    traffic = kernel.traffic()
    assert str(traffic) == "2MN if N ≤ 1024 else 4MN"
    assert "cases" in traffic.latex()
    assert traffic.elements({"M": 2, "N": 1024}) == (2048, 2048)
    assert traffic.elements({"M": 2, "N": 1025}) == (6150, 2050)
    assert evaluate(kernel.on_chip_elements(), {"N": 100}) == 100
    assert evaluate(kernel.on_chip_elements(), {"N": 5000}) == 1024


def test_flag_gems_turns_from_one_pass_to_two_past_its_widest_tile() -> None:
    traffic, on_chip = FlagGems().traffic(), FlagGems().on_chip_elements()
    assert str(traffic) == "2MN if N ≤ 32768 else 3MN"
    assert traffic.elements({"M": 2, "N": 32768}) == (65536, 65536)
    assert traffic.elements({"M": 2, "N": 32769}) == (131076, 65538)
    assert [evaluate(on_chip, {"N": cols}) for cols in (100, 32769)] == [100, 4096]


def test_formula_without_a_size_or_a_whole_value_is_refused() -> None:
    with pytest.raises(ValueError, match=r"needs sizes for \['N'\]"):
        Traffic(M * N, M).elements({"M": 2})
    with pytest.raises(ValueError, match="not a whole number"):
        evaluate(N / sympy.Integer(2), {"N": 3})
