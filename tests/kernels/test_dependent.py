"""When a kernel is launched as a dependent of the one before, and that its answers stay right."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
import torch

from kernels.copy.copy_triton import CopyTriton
from kernels.device import Device
from kernels.kernel import Kernel
from kernels.launch import dependent, launch_option
from kernels.softmax.cluster import Cluster
from kernels.softmax.fused_multirow import FusedMultirow


def test_a_card_of_sm_90_or_newer_launches_dependents(h200: Device) -> None:
    ampere = dataclasses.replace(h200, capability=(8, 0))
    amd = dataclasses.replace(h200, capability=None)
    for wanted in (None, True, False):
        assert dependent(h200, wanted) is (wanted is not False)
        assert not dependent(ampere, wanted)
        assert not dependent(amd, wanted)


def test_triton_is_asked_only_where_it_is_wanted() -> None:
    assert launch_option(True) == {"launch_pdl": True}
    assert launch_option(False) == {}


@pytest.mark.parametrize("kernel", [CopyTriton, FusedMultirow, Cluster])
def test_dependent_is_true_false_or_null(kernel: type[Kernel]) -> None:
    with pytest.raises(ValueError, match="dependent must be true, false or null, not 'yes'"):
        kernel(dependent="yes")


Call = Callable[[torch.Tensor], torch.Tensor]


def overwritten_behind(call: Call, some: torch.Tensor, turn: int) -> list[torch.Tensor]:
    """Answers of a kernel that runs on its own answers, where each input is overwritten at once."""
    x = some * (1 + turn % 3)
    first = call(x)
    x.fill_(torch.nan)
    second = call(first)
    third = call(second)
    first.fill_(7)
    kept = second.clone()
    second.fill_(9)
    return [kept, third]


@pytest.mark.gpu
@pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability() < (9, 0),
    reason="needs a CUDA device of sm_90 or newer",
)
@pytest.mark.parametrize(
    ("kernel", "shape"),
    [
        (FusedMultirow, (32_768, 256)),
        (FusedMultirow, (300, 1000)),
        (Cluster, (300, 8192)),
        (Cluster, (64, 262_144)),
        (CopyTriton, (4096, 1024)),
    ],
)
def test_no_kernel_of_a_chain_reads_what_the_one_before_has_yet_to_write(
    kernel: type[Kernel], shape: tuple[int, int]
) -> None:
    some = torch.randn(*shape, device="cuda")
    alone, call = kernel(dependent=False).prepare(some), kernel(dependent=True).prepare(some)
    wanted = [overwritten_behind(alone, some, turn) for turn in range(3)]
    for turn in range(200):
        made = overwritten_behind(call, some, turn)
        assert all(map(torch.equal, made, wanted[turn % 3]))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = [overwritten_behind(call, some, turn) for turn in range(12)]
    for _ in range(50):
        graph.replay()
        for turn, made in enumerate(captured):
            assert all(map(torch.equal, made, wanted[turn % 3]))
