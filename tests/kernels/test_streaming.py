"""When loads ask L2 to keep them, and that asking changes no result."""

from __future__ import annotations

import pytest
import torch

from kernels.copy.copy_triton import CopyTriton
from kernels.device import Device
from kernels.kernel import Kernel
from kernels.softmax.multirow.fused_multirow import FusedMultirow
from kernels.streaming import load_hint, streams

L2 = 60 << 20


def test_an_input_of_three_times_l2_streams() -> None:
    card = Device("cuda", "a card", l2_bytes=L2)
    assert streams(3 * L2, card)
    assert not streams(3 * L2 - 1, card)
    assert not streams(1 << 40, Device("cpu", "a CPU that tells no cache"))


def test_what_is_asked_for_goes_before_the_rule() -> None:
    x = torch.empty(2, 3)
    assert load_hint(x, None) == ""
    assert load_hint(x, True) == "evict_last"
    assert load_hint(x, False) == ""


@pytest.mark.parametrize("kernel", [CopyTriton, FusedMultirow])
def test_a_hint_changes_no_bit(kernel: type[Kernel], device: str) -> None:
    x = torch.randn(9, 300, device=device)
    assert torch.equal(kernel(keep=True)(x), kernel(keep=False)(x))


@pytest.mark.parametrize("kernel", [CopyTriton, FusedMultirow])
def test_keep_is_true_false_or_null(kernel: type[Kernel]) -> None:
    with pytest.raises(ValueError, match="keep must be true, false or null, not 'yes'"):
        kernel(keep="yes")
